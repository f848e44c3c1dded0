package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/feedclient/feedsim"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// echo is what the simulated feed answers.
type echo struct {
	Of string `json:"of"`
}

// withFeed runs a test with a client of a simulated feed, in a bubble: time passes when all wait, and no goroutine is
// left.
func withFeed(t *testing.T, o feedsim.Options, test func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := feedsim.New(o)
		f := newFeed[string, echo](sim, "risk", FeedOptions{})
		defer f.Release()
		test(t, sim, f)
	})
}

func takes(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

// withErrors makes every item fail that begins with "bad".
func withErrors(item json.RawMessage) bool { return strings.HasPrefix(string(item), `"bad`) }

func numbered(n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	return items
}

func TestFeed_Call(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Fails: withErrors, Slots: 1, Work: takes(time.Second)}, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
		out, err := f.Call(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, echo{"a"}, out)

		_, err = f.Call(t.Context(), "bad")
		failed := isCode(t, err, CodeItem)
		require.EqualValues(t, 1, *failed.Item)
		require.Equal(t, job.KindError, failed.Kind())
		require.Equal(t, job.Error{Type: "Bad", Message: `"bad"`, Stack: "remote"}, failed.Failure.Error)
		require.Equal(t, 1, failed.Failure.Attempts)
		var remote *job.Error
		require.ErrorAs(t, err, &remote)

		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err = f.Call(ctx, "slow")
		late := isCode(t, err, CodeTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 200*time.Millisecond, late.Waited)
		require.Equal(t, late.Waited, time.Since(start))
		synctest.Wait()
		require.Equal(t, 1, sim.Backlog(), "the item keeps its place")
		time.Sleep(time.Second)
		require.Zero(t, sim.Backlog())
		out, err = f.Call(t.Context(), "next")
		require.NoError(t, err)
		require.Equal(t, echo{"next"}, out, "a late result does no harm")
	})
}

// Without a deadline, a call ends after 60 s, and says for how much of that it was in the queue.
func TestFeed_CallLimit(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Slots: 1, Work: takes(40 * time.Second)}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		require.NoError(t, f.Put(t.Context(), "first"))
		start := time.Now()
		_, err := f.Call(t.Context(), "second")
		require.Equal(t, &FeedError{Code: CodeTimeout, Accepted: true, Queued: new(40 * time.Second), Waited: DefaultFeedLimit}, err)
		require.Equal(t, DefaultFeedLimit, time.Since(start))
	})
}

// F1: put never waits, PutWait waits up to its limit, and the refusal names the time waited.
func TestFeed_Full(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Slots: 1, Capacity: 3, Work: takes(10 * time.Second)}, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
		require.NoError(t, f.Put(t.Context(), "a", "b", "c"))
		full, err := f.Full(t.Context())
		require.NoError(t, err)
		require.True(t, full)
		start := time.Now()
		err = f.Put(t.Context(), "refused")
		refused := isCode(t, err, CodeFull)
		require.Zero(t, time.Since(start))
		require.Equal(t, 3, refused.MaxItems)
		require.Equal(t, 3, refused.Items)
		require.Zero(t, refused.Waited)

		err = f.PutWait(t.Context(), 3*time.Second, "refused")
		require.Equal(t, 3*time.Second, isCode(t, err, CodeFull).Waited)
		require.ErrorContains(t, err, "3 of 3 items")
		require.ErrorContains(t, err, "waited 3s")

		require.NoError(t, f.PutWait(t.Context(), 10*time.Second, "fits"))
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.3)
		require.NotContains(t, sim.Seen().Accepted, `"refused"`)

		err = f.Put(t.Context(), "four", "are", "too", "many")
		require.Equal(t, &FeedError{Code: CodeTooLarge, Feed: "risk", Items: 4, Bytes: 22, MaxItems: 3, MaxBytes: 4 << 20}, err)

		time.Sleep(time.Minute)
		idle, err := f.Idle(t.Context())
		require.NoError(t, err)
		require.True(t, idle)
	})
}

