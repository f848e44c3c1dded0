package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// feeding are sinks in a bubble of fake time, fed every 10 s with what is counted.
type feeding struct {
	*metrics
	failures atomic.Int64
	log      logBuffer
}

func feed(t *testing.T, all ...Sink) *feeding {
	t.Helper()
	f := &feeding{metrics: newMetrics("worker-1", "pool", slog.New(slog.DiscardHandler))}
	log := slog.New(slog.NewTextHandler(&f.log, nil))
	f.sinks = newSinks(all, defaultSinks, log, f.snapshot, func() { f.failures.Add(1) })
	f.sinks.start()
	return f
}

// call counts a call of so many items.
func (f *feeding) call(job string, items int) {
	f.CallBegan(job)
	f.CallEnded(calls.CallStats{Job: job, Items: items, Took: time.Second})
	f.Recorded(calls.RecordStats{Job: job, OK: int64(items)})
}

// collector is a sink that keeps what it gets.
type collector struct {
	mu  sync.Mutex
	got []Snapshot
}

func (c *collector) Record(_ context.Context, s Snapshot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, s)
	return nil
}

// M2: values are cumulative; a sink that fails or panics is logged and counted, disturbs nothing, and
// the next sink is still fed.
func TestM2_BadSinksDisturbNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := &collector{}
		f := feed(t,
			SinkFunc(func(context.Context, Snapshot) error { return errors.New("no such host") }),
			SinkFunc(func(context.Context, Snapshot) error { panic("nil map") }),
			SinkFunc(func(context.Context, Snapshot) error { runtime.Goexit(); return nil }),
			SinkFunc(func(_ context.Context, s Snapshot) error { clear(s.Jobs); return nil }),
			good,
		)
		for range 3 {
			f.call("nightly", 10)
			time.Sleep(defaultSinks)
			synctest.Wait()
		}
		f.sinks.Close()
		require.Len(t, good.got, 4)
		for i, s := range good.got {
			require.EqualValues(t, 10*min(i+1, 3), s.Total.OK)
			require.EqualValues(t, 10*min(i+1, 3), s.Jobs["nightly"].Total.OK)
			require.Equal(t, i == 3, s.Last)
			require.Equal(t, "worker-1", s.Worker)
			require.Equal(t, "pool", s.Pool)
		}
		require.EqualValues(t, 3*4, f.failures.Load())
		log := f.log.String()
		require.Equal(t, 3, strings.Count(log, "has not taken a snapshot"), "once for each of them")
		require.Contains(t, log, "no such host")
		require.Contains(t, log, "panic: nil map")
		require.Contains(t, log, "events_test.go", "the stack")
		require.Contains(t, log, "Goexit")
	})
}

// M2: a sink that works again says so.
func TestM2_SinkRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := feed(t, SinkFunc(func(context.Context, Snapshot) error {
			if n.Add(1) <= 2 {
				return errors.New("not yet")
			}
			return nil
		}))
		time.Sleep(3*defaultSinks + time.Second)
		synctest.Wait()
		f.sinks.Close()
		require.EqualValues(t, 2, f.failures.Load())
		require.Contains(t, f.log.String(), `msg="the sink takes snapshots again"`)
		require.Contains(t, f.log.String(), "failed=2")
	})
}

// M2: a sink that hangs keeps neither the others waiting nor, once it has not heeded its context, the
// worker's end.
func TestM2_HangingSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := &collector{}
		gate := make(chan struct{})
		var calls atomic.Int64
		f := feed(t, SinkFunc(func(context.Context, Snapshot) error {
			calls.Add(1)
			<-gate
			return nil
		}), good)
		time.Sleep(3*defaultSinks + time.Second)
		synctest.Wait()
		require.Len(t, good.got, 3)
		began := time.Now()
		f.sinks.Close()
		require.Zero(t, time.Since(began))
		require.Len(t, good.got, 4)
		require.True(t, good.got[3].Last)
		require.EqualValues(t, 1, calls.Load(), "never two calls at a time")
		require.EqualValues(t, 3, f.failures.Load(), "two snapshots that it could not be given, and the last")
		close(gate)
		synctest.Wait()
	})
}

