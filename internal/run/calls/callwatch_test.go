package calls

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
)

// watched is a watch with a lane.
type watched struct {
	*Watch
	lane *Lane
}

func startWatched(ctx context.Context, limits WatchLimits) *watched {
	m := StartWatch(ctx, limits)
	return &watched{m, m.Lane()}
}

// Stop ends both.
func (m *watched) Stop() {
	m.Watch.Stop()
	m.lane.Close()
}

// callOf begins a call.
func callOf(m *watched) context.Context {
	ctx, _ := m.lane.begin()
	return ctx
}

// bubble runs a test of a watch with its own clock.
func bubble(t *testing.T, limits WatchLimits, test func(t *testing.T, m *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := startWatched(t.Context(), limits)
		defer m.Stop()
		test(t, m)
	})
}

// requireExpired fails unless the context ends by a timer between the limit and one interval later.
func requireExpired(t *testing.T, ctx context.Context, limit time.Duration) {
	t.Helper()
	began := time.Now()
	<-ctx.Done()
	var expired *timers.ExpiredError
	require.ErrorAs(t, context.Cause(ctx), &expired)
	require.Equal(t, limit, expired.After)
	require.GreaterOrEqual(t, time.Since(began), limit)
	require.LessOrEqual(t, time.Since(began), limit+2*watchInterval)
}

// T17: the timer of a call cancels that call.
func TestWatch_CallExpires(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{Call: 10 * time.Second}, func(t *testing.T, m *watched) {
		requireExpired(t, callOf(m), 10*time.Second)
		require.False(t, m.Ending.Load(), "the batch continues")
		require.False(t, m.over())
	})
}

func TestWatch_FollowingCallsAreUnharmed(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{Call: time.Second}, func(t *testing.T, m *watched) {
		for range 5 {
			requireExpired(t, callOf(m), time.Second)
			next := callOf(m)
			time.Sleep(900 * time.Millisecond)
			synctest.Wait()
			require.NoError(t, next.Err(), "a call after an expired one has all its time")
			m.lane.scope.Release()
		}
	})
}

// Calls that follow each other quickly share a context, and none of them is ever cut off, however
// long they take together.
func TestWatch_QuickCallsNeverExpire(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{Call: time.Second}, func(t *testing.T, m *watched) {
		for range 1000 {
			ctx := callOf(m)
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, ctx.Err())
			m.lane.scope.Release()
		}
	})
}

// Between two calls nothing is held that could expire.
func TestWatch_NoTimerBetweenCalls(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{Call: time.Second}, func(t *testing.T, m *watched) {
		ctx := callOf(m)
		m.lane.scope.Release()
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())

		ctx = callOf(m)
		require.True(t, m.lane.wait(time.Hour), "nor while waiting for a repetition")
		require.NoError(t, ctx.Err())
	})
}

func TestWatch_NoLimit(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{}, func(t *testing.T, m *watched) {
		ctx := callOf(m)
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())
	})
}

func TestWatch_SliceEndsTheBatch(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{Slice: time.Minute}, func(t *testing.T, m *watched) {
		ctx := callOf(m)
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		require.False(t, m.Ending.Load())
		time.Sleep(2 * watchInterval)
		require.True(t, m.Ending.Load())
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err(), "the call in hand is not touched")
		require.False(t, m.over())
	})
}