// What cannot be sent is found before anything is.
func TestFeed_InvalidItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim := feedsim.New(feedsim.Options{})
		f := newFeed[any, json.RawMessage](sim, "risk", FeedOptions{Linger: time.Hour})
		defer f.Release()
		require.Equal(t, 2, isCode(t, f.Put(t.Context(), 1, 2, math.NaN()), CodeInvalidItem).Index)
		isCode(t, f.Put(t.Context(), json.RawMessage(`{"a":`)), CodeInvalidItem)
		_, err := f.Call(t.Context(), make(chan int))
		isCode(t, err, CodeInvalidItem)
		_, err = f.Call(t.Context(), strings.Repeat("x", MaxPutBytes))
		isCode(t, err, CodeTooLarge)
		require.Equal(t, MaxPutItems, isCode(t, f.Put(t.Context(), make([]any, MaxPutItems+1)...), CodeTooLarge).MaxItems)
		require.NoError(t, f.Put(t.Context()))
		require.Zero(t, sim.Seen().Exchanges)

		out, err := f.Call(t.Context(), json.RawMessage("{\"a\" :\n 1}"))
		require.NoError(t, err)
		require.JSONEq(t, `{"of":{"a":1}}`, string(out))
		require.Contains(t, sim.Seen().Accepted, `{"a":1}`, "on one line")
	})
}

// A result that cannot be decoded is an error of its item only.
func TestFeed_Decode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFeed[string, struct{ Of int }](feedsim.New(feedsim.Options{}), "risk", FeedOptions{})
		defer f.Release()
		_, err := f.Call(t.Context(), "text")
		isCode(t, err, CodeDecode)
	})
}

// F4.
func TestFeed_Reset(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Slots: 1, Work: takes(time.Second)}, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
		var calls sync.WaitGroup
		var discarded [3]*FeedError
		for i := range discarded {
			calls.Go(func() {
				_, err := f.Call(t.Context(), fmt.Sprint(i))
				errors.As(err, &discarded[i])
			})
		}
		synctest.Wait()
		done, err := f.Reset(t.Context())
		require.NoError(t, err)
		require.Equal(t, FeedReset{Session: 2, Discarded: 2}, done)
		calls.Wait()
		for _, d := range discarded {
			require.EqualValues(t, 1, isCode(t, d, CodeDiscarded).Session)
		}
		time.Sleep(2 * time.Second)
		require.Zero(t, sim.Backlog())
	})
}

// A reset that races with results, a hundred times: no result of an old session shows after it has returned.
func TestFeed_ResetRaces(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Seed: 3, Slots: 4, Delay: 3 * time.Millisecond}, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
		for round := range 100 {
			session := sim.Session()
			var mu sync.Mutex
			over := false
			var calls sync.WaitGroup
			for i := range 20 {
				calls.Go(func() {
					_, err := f.Call(t.Context(), fmt.Sprintf("%d-%d", round, i))
					mu.Lock()
					defer mu.Unlock()
					if err == nil && over {
						t.Errorf("round %d: a result after the reset", round)
					}
				})
			}
			time.Sleep(time.Duration(round%20) * time.Millisecond)
			for { // all are with the feed, or done: none comes after the reset
				state, err := f.State(t.Context())
				require.NoError(t, err)
				if state.Accepted == int64(20*(round+1)) {
					break
				}
			}
			done, err := f.Reset(t.Context())
			mu.Lock()
			over = true
			mu.Unlock()
			require.NoError(t, err)
			require.Greater(t, done.Session, session)
			calls.Wait()
		}
		for value, n := range sim.Seen().Executed {
			require.Equal(t, 1, n, value)
		}
		time.Sleep(time.Second)
		idle, err := f.Idle(t.Context())
		require.NoError(t, err)
		require.True(t, idle)
	})
}

// F6: in input order, the right pairs, never more than the capacity in flight or held.
func TestFeed_Stream(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3} {
		o := feedsim.Options{Seed: seed, Slots: 3, Capacity: 16, SealAfter: 10, Early: time.Millisecond, Lost: 2, Mute: 2, Delay: time.Millisecond}
		withFeed(t, o, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
			items := numbered(300)
			taken, index := 0, int64(0)
			input := func(yield func(string) bool) {
				for _, item := range items {
					taken++
					if !yield(item) {
						return
					}
				}
			}
			for r, err := range f.Stream(t.Context(), input, StreamOptions{Items: true}) {
				require.NoError(t, err)
				require.Equal(t, index, r.Index)
				require.Equal(t, items[index], r.Item)
				require.Equal(t, items[index], r.Out.Of)
				index++
				synctest.Wait()
				require.LessOrEqual(t, taken, int(index)+16, "taken before there was a place")
			}
			require.EqualValues(t, 300, index)
			require.LessOrEqual(t, sim.Seen().MaxBacklog, 16)
			require.Equal(t, 1, slices.Max(slices.Collect(valuesOf(sim.Seen().Executed))))
		})
	}
}

func valuesOf(counts map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, n := range counts {
			if !yield(n) {
				return
			}
		}
	}
}