// M2: the worker's end is bounded, whatever the sinks do with the last snapshot.
func TestM2_TheEndIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		record func(ctx context.Context, gate chan struct{}) error
		took   time.Duration
		fails  int64
	}{
		{"quick", func(context.Context, chan struct{}) error { return nil }, 0, 0},
		{"slow", func(context.Context, chan struct{}) error { time.Sleep(3 * time.Second); return nil }, 3 * time.Second, 0},
		{"heeds its context", func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }, sinkLimit, 1},
		{"heeds nothing", func(_ context.Context, gate chan struct{}) error { <-gate; return nil }, sinkLimit + sinkGrace, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				good := &collector{}
				f := feed(t, SinkFunc(func(ctx context.Context, _ Snapshot) error { return c.record(ctx, gate) }), good)
				began := time.Now()
				f.sinks.Close()
				require.Equal(t, c.took, time.Since(began))
				require.EqualValues(t, c.fails, f.failures.Load())
				require.Len(t, good.got, 1)
				close(gate)
				synctest.Wait()
			})
		})
	}
}

// M2: a sink that is in the middle of a snapshot when the worker ends is still given the last one.
func TestM2_LastAfterTheOneUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := &collector{}
		f := feed(t, SinkFunc(func(ctx context.Context, s Snapshot) error {
			time.Sleep(2 * time.Second)
			return good.Record(ctx, s)
		}))
		time.Sleep(defaultSinks + time.Second)
		f.call("nightly", 1)
		f.sinks.Close()
		require.Len(t, good.got, 2)
		require.True(t, good.got[1].Last)
		require.EqualValues(t, 1, good.got[1].Total.OK)
		require.Zero(t, f.failures.Load())
	})
}

// B10: number, smallest, largest and mean size of the calls, per window and in total, of each job and
// of all of them.
func TestB10_WindowsAndTotals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		f := feed(t, c)
		window := func(sizes ...int) {
			for i, n := range sizes {
				f.call([]string{"a", "b"}[i%2], n)
			}
			time.Sleep(defaultSinks)
			synctest.Wait()
		}
		window(10, 1, 40)
		window()
		window(5, 7)
		f.call("a", 1000)
		f.CallEnded(calls.CallStats{Job: "a", Took: time.Second, Fault: "crash"}) // no outcome: no size
		f.sinks.Close()
		require.Len(t, c.got, 4)
		began := c.got[0].Began
		for i, want := range []struct{ total, window, a, aWindow CallSizes }{
			{CallSizes{3, 51, 1, 40}, CallSizes{3, 51, 1, 40}, CallSizes{2, 50, 10, 40}, CallSizes{2, 50, 10, 40}},
			{CallSizes{3, 51, 1, 40}, CallSizes{}, CallSizes{2, 50, 10, 40}, CallSizes{}},
			{CallSizes{5, 63, 1, 40}, CallSizes{2, 12, 5, 7}, CallSizes{3, 55, 5, 40}, CallSizes{1, 5, 5, 5}},
			{CallSizes{6, 1063, 1, 1000}, CallSizes{1, 1000, 1000, 1000}, CallSizes{4, 1055, 5, 1000}, CallSizes{1, 1000, 1000, 1000}},
		} {
			s := c.got[i]
			require.Equal(t, want.total, s.Total.Sizes)
			require.Equal(t, want.window, s.Window.Sizes)
			require.Equal(t, want.a, s.Jobs["a"].Total.Sizes)
			require.Equal(t, want.aWindow, s.Jobs["a"].Window.Sizes)
			require.Equal(t, began.Add(time.Duration(i)*defaultSinks), s.Since)
			require.Equal(t, began.Add(time.Duration(min(i+1, 3))*defaultSinks), s.Time)
		}
		last := c.got[3]
		require.EqualValues(t, 7, last.Total.Calls)
		require.EqualValues(t, 1, last.Total.FailedCalls)
		require.Equal(t, 7*time.Second, last.Total.CallTime)
		require.InDelta(t, 1063.0/6, last.Total.Sizes.Mean(), 1e-9)
		require.Zero(t, CallSizes{}.Mean())
	})
}

