package activities

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// unsteady is a handler whose items fail so often before they succeed. Its calls are of several items, which are
// answered one by one.
type unsteady struct {
	mu    sync.Mutex
	fails map[int64]int
	calls map[int64]int // of each item
	took  time.Duration // of an item
}

// handler returns it as one. Calls have so many items.
func (u *unsteady) handler(items int) *callstest.Handler {
	return &callstest.Handler{Size: calls.CallSize{Items: items}, Do: func(c *calls.Call) error {
		for i, item := range c.Items {
			if i > 0 && c.Ending() {
				return nil
			}
			u.item(c, i, item)
		}
		return nil
	}}
}

func (u *unsteady) item(c *calls.Call, i int, item calls.Item) {
	u.mu.Lock()
	u.calls[item.Ordinal]++
	failed := u.calls[item.Ordinal] <= u.fails[item.Ordinal]
	u.mu.Unlock()
	time.Sleep(u.took)
	fault := &calls.Fault{Kind: job.KindError, Err: job.Error{Message: "unsteady"}}
	switch tries := c.Tried(i) + 1; {
	case !failed:
		c.Answer.Line(item.Data)
	case tries < c.ItemAttempts:
		c.Postpone(i, fault, tries)
	default:
		c.Answer.Fail(fault, tries)
	}
}

// untilDone runs a batch and its rests, as a leg does. cut returns the time after which the execution is cut; 0:
// it is not.
func (f *fixture) untilDone(in wire.ProcessInput, cut func() time.Duration) (totals job.Totals, results string) {
	f.t.Helper()
	for range 1000 {
		ctx, stop := context.WithCancel(f.t.Context())
		if after := cut(); after > 0 {
			time.AfterFunc(after, stop)
		}
		r, err := f.acts.Process(ctx, in)
		stop()
		require.NoError(f.t, err)
		totals.Add(r.Totals)
		if r.Entry.Count > 0 {
			results += f.mustGet(ledger.ResultsKey(f.ref.Run, r.Entry))
		}
		if r.Rest == nil {
			return totals, results
		}
		in.Batch, in.Trials = *r.Rest, r.Trials
	}
	f.t.Fatal("the batch does not end")
	return totals, ""
}

// An item that fails fewer times than it is tried is never recorded as failed, and one that always fails is
// called exactly as often as it may be, wherever the batch is cut and however it is called.
func TestD5_TriesGoOnOverCuts(t *testing.T) {
	t.Parallel()
	const items, attempts = 60, 4
	for seed := range jobtest.Rounds(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 5))
			f := setup(t, "in.jsonl", jobtest.Lines(items))
			f.spec.BatchItems, f.spec.ItemAttempts, f.spec.Grace = items, attempts, time.Minute
			atOnce := 1 + random.IntN(2)*random.IntN(8)
			u := &unsteady{fails: map[int64]int{}, calls: map[int64]int{}}
			u.took = time.Duration(1+random.IntN(50)) * time.Millisecond
			for i := range int64(items) {
				if random.IntN(3) == 0 {
					u.fails[i] = random.IntN(attempts + 2)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				f.t = t
				f.serve(u.handler(1+random.IntN(12)), several(atOnce))
				totals, results := f.untilDone(f.input(f.plan()[0]), func() time.Duration {
					return time.Duration(random.IntN(3)) * time.Duration(random.IntN(4000)) * time.Millisecond
				})
				u.check(t, totals, results)
				f.acts.Close()
			})
		})
	}
}

// check fails unless the items have the outcomes that they should. Calls are only counted exactly if none had to
// be made again.
func (u *unsteady) check(t *testing.T, totals job.Totals, results string) {
	t.Helper()
	const items, attempts = 60, 4
	lines := strings.SplitAfter(jobtest.Lines(items), "\n")
	want, failed, again := "", int64(0), int64(0)
	for i := range int64(items) {
		expected := min(u.fails[i]+1, attempts)
		require.GreaterOrEqual(t, u.calls[i], expected, "calls of item %d, which fails %d times", i, u.fails[i])
		again += int64(u.calls[i] - expected)
		if u.fails[i] >= attempts && totals.Repeated == 0 {
			failed++
			continue
		}
		want += lines[i]
	}
	require.LessOrEqual(t, again, totals.Repeated, "calls made again that were lost at no cut")
	if totals.Repeated == 0 { // otherwise an item may have been called so often that it succeeds
		require.Equal(t, failed, totals.Failed)
		require.Equal(t, want, results)
	}
	require.LessOrEqual(t, totals.Failed, int64(items))
}

// refusing is a handler that refuses items at first: once for each of the waits, and calls all others at once.
type refusing struct {
	waits map[int64][]time.Duration
	took  time.Duration

	mu    sync.Mutex
	calls map[int64][]time.Time
}

func (r *refusing) handler() *callstest.Handler {
	r.calls = map[int64][]time.Time{}
	return &callstest.Handler{Size: calls.CallSize{Items: 1}, Do: func(c *calls.Call) error {
		ordinal := c.Items[0].Ordinal
		r.mu.Lock()
		n := len(r.calls[ordinal])
		r.calls[ordinal] = append(r.calls[ordinal], time.Now())
		r.mu.Unlock()
		time.Sleep(r.took)
		if n < len(r.waits[ordinal]) {
			return &calls.RetryAfterError{After: r.waits[ordinal][n], Cause: &job.Error{Type: "TooManyRequests", Message: "429"}}
		}
		return callstest.Echo(c)
	}}
}