// F6: leaving early ends the feeding, of what has not been sent, too; the backlog is gone when what was with the feed
// is done.
func TestFeed_StreamLeft(t *testing.T) {
	t.Parallel()
	for _, window := range []int{0, 60} {
		withFeed(t, feedsim.Options{Slots: 3, Capacity: 20, Work: takes(50 * time.Millisecond)}, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
			n := 0
			ctx := context.WithoutCancel(t.Context()) // nothing but leaving ends the stream's goroutine
			for _, err := range f.Stream(ctx, slices.Values(numbered(100)), StreamOptions{Window: window}) {
				require.NoError(t, err)
				if n++; n == 34 {
					break
				}
			}
			synctest.Wait()
			accepted := len(sim.Seen().Accepted)
			require.LessOrEqual(t, accepted, 34+max(20, window))
			time.Sleep(2 * time.Second)
			require.Zero(t, sim.Backlog())
			require.Len(t, sim.Seen().Accepted, accepted, "nothing is fed any more")
		})
	}
}

// F6: an error is raised at its place, and ends the stream, or stands in place.
func TestFeed_StreamErrors(t *testing.T) {
	t.Parallel()
	items := []string{"a", "b", "bad", "c", "bad too", "d"}
	for _, inPlace := range []bool{false, true} {
		withFeed(t, feedsim.Options{Fails: withErrors}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
			var seen []string
			for r, err := range f.Stream(t.Context(), slices.Values(items), StreamOptions{InPlace: inPlace, Items: true}) {
				if IsCode(err, CodeItem) {
					seen = append(seen, "error of "+r.Item)
					continue
				}
				require.NoError(t, err)
				seen = append(seen, r.Out.Of)
			}
			if inPlace {
				require.Equal(t, []string{"a", "b", "error of bad", "c", "error of bad too", "d"}, seen)
			} else {
				require.Equal(t, []string{"a", "b", "error of bad"}, seen)
			}
		})
	}
}

// An item that cannot be put has its error at its place.
func TestFeed_StreamInvalid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFeed[float64, struct{ Of float64 }](feedsim.New(feedsim.Options{}), "risk", FeedOptions{})
		defer f.Release()
		var invalid int
		for r, err := range f.Stream(t.Context(), slices.Values([]float64{1, math.NaN(), 3}), StreamOptions{InPlace: true}) {
			if IsCode(err, CodeInvalidItem) {
				invalid++
				require.EqualValues(t, 1, r.Index)
				require.False(t, r.Numbered)
			}
		}
		require.Equal(t, 1, invalid)
	})
}

// F8: the feed's end, and the context's, end a stream.
func TestFeed_StreamEnds(t *testing.T) {
	t.Parallel()
	endless := func(yield func(string) bool) {
		for i := 0; yield(fmt.Sprint(i)); i++ {
		}
	}
	withFeed(t, feedsim.Options{Work: takes(time.Second)}, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
		var last error
		n := 0
		for _, err := range f.Stream(t.Context(), endless, StreamOptions{Window: 5, InPlace: true}) {
			if n++; n == 20 {
				sim.Stop()
			}
			last = err
		}
		require.ErrorAs(t, last, new(*feedsim.EndError))
	})
	withFeed(t, feedsim.Options{Work: takes(time.Second)}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var last error
		start := time.Now()
		for _, err := range f.Stream(ctx, endless, StreamOptions{Window: 5, InPlace: true}) {
			last = err
		}
		require.ErrorIs(t, last, context.DeadlineExceeded)
		require.Equal(t, 3500*time.Millisecond, time.Since(start))
	})
}

// F6: an input that waits for a result before it goes on gets it.
func TestFeed_StreamOfAnInputThatWaits(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		results := make(chan string)
		input := func(yield func(string) bool) {
			for i := range 10 {
				if !yield(fmt.Sprint(i)) {
					return
				}
				require.Equal(t, fmt.Sprint(i), <-results)
			}
		}
		n := 0
		for r, err := range f.Stream(t.Context(), input, StreamOptions{}) {
			require.NoError(t, err)
			results <- r.Out.Of
			n++
		}
		require.Equal(t, 10, n)
	})
}

// A panic of the input is one of the goroutine that ranges over the stream.
func TestFeed_StreamPanics(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		n := 0
		require.PanicsWithValue(t, "of the input", func() {
			input := func(yield func(string) bool) {
				yield("a")
				panic("of the input")
			}
			for range f.Stream(t.Context(), input, StreamOptions{}) {
				n++
			}
		})
		require.Equal(t, 1, n)
	})
}

