package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
)

// witness counts the executions of items.
type witness struct {
	mu      sync.Mutex
	times   map[string]int
	running int
	most    int // at a time
}

// enter notes the beginning of an item; leave is called at its end.
func (w *witness) enter(item string) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.times == nil {
		w.times = map[string]int{}
	}
	w.times[item]++
	w.running++
	w.most = max(w.most, w.running)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running--
	}
}

// requireOnce fails unless exactly these items have run, once each.
func (w *witness) requireOnce(t *testing.T, items []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.ElementsMatch(t, items, slices.Collect(maps.Keys(w.times)))
	for item, n := range w.times {
		require.Equal(t, 1, n, item)
	}
}

// newFeed is a client of the cluster's feed.
func newFeed[In, Out any](c *cluster) *jobs.Feed[In, Out] {
	feed := jobs.NewFeed[In, Out](jobs.NewClient(c.client, nil), "job", jobs.FeedOptions{})
	c.t.Cleanup(feed.Release)
	return feed
}

// awaitIdle waits until nothing of a feed is unfinished.
func awaitIdle[In, Out any](t *testing.T, feed *jobs.Feed[In, Out]) {
	t.Helper()
	require.Eventually(t, func() bool {
		idle, err := feed.Idle(t.Context())
		return assert.NoError(t, err) && idle
	}, patience, 5*time.Millisecond)
}

// F1, F2: callers that try again after a refusal, in five rounds on one feed: each round has its results, each item ran
// once and is in the output once, and the feed is idle in between.
func TestFeed_RoundsOfRefusals(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	var w witness
	c.serve(worker.Each(func(_ context.Context, item string) (string, error) {
		defer w.enter(item)()
		return "did " + item, nil
	}), worker.Options{Slots: 2})
	f := c.startFeed(func(s *job.Spec) { s.Feed.Capacity = 20 })
	feed := newFeed[string, string](c)
	var all []string
	var refusals atomic.Int64
	for round := range 5 {
		var mu sync.Mutex
		results := map[string]int{}
		var callers sync.WaitGroup
		for i := range 200 {
			item := fmt.Sprintf("round %d item %d", round, i)
			all = append(all, item)
			callers.Go(func() {
				for {
					result, err := feed.Call(t.Context(), item)
					if full, ok := errors.AsType[*jobs.FeedError](err); ok && full.Code == jobs.CodeFull {
						assert.Equal(t, 20, full.MaxItems)
						refusals.Add(1)
						continue
					}
					assert.NoError(t, err)
					assert.Equal(t, "did "+item, result)
					mu.Lock()
					results[result]++
					mu.Unlock()
					return
				}
			})
		}
		callers.Wait()
		require.Len(t, results, 200)
		idle, err := feed.Idle(t.Context())
		require.NoError(t, err)
		require.True(t, idle)
	}
	require.Positive(t, refusals.Load())
	t.Logf("%d refusals", refusals.Load())
	require.NoError(t, feed.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, len(all), report.OK)
	require.EqualValues(t, len(all), report.Planned)
	w.requireOnce(t, all)
	var lines []string
	for _, item := range all {
		lines = append(lines, fmt.Sprintf("%q", "did "+item))
	}
	require.ElementsMatch(t, lines, strings.Split(strings.TrimSpace(c.read("out")), "\n"))
}

// F1: a refused item is nowhere: no handler has seen it, no number counts it, no result and no event of any history has
// it.
func TestFeed_RefusedLeavesNoTrace(t *testing.T) {
	t.Parallel()
	c := setup(t)
	var w witness
	release := make(chan struct{})
	c.serve(worker.Each(func(_ context.Context, item string) (string, error) {
		defer w.enter(item)()
		<-release
		return item, nil
	}), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.Feed.Capacity = 4 })
	feed := newFeed[string, string](c)
	accepted := []string{"accepted-1", "accepted-2", "accepted-3"}
	require.NoError(t, feed.PutWait(t.Context(), patience, accepted...))
	require.Equal(t, 3, isCode(t, feed.Put(t.Context(), "refused-1", "refused-2"), jobs.CodeFull).Items)
	require.NoError(t, feed.Put(t.Context(), "accepted-4"))
	accepted = append(accepted, "accepted-4")
	for range 3 {
		_, err := feed.Call(t.Context(), "refused-3")
		isCode(t, err, jobs.CodeFull)
	}
	close(release)
	require.NoError(t, feed.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, 4, report.Planned)
	require.EqualValues(t, 4, report.OK)
	w.requireOnce(t, accepted)
	require.NotContains(t, c.read("out"), "refused")
	var histories strings.Builder
	for _, id := range []string{"job", wire.LegID("job", 1)} {
		for events := c.client.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
			event, err := events.Next()
			require.NoError(t, err)
			data, err := event.Marshal()
			require.NoError(t, err)
			histories.Write(data)
		}
	}
	require.Contains(t, histories.String(), "accepted-4")
	require.NotContains(t, histories.String(), "refused-")
}