// S2: a stop is passed on at once, and calls are cut off when the grace is over.
func TestWatch_StopAndGrace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limits func(now time.Time) WatchLimits
		want   time.Duration
	}{
		{"of the spec", func(time.Time) WatchLimits { return WatchLimits{Grace: 10 * time.Second} }, 10 * time.Second},
		{"none", func(time.Time) WatchLimits { return WatchLimits{} }, 0},
		{"of the notice", func(now time.Time) WatchLimits {
			return WatchLimits{Grace: 10 * time.Second, Notice: notice(now.Add(time.Minute), true)}
		}, time.Minute},
		{"of the notice, shorter", func(now time.Time) WatchLimits {
			return WatchLimits{Grace: 10 * time.Second, Notice: notice(now.Add(time.Second), true)}
		}, time.Second},
		{"of the notice, over", func(now time.Time) WatchLimits {
			return WatchLimits{Grace: 10 * time.Second, Notice: notice(now.Add(-time.Hour), true)}
		}, 0},
		{"no notice to be found", func(now time.Time) WatchLimits {
			return WatchLimits{Grace: 10 * time.Second, Notice: notice(now.Add(time.Minute), false)}
		}, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stopped := make(chan struct{})
				limits := test.limits(time.Now())
				limits.Stopped = stopped
				m := startWatched(t.Context(), limits)
				defer m.Stop()
				ctx := callOf(m)
				close(stopped)
				began := time.Now()
				require.False(t, m.lane.wait(time.Hour), "whoever waits continues at once")
				require.Zero(t, time.Since(began))
				require.True(t, m.Ending.Load())
				<-ctx.Done()
				require.Equal(t, test.want, time.Since(began))
				require.ErrorIs(t, context.Cause(ctx), ErrEnded)
				require.False(t, Drained(context.Cause(ctx)))
				require.True(t, m.over())
			})
		})
	}
}

func notice(deadline time.Time, ok bool) func(context.Context) (wire.StopNotice, bool) {
	return func(context.Context) (wire.StopNotice, bool) { return wire.StopNotice{Deadline: deadline}, ok }
}

// S15: a draining worker ends its batches within its own limit.
func TestWatch_Drain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		m := startWatched(t.Context(), WatchLimits{Draining: draining, Drain: 27 * time.Second, Grace: time.Second})
		defer m.Stop()
		ctx := callOf(m)
		close(draining)
		synctest.Wait()
		require.True(t, m.Ending.Load())
		began := time.Now()
		<-ctx.Done()
		require.Equal(t, 27*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(ctx), ErrEnded)
		require.True(t, Drained(context.Cause(ctx)))
	})
}

// If a stop and a drain meet, whichever ends first counts: after the drain limit the worker is
// gone and nobody takes the answer.
func TestWatch_StopAndDrain(t *testing.T) {
	t.Parallel()
	const drain = 27 * time.Second
	tests := []struct {
		name            string
		stopAt, drainAt time.Duration
		grace           time.Duration
		want            time.Duration // from the beginning
	}{
		{"stop then drain, short grace", 0, time.Second, 10 * time.Second, 10 * time.Second},
		{"stop then drain, long grace", 0, time.Second, 120 * time.Second, time.Second + drain},
		{"drain then stop, short grace", time.Second, 0, 10 * time.Second, 11 * time.Second},
		{"drain then stop, long grace", time.Second, 0, 120 * time.Second, drain},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stopped, draining := make(chan struct{}), make(chan struct{})
				m := startWatched(t.Context(), WatchLimits{Stopped: stopped, Draining: draining, Grace: test.grace, Drain: drain})
				defer m.Stop()
				ctx := callOf(m)
				began := time.Now()
				time.AfterFunc(test.stopAt, func() { close(stopped) })
				time.AfterFunc(test.drainAt, func() { close(draining) })
				<-ctx.Done()
				require.Equal(t, test.want, time.Since(began))
			})
		})
	}
}

// A handler may ignore everything: what comes after the hard end must not end the worker.
func TestWatch_AfterTheHardEnd(t *testing.T) {
	t.Parallel()
	for _, stopFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			stopped, draining := make(chan struct{}), make(chan struct{})
			m := startWatched(t.Context(), WatchLimits{Stopped: stopped, Draining: draining, Grace: time.Second, Drain: time.Second})
			defer m.Stop()
			first, second := stopped, draining
			if !stopFirst {
				first, second = second, first
			}
			close(first)
			<-callOf(m).Done()
			close(second)
			time.Sleep(time.Hour)
			require.True(t, m.over())
		})
	}
}