// F6: streams and calls at once do not mix, over everything that a feed and its network do, and none waits for longer
// than its feed was silent.
func TestFeed_ManyAtOnce(t *testing.T) {
	t.Parallel()
	// What is lost without an error is missed after so long, the wait of an exchange and 3 s more, and may then be lost
	// again.
	const missed = wire.MaxExchangeWait + 3*time.Second
	for seed := range uint64(20) {
		o := feedsim.Options{
			Seed: seed, Slots: 1 + int(seed%5), Capacity: []int{8, 64, 256}[seed%3], BatchItems: 1 + int(seed%4), SealAfter: 20,
			Early: 5 * time.Millisecond, Lost: int(seed % 4), Mute: int(seed % 3), Delay: 2 * time.Millisecond, Fails: withErrors,
		}
		withFeed(t, o, func(t *testing.T, sim *feedsim.Feed, f *Feed[string, echo]) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			began := time.Now()
			var users sync.WaitGroup
			for s := range 4 {
				users.Go(func() { streamAll(t, f, fmt.Sprintf("stream-%d", s), 100) })
			}
			for c := range 50 {
				users.Go(func() { callAll(t, f, fmt.Sprintf("caller-%d", c), 5) })
			}
			users.Wait()
			seen := sim.Seen()
			require.Less(t, time.Since(began), 10*time.Second+time.Duration(seen.Silent)*missed, "%d silences", seen.Silent)
			require.LessOrEqual(t, seen.MaxBacklog, o.Capacity)
			for value, n := range seen.Accepted {
				require.Equal(t, 1, n, value)
			}
		})
	}
}

func streamAll(t *testing.T, f *Feed[string, echo], name string, n int) {
	t.Helper()
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%s-%d", name, i)
		if i%10 == 7 {
			items[i] = "bad-" + items[i]
		}
	}
	index := 0
	for r, err := range f.Stream(t.Context(), slices.Values(items), StreamOptions{InPlace: true}) {
		want := items[index]
		failed, _ := errors.AsType[*FeedError](err)
		switch {
		case failed != nil && failed.Code == CodeItem && failed.Failure.Error.Message == `"`+want+`"`:
		case err == nil && r.Out.Of == want:
		default:
			t.Errorf("%s: %+v, %v", want, r, err)
			return
		}
		index++
	}
	if index != n {
		t.Errorf("%s: %d results", name, index)
	}
}

// callAll calls one item after the other, each for so long that no number of losses in a row makes it late.
func callAll(t *testing.T, f *Feed[string, echo], name string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	for i := range n {
		item := fmt.Sprintf("%s-%d", name, i)
		for {
			out, err := f.Call(ctx, item)
			if IsCode(err, CodeFull) {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if err != nil || out.Of != item {
				t.Errorf("%s: %+v, %v", item, out, err)
			}
			break
		}
	}
}

// Release wakes everyone who waits, with an error that says so.
func TestFeed_Release(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Work: takes(time.Hour)}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		var users sync.WaitGroup
		users.Go(func() {
			_, err := f.Call(t.Context(), "a")
			if !IsCode(err, CodeReleased) {
				t.Error(err)
			}
		})
		users.Go(func() {
			for _, err := range f.Stream(t.Context(), slices.Values(numbered(5)), StreamOptions{Window: 2}) {
				if !IsCode(err, CodeReleased) {
					t.Error(err)
				}
			}
		})
		synctest.Wait()
		f.Release()
		users.Wait()
	})
}

// Each error says what is wrong, and what to do.
func TestFeedErrors_AreTyped(t *testing.T) {
	t.Parallel()
	f := &Feed[string, echo]{name: "risk"}
	for _, c := range []struct {
		from error
		want string
	}{
		{feedclient.ErrUnserved, "no worker serves the pool of feed risk: start one"},
		{&feedclient.UncertainError{Err: feedclient.ErrUnserved}, "no worker serves the pool of feed risk: start one; it is not known whether the request was accepted"},
		{&feedclient.LateError{Queued: time.Second, Total: 3 * time.Second}, "no outcome within 3s, 1s of that in the queue"},
		{&feedclient.LateError{Queued: -1, Total: 3 * time.Second}, "no outcome within 3s; it is not known whether the item was accepted"},
		{&feedclient.LateError{Accepted: true, Queued: -1, Total: 3 * time.Second}, "no outcome within 3s; it is not known how much of that in the queue"},
		{&feedclient.LateError{Queued: 3 * time.Second, Total: 3 * time.Second}, "no outcome within 3s, all of that in the queue"},
		{&feedclient.RefusedError{Type: "Closed"}, "feed risk has been closed"},
		{&feedclient.RefusedError{Type: "Stopping"}, "feed risk is stopping"},
		{&feedclient.EndedError{Err: &FeedError{Code: CodeStopped, Feed: "risk", State: job.Stopped}}, "feed risk has been stopped: resume it"},
		{&feedclient.EndedError{Err: &FeedError{Code: CodeNotFeed, Feed: "nightly"}}, "job nightly is not a feed: start one with Spec.Feed"},
	} {
		require.EqualError(t, f.typed(c.from, 0), c.want)
	}
	require.NoError(t, f.typed(nil, 0))
}