// F1, F3: twelve callers at once of a feed that takes eight items, in five rounds: four are refused with that number,
// the others time out with both times. The backlog is what is still inside until that has ended, and late results do no
// harm.
func TestFeed_TwelveCallersOfEightPlaces(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	var w witness
	var gate atomic.Pointer[chan struct{}]
	c.serve(worker.Each(func(_ context.Context, item string) (string, error) {
		defer w.enter(item)()
		<-*gate.Load()
		return item, nil
	}), worker.Options{Slots: 2})
	f := c.startFeed(func(s *job.Spec) { s.Feed.Capacity, s.BatchItems = 8, 1 })
	feed := newFeed[string, string](c)
	awaitIdle(t, feed) // it takes items
	// unscheduled is how long a caller may not run between its deadline being set and its call, from which it counts.
	const unscheduled = 100 * time.Millisecond
	total, told := 0, 0
	for round := range 5 {
		release := make(chan struct{})
		gate.Store(&release)
		limit := longEnough(t, feed)
		var refused, late, unsure atomic.Int64
		var callers sync.WaitGroup
		for i := range 12 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit+unscheduled)
				defer cancel()
				began := time.Now()
				_, err := feed.Call(ctx, fmt.Sprintf("round %d item %d", round, i))
				took := time.Since(began)
				e, ok := errors.AsType[*jobs.FeedError](err)
				switch {
				case !assert.True(t, ok, "%v", err):
				case e.Code == jobs.CodeFull:
					refused.Add(1)
					assert.Equal(t, 8, e.MaxItems)
					assert.Zero(t, e.Waited)
				case assert.Equal(t, jobs.CodeTimeout, e.Code):
					late.Add(1)
					if !e.Accepted { // nothing has answered within the limit
						unsure.Add(1)
						assert.ErrorContains(t, err, "it is not known whether the item was accepted")
						return
					}
					deadline, _ := ctx.Deadline()
					assert.False(t, time.Now().Before(deadline))
					assert.LessOrEqual(t, e.Waited, took)
					assert.GreaterOrEqual(t, e.Waited.Round(time.Millisecond), limit)
					if e.Queued != nil {
						assert.LessOrEqual(t, *e.Queued, e.Waited)
					}
					assert.ErrorContains(t, err, "no outcome within "+e.Waited.Round(time.Millisecond).String())
					assert.ErrorContains(t, err, "in the queue")
				}
			})
		}
		callers.Wait()
		require.EqualValues(t, 4, refused.Load())
		require.EqualValues(t, 8, late.Load())
		if unsure.Load() == 0 {
			told++
		}
		state, err := feed.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, 8, state.Backlog, "an item keeps its place until it is done")
		full, err := feed.Full(t.Context())
		require.NoError(t, err)
		require.True(t, full)
		close(release)
		awaitIdle(t, feed)
		total += 8
	}
	require.NotZero(t, told, "in no round all who were late knew that their items are accepted")
	require.NoError(t, feed.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, total, report.OK)
	require.Len(t, w.times, total)
	require.Equal(t, 2, w.most)
}

// longEnough is a limit of calls within which the feed has accepted them, and has answered why they are late: many
// times what it takes over a question now, on a machine that may be busy.
func longEnough(t *testing.T, feed *jobs.Feed[string, string]) time.Duration {
	t.Helper()
	began := time.Now()
	for range 3 {
		_, err := feed.State(t.Context())
		require.NoError(t, err)
	}
	return min(max(1200*time.Millisecond, 60*time.Since(began)), 20*time.Second)
}