// B10: no window is lost to a sink that was busy: its next snapshot has all of it.
func TestB10_MissedWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good, slow := &collector{}, &collector{}
		f := feed(t, SinkFunc(func(ctx context.Context, s Snapshot) error {
			time.Sleep(15 * time.Second) // and ignores its context
			return slow.Record(ctx, s)
		}), good)
		for i := range 4 {
			f.call("a", 10*(i+1))
			f.call("b", 1)
			time.Sleep(defaultSinks)
			synctest.Wait()
		}
		f.sinks.Close()
		time.Sleep(defaultSinks) // until the slow one is done
		synctest.Wait()
		require.Len(t, slow.got, 2, "at 10 s and at 30 s; the last one finds it hanging")
		require.Equal(t, CallSizes{4, 52, 1, 30}, slow.got[1].Window.Sizes)
		require.Equal(t, CallSizes{2, 50, 20, 30}, slow.got[1].Jobs["a"].Window.Sizes)
		require.Equal(t, slow.got[0].Time, slow.got[1].Since)
		require.Equal(t, CallSizes{2, 31, 1, 30}, good.got[2].Window.Sizes, "the others' windows are their own")
	})
}

// B10: a run's statistics are those of the job's report, and what is counted to the end is flushed,
// after a failure, too.
func TestB10_FlushedAtTheEnd(t *testing.T) {
	t.Parallel()
	c := &collector{}
	var o outcome
	t.Run("worker", func(t *testing.T) {
		f := setup(t)
		f.options.Sinks, f.options.SinkInterval, f.options.CallItems, f.batch = []Sink{c}, time.Hour, 7, 100
		var in strings.Builder
		for i := range 250 {
			fmt.Fprintln(&in, i)
		}
		o = f.run(Batch(func(_ context.Context, items []int) ([]int, error) {
			if items[len(items)-1] == 249 {
				return nil, errors.New("the last one")
			}
			return items, nil
		}), "in.jsonl", in.String())
		_, err := f.acts.Process(t.Context(), wire.ProcessInput{Ref: wire.Ref{Job: "lost"}, Batch: wire.Batch{Count: 1}.Sealed()})
		require.Error(t, err)
	})
	require.Len(t, c.got, 1, "the worker has ended")
	s := c.got[0]
	require.True(t, s.Last)
	n := o.totals
	require.EqualValues(t, 1, n.Failed)
	got := s.Jobs["job"].Total
	require.Equal(t, Counts{
		OK: n.OK, Failed: n.Failed, Batches: n.Batches, Calls: got.Calls, FailedCalls: got.Calls - n.Calls, CallTime: got.CallTime,
		Retries: n.Retries, Isolations: n.Isolations,
		Sizes: CallSizes{Calls: n.Calls, Items: n.CallItems, Smallest: n.CallMin, Largest: n.CallMax},
	}, got)
	require.Positive(t, got.FailedCalls)
	require.Equal(t, got, s.Jobs["job"].Window)
	require.Equal(t, Counts{Batches: 1, FailedBatches: 1}, s.Jobs["lost"].Total)
	require.EqualValues(t, n.Batches+1, s.Total.Batches)
}

func TestSinks_Refused(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Exec("cat").Check(Options{SinkInterval: -time.Second}), "SinkInterval -1s")
	require.ErrorContains(t, Exec("cat").Check(Options{Sinks: []Sink{nil}}), "Sinks has a nil element")
}