// uncommitted is a store in which no result is committed.
type uncommitted struct{ FeedStore }

func (uncommitted) Find(context.Context, job.Report, int64) (wire.ItemResult, bool, error) {
	return wire.ItemResult{}, false, nil
}

// A result that is stored, and is not committed while its caller waits, is a time-out of an item that was accepted.
func TestFeed_F3_StoredResultIsNotCommittedInTime(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		f.store = uncommitted{}
		f.report = func(context.Context) (job.Report, error) { return job.Report{State: job.Running}, nil }
		stored := wire.ItemResult{Item: 3, Stored: true}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := f.fetch(ctx, stored, time.Now())
		late := isCode(t, err, CodeTimeout)
		require.True(t, late.Accepted)
		require.Equal(t, 2*time.Second, late.Waited)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = f.fetch(ctx, stored, time.Now())
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A report that fails up to four times in a row ends no caller and no reader; the fifth failure does. If there is no
// such job, the first does.
func TestFeed_F11_LateReport(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		f.store = committed{}
		var late int
		var wrong error
		f.report = func(context.Context) (job.Report, error) {
			if late--; late >= 0 {
				return job.Report{}, wrong
			}
			return job.Report{State: job.Completed, Feed: &job.FeedReport{}}, nil
		}
		reads := func(n int, why error) error {
			late, wrong = n, why
			for r, err := range f.Results(t.Context(), FeedCursor{}, ResultsOptions{}) {
				if err != nil {
					return err
				}
				require.Equal(t, echo{Of: "a"}, r.Out)
			}
			return nil
		}
		unanswered := &UnansweredError{Name: "risk", Err: context.DeadlineExceeded}
		require.NoError(t, reads(4, unanswered))
		require.ErrorIs(t, reads(5, unanswered), unanswered)
		require.ErrorAs(t, reads(1, &NotFoundError{Name: "risk"}), new(*NotFoundError))

		late, wrong = 4, unanswered
		found, err := f.fetch(t.Context(), wire.ItemResult{Item: 3, Stored: true}, time.Now())
		require.NoError(t, err)
		require.Equal(t, echoed, string(found.Result))
	})
}

// committed is a store in which every item has one result.
type committed struct{ FeedStore }

const echoed = `{"of":"a"}`

func (committed) Find(context.Context, job.Report, int64) (wire.ItemResult, bool, error) {
	return wire.ItemResult{Result: []byte(echoed)}, true, nil
}

func (c committed) Follow(FeedCursor) FeedFollower { return c }

func (committed) Next(_ context.Context, _ job.Report, yield func([]byte, FeedCursor) error) error {
	return yield([]byte(echoed), FeedCursor{Item: 1})
}

// TestD14_SilentFeed: a feed whose workers have died or are frozen does not answer. Every request keeps its own limit,
// and says so.
func TestD14_SilentFeed(t *testing.T) {
	t.Parallel()
	withFeed(t, feedsim.Options{Lost: 100}, func(t *testing.T, _ *feedsim.Feed, f *Feed[string, echo]) {
		within := func(limit time.Duration, ask func(context.Context) error) *FeedError {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			err := ask(ctx)
			require.LessOrEqual(t, time.Since(began), limit)
			require.True(t, IsCode(err, CodeSilent))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "feed risk has not answered within")
			silent, _ := errors.AsType[*FeedError](err)
			return silent
		}
		require.Equal(t, 5*time.Second, within(10*time.Second, func(ctx context.Context) (err error) {
			for _, err = range f.Stream(ctx, slices.Values([]string{"a", "b"}), StreamOptions{InPlace: true, Limit: 5 * time.Second}) {
			}
			return err
		}).Waited)
		within(2*time.Second, func(ctx context.Context) error { _, err := f.State(ctx); return err })
		within(2*time.Second, func(ctx context.Context) error {
			_, err := f.Reset(ctx)
			isCode(t, err, CodeUncertain)
			return err
		})
		within(2*time.Second, func(ctx context.Context) error {
			err := f.Close(ctx)
			isCode(t, err, CodeUncertain)
			return err
		})
	})
}