// F6: a stream of items that take random times, over three slots: order and pairs are kept, no more are taken from the
// input than there are places, and single calls and another stream at the same time get their own results.
func TestFeed_F6_StreamsInOrder(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	var w witness
	c.serve(worker.Each(func(_ context.Context, item string) (string, error) {
		defer w.enter(item)()
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond) // the work
		return "did " + item, nil
	}), worker.Options{Slots: 3})
	const capacity = 24
	f := c.startFeed(func(s *job.Spec) { s.Feed.Capacity, s.BatchItems = capacity, 2 })
	feed := newFeed[string, string](c)
	var all sync.WaitGroup
	stream := func(name string, window int) {
		var taken, yielded atomic.Int64
		input := func(yield func(string) bool) {
			for i := range 100 {
				assert.LessOrEqual(t, taken.Add(1), yielded.Load()+int64(window)+1, "taken before there was a place")
				if !yield(fmt.Sprint(name, i)) {
					return
				}
			}
		}
		for r, err := range feed.Stream(t.Context(), input, jobs.StreamOptions{Window: window, Items: true}) {
			n := yielded.Add(1) - 1
			if !assert.NoError(t, err) || !assert.Equal(t, n, r.Index) || !assert.Equal(t, fmt.Sprint(name, n), r.Item) || !assert.Equal(t, "did "+r.Item, r.Out) {
				return
			}
		}
		assert.EqualValues(t, 100, yielded.Load())
	}
	all.Go(func() { stream("a", capacity) })
	all.Go(func() { stream("b", 5) })
	all.Go(func() {
		for i := range 50 {
			item := fmt.Sprint("call", i)
			result, err := feed.Call(t.Context(), item)
			for jobs.IsCode(err, jobs.CodeFull) {
				result, err = feed.Call(t.Context(), item)
			}
			assert.NoError(t, err)
			assert.Equal(t, "did "+item, result)
		}
	})
	all.Wait()
	awaitIdle(t, feed)
	require.NoError(t, feed.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, 250, report.OK)
	require.Len(t, w.times, 250)
	require.LessOrEqual(t, w.most, 3)
}

// F4: a hundred resets by another client, each while an item runs: it is not interrupted, and its result is never seen.
// The feed is idle afterwards.
func TestFeed_F4_ResetsOfAnotherClient(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	entered, release := make(chan string), make(chan struct{})
	c.serve(worker.Each(func(_ context.Context, item string) (string, error) {
		entered <- item
		<-release
		return item, nil
	}), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.BatchItems = 1 })
	mine, other := newFeed[string, string](c), newFeed[string, string](c)
	rounds := 100
	if testing.Short() {
		rounds = 24
	}
	for round := range rounds {
		item := fmt.Sprint("item ", round)
		outcome := make(chan error, 1)
		before := stateOf(t, other)
		go func() {
			_, err := mine.Call(t.Context(), item)
			outcome <- err
		}()
		require.Equal(t, item, <-entered)
		if round%2 == 1 { // what waits is discarded
			require.NoError(t, other.Put(t.Context(), "waits"))
		}
		reset, err := other.Reset(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, round+2, reset.Session)
		oneLeg := before.Leg == stateOf(t, other).Leg // otherwise they may be at the leg before, which hears of the reset from the job
		if oneLeg {
			require.EqualValues(t, round%2, reset.Discarded)
		}
		require.Eventually(t, func() bool {
			state, err := other.State(t.Context())
			return assert.NoError(t, err) && state.Backlog == 1
		}, patience, time.Millisecond, "what waits is discarded")
		release <- struct{}{}
		if err := <-outcome; oneLeg || err != nil {
			require.EqualValues(t, round+1, isCode(t, err, jobs.CodeDiscarded).Session)
		}
		awaitIdle(t, other)
	}
	require.NoError(t, other.Close(t.Context()))
	report := c.wait(f.run)
	require.EqualValues(t, rounds, report.OK, "recorded under their own sessions")
	require.EqualValues(t, rounds/2, report.Discarded)
}

// stateOf is the state of a feed.
func stateOf(t *testing.T, feed *jobs.Feed[string, string]) job.FeedState {
	t.Helper()
	state, err := feed.State(t.Context())
	require.NoError(t, err)
	return state
}

// isCode returns the error of a feed, which has that code.
func isCode(t *testing.T, err error, code jobs.FeedCode) *jobs.FeedError {
	t.Helper()
	e, _ := errors.AsType[*jobs.FeedError](err)
	require.NotNil(t, e, "%v", err)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}