// A stop of which nothing is found has the batch's grace, counted from the stop.
func TestWatch_StopThatIsNotFound(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	limits := WatchLimits{Grace: time.Minute, Stopped: stopped, Notice: func(context.Context) (wire.StopNotice, bool) {
		time.Sleep(30 * time.Second)
		return wire.StopNotice{}, false
	}}
	bubble(t, limits, func(t *testing.T, m *watched) {
		call, began := callOf(m), time.Now()
		close(stopped)
		<-call.Done()
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// S21: a batch that a pause has taken back ends after the calls in hand, which see nothing of it. It looks for a stop
// meanwhile, and deals with that as if it had come alone.
func TestWatch_Withdrawn(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	var looks atomic.Int32
	var stops atomic.Bool
	limits := WatchLimits{Grace: time.Minute, Stopped: stopped, Notice: func(context.Context) (wire.StopNotice, bool) {
		switch n := looks.Add(1); {
		case stops.Load():
			return wire.StopNotice{Deadline: time.Now().Add(10 * time.Second), Reason: "enough"}, true
		case n%3 == 0:
			return wire.StopNotice{}, false // the server is away
		}
		return wire.StopNotice{Withdrawn: true}, true
	}}
	bubble(t, limits, func(t *testing.T, m *watched) {
		call := callOf(m)
		close(stopped)
		synctest.Wait()
		require.True(t, m.Ending.Load(), "no call is begun")
		time.Sleep(time.Hour)
		require.NoError(t, call.Err())
		require.False(t, Closed(Stopping(call)))
		_, ok := StopNotice(call)
		require.False(t, ok)
		require.InDelta(t, time.Hour/stopLooks, looks.Load(), 2)
		stops.Store(true)
		began := time.Now()
		<-Stopping(call)
		require.LessOrEqual(t, time.Since(began), stopLooks)
		notice, ok := StopNotice(call)
		require.True(t, ok)
		require.Equal(t, "enough", notice.Reason)
		<-call.Done()
		require.ErrorIs(t, context.Cause(call), ErrEnded)
	})
}

// A call is told of a stop once the server has answered that it is one, and knows why then.
func TestWatch_TellsWhy(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	limits := WatchLimits{Grace: time.Minute, Stopped: stopped, Notice: func(ctx context.Context) (wire.StopNotice, bool) {
		if !backoff.Wait(3*time.Second, ctx.Done()) {
			return wire.StopNotice{}, false
		}
		return wire.StopNotice{Deadline: time.Now().Add(10 * time.Second), Reason: "enough"}, true
	}}
	bubble(t, limits, func(t *testing.T, m *watched) {
		call, began := callOf(m), time.Now()
		_, ok := StopNotice(call)
		require.False(t, ok)
		close(stopped)
		<-Stopping(call)
		require.Equal(t, 3*time.Second, time.Since(began))
		notice, ok := StopNotice(call)
		require.True(t, ok)
		require.Equal(t, "enough", notice.Reason)
		<-call.Done()
		require.Equal(t, 13*time.Second, time.Since(began))
		notice, ok = StopNotice(call)
		require.True(t, ok, "also when the call's time is over")
		require.Equal(t, "enough", notice.Reason)
	})
	bubble(t, WatchLimits{Stopped: closedChannel(), Notice: notice(time.Now(), true)}, func(t *testing.T, m *watched) {
		began := time.Now()
		<-m.Stopping()
		require.Zero(t, time.Since(began), "the answer has come at once")
	})
}

// S21: however long the server takes to answer that it is a pause, the calls in hand see nothing of that: one that waits for
// a stop and its reason would wait as long as the job is paused.
func TestWatch_WithdrawnSaysTheServerLate(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	limits := WatchLimits{Grace: time.Minute, Stopped: stopped, Notice: func(ctx context.Context) (wire.StopNotice, bool) {
		return wire.StopNotice{Withdrawn: true}, backoff.Wait(4*time.Second, ctx.Done())
	}}
	bubble(t, limits, func(t *testing.T, m *watched) {
		call := callOf(m)
		close(stopped)
		time.Sleep(time.Hour)
		require.True(t, m.Ending.Load(), "no call is begun")
		require.NoError(t, call.Err())
		require.False(t, Closed(Stopping(call)))
		_, ok := StopNotice(call)
		require.False(t, ok)
	})
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// A drain explains a stop that nobody has explained yet.
func TestWatch_DrainWhileAStopIsLookedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped, draining := make(chan struct{}), make(chan struct{})
		limits := WatchLimits{Grace: time.Minute, Drain: 5 * time.Second, Stopped: stopped, Draining: draining, Notice: func(context.Context) (wire.StopNotice, bool) {
			time.Sleep(3 * time.Second)
			return wire.StopNotice{Deadline: time.Now().Add(10 * time.Second), Reason: "enough"}, true
		}}
		m := startWatched(t.Context(), limits)
		defer m.Stop()
		call := callOf(m)
		close(stopped)
		synctest.Wait()
		began := time.Now()
		close(draining)
		<-Stopping(call)
		notice, ok := StopNotice(call)
		require.True(t, ok)
		require.Equal(t, "the worker ends", notice.Reason)
		require.Zero(t, time.Since(began))
		<-call.Done()
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestWatch_WaitsItsTime(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{}, func(t *testing.T, m *watched) {
		began := time.Now()
		require.True(t, m.lane.wait(3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

// The context of a call carries values, but neither the end nor the deadline of the activity's own:
// a stop must reach the batch, not the call in hand.
func TestWatch_ContextOfCalls(t *testing.T) {
	t.Parallel()
	type key struct{}
	parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	m := startWatched(parent, WatchLimits{})
	ctx := callOf(m)
	cancel()
	require.NoError(t, ctx.Err())
	require.Equal(t, "value", ctx.Value(key{}))
	m.Stop()
	require.Error(t, ctx.Err(), "with the batch everything ends")
}

// Against the real clock and the race detector: an overdue call is cut off, the call after it never.
func TestWatch_ManyExpiries(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	m := startWatched(t.Context(), WatchLimits{Call: limit})
	defer m.Stop()
	for range 8 {
		<-callOf(m).Done()
		quick := callOf(m)
		require.NoError(t, quick.Err())
		m.lane.scope.Release()
		require.NoError(t, quick.Err())
	}
}

// T5, T6, T8: a scope that a call holds too long has its context cancelled, with the scope as the
// cause; the next call starts without timers, and is not disturbed.
func TestWatch_ScopeExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watchdog := watchdog.New(watchdog.Options{})
		watchdog.Start()
		defer watchdog.Stop()
		m := startWatched(t.Context(), WatchLimits{Watchdog: watchdog})
		defer m.Stop()
		ctx := callOf(m)
		_, err := timers.Expires(ctx, time.Second, timers.Named("lookup"))
		require.NoError(t, err)
		<-ctx.Done()
		var expired *timers.ExpiredError
		require.ErrorAs(t, context.Cause(ctx), &expired)
		require.Equal(t, "lookup", expired.Scope)
		require.Equal(t, time.Second, expired.After)

		next := callOf(m)
		require.NoError(t, next.Err())
		release, err := timers.Expires(next, time.Second)
		require.NoError(t, err)
		release()
		time.Sleep(time.Hour)
		require.NoError(t, next.Err())
	})
}

// A panic of the watch itself ends the batch with an error that says so.
func TestWatch_DefectsEndAsErrors(t *testing.T) {
	t.Parallel()
	m := startWatched(t.Context(), WatchLimits{Beat: 1, Vouch: func([]watchdog.Held) { panic("no heart") }})
	defer m.Stop()
	h := &fake{call: func(c *Call) error {
		ctx := c.Begin()
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	c := &Caller{Handler: h, Limits: wire.CallLimits{Attempts: 3}, Lane: m.lane, Answer: &Answer{}, Place: &AnyPlace{}, Observer: Unobserved{}}
	err := c.Run([]Item{{}})
	require.ErrorContains(t, err, "this is a defect of stint, please report it: looking after a batch: panic: no heart")
	require.Zero(t, c.Answer.Len())
}