// An item that waits holds up nothing but its place, at one call at once and at several; it costs no attempt,
// and each item is answered once.
// (B13: an item that waits holds up nothing but its place.)
func TestD13_RetryAfterHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for _, atOnce := range []int{1, 8} {
		f := setup(t, "in.jsonl", jobtest.Lines(400))
		f.spec.BatchItems = 400
		r := &refusing{took: 10 * time.Millisecond, waits: map[int64][]time.Duration{
			3: {time.Second}, 50: {time.Second, 2 * time.Second}, 51: {time.Second}, 200: {time.Second},
		}}
		synctest.Test(t, func(t *testing.T) {
			f.t = t
			f.serve(r.handler(), several(atOnce))
			began := time.Now()
			result := f.process(f.plan()[0])
			require.Less(t, time.Since(began), 4*time.Second/time.Duration(atOnce)+4*time.Second)
			require.Equal(t, jobtest.Lines(400), f.mustGet(ledger.ResultsKey(f.ref.Run, result.Entry)))
			require.Nil(t, result.Rest)
			require.Zero(t, result.Totals.Retries)
			require.Zero(t, result.SlowDown)
			for ordinal, at := range r.calls {
				require.Len(t, at, 1+len(r.waits[ordinal]))
				for i, wait := range r.waits[ordinal] {
					require.GreaterOrEqual(t, at[i+1].Sub(at[i]), wait)
				}
			}
			f.acts.Close()
		})
	}
}

// Once an item has waited for too long it has failed, with the limit and the cause in its error.
func TestD13_RetryAfterHasALimit(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(3))
	f.spec.BatchItems = 3
	r := &refusing{waits: map[int64][]time.Duration{
		0: {4 * time.Minute, 4 * time.Minute, 4 * time.Minute}, 1: {time.Hour}, 2: {calls.WaitLimit},
	}}
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		f.serve(r.handler(), several(1))
		result := f.process(f.plan()[0])
		require.EqualValues(t, 2, result.Entry.Failed)
		require.EqualValues(t, 1, result.Entry.OK)
		require.Len(t, r.calls[0], 3)
		require.Len(t, r.calls[1], 1)
		e := result.FirstError.Error
		require.Equal(t, "TooManyRequests", e.Type)
		require.Equal(t, "its handler asks for another try after 4m0s, it has waited for 8m0s so far, "+
			"and the limit for an item is 10m0s in all: 429", e.Message)
		f.acts.Close()
	})
}

// At a stop an item that waits belongs to the rest, which remembers how long it has waited, and until when. At
// the end of a slice a short wait is waited out, so that nothing behind it is done again.
func TestD13_RetryAfterAndTheEndOfABatch(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1000))
	f.spec.BatchItems, f.spec.Grace = 1000, time.Minute
	r := &refusing{took: 100 * time.Millisecond, waits: map[int64][]time.Duration{
		20: {20 * time.Second}, 900: {9 * time.Minute, 2 * time.Minute},
	}}
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		f.serve(r.handler(), several(2))
		in := f.input(f.plan()[0])
		in.Slice = 10 * time.Second
		sliced, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.Greater(t, sliced.Entry.Count, int64(190))
		require.Zero(t, sliced.Totals.Repeated)
		in.Batch, in.Slice, in.Trials = *sliced.Rest, 0, sliced.Trials

		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		time.AfterFunc(time.Minute, stop)
		stopped, err := f.acts.Process(ctx, in)
		require.NoError(t, err)
		require.EqualValues(t, 900, stopped.Rest.First)
		require.EqualValues(t, 99, stopped.Totals.Repeated)
		in.Batch, in.Trials = *stopped.Rest, stopped.Trials

		last, err := f.acts.Process(t.Context(), in)
		require.NoError(t, err)
		require.Nil(t, last.Rest)
		require.GreaterOrEqual(t, r.calls[900][1].Sub(r.calls[900][0]), 9*time.Minute, "it goes on waiting")
		require.EqualValues(t, 1, last.Entry.Failed, "it must not wait for eleven minutes")
		f.acts.Close()
	})
}

// A few slow-down requests are waits of their items. If many calls are refused the job should slow down: the batch
// begins nothing more, and ends once what it has in hand, the refused items too, has its outcome, so that nothing is
// done twice.
func TestD13_SlowDownsByTheirShare(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(3000))
	f.spec.BatchItems = 3000
	synctest.Test(t, func(t *testing.T) {
		f.t = t
		began := time.Now()
		var mu sync.Mutex
		called, answered := map[int64]int{}, map[int64]int{}
		f.serve(&callstest.Handler{Size: calls.CallSize{Items: 1}, Do: func(c *calls.Call) error {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			item, now := c.Items[0].Ordinal, time.Since(began)
			refused := item%200 == 7 && called[item] == 0
			called[item]++
			if busy := now > 3*time.Second && now < 4500*time.Millisecond; refused || busy {
				c.SlowDown(time.Second)
				return nil
			}
			answered[item]++
			return callstest.Echo(c)
		}}, several(8))
		result := f.process(f.plan()[0])
		require.Positive(t, result.SlowDown)
		require.NotNil(t, result.Rest)
		require.Greater(t, result.Rest.First, int64(2000))
		require.Zero(t, result.Totals.Repeated)
		for item := range result.Entry.Count {
			require.Equal(t, 1, answered[item], "item %d", item)
		}
		require.Less(t, time.Since(began), 8*time.Second)
		f.acts.Close()
	})
}
