package watchdog

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
)

// T8: an expiry is noticed between the deadline and one interval later, whenever in the interval
// the timer was acquired; a round at the very deadline finds it expired.
func TestWatchdog_NoticesWithinOneInterval(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		for _, into := range []time.Duration{0, 1, interval / 2, interval - 1} {
			time.Sleep(time.Until(w.LastRound().Add(2 * interval)))
			synctest.Wait()
			time.Sleep(into)
			for _, after := range []time.Duration{time.Second, 1234 * time.Millisecond, 1} {
				r := &reaper{}
				require.NoError(t, w.Client("w", r).Acquire("s", after))
				deadline := time.Now().Add(after)
				time.Sleep(after + 2*interval)
				require.Len(t, r.reaps(), 1)
				late := r.reaps()[0].when.Sub(deadline)
				require.GreaterOrEqual(t, late, time.Duration(0))
				require.LessOrEqual(t, late, interval)
				require.Equal(t, late, r.reaps()[0].Overdue)
				require.Equal(t, after, r.reaps()[0].After)
			}
		}
		r := &reaper{}
		time.Sleep(time.Until(w.LastRound().Add(interval)))
		require.NoError(t, w.Client("w", r).Acquire("s", interval))
		time.Sleep(interval)
		require.Len(t, r.reaps(), 1, "deadline ≤ now")
		require.Zero(t, r.reaps()[0].Overdue)
	})
}

// T8: after ≤ 0 has expired at once, and the next round notices.
func TestWatchdog_NoTimeAtAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		for _, after := range []time.Duration{0, -1, -time.Hour} {
			r := &reaper{}
			require.NoError(t, w.Client("w", r).Acquire("s", after))
			require.Empty(t, r.reaps())
			time.Sleep(interval)
			require.Len(t, r.reaps(), 1)
			require.Equal(t, after, r.reaps()[0].After)
			require.LessOrEqual(t, r.reaps()[0].Overdue, interval)
		}
	})
}

// T8: deadlines are on the monotonic clock.
func TestWatchdog_MonotonicClock(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	require.Contains(t, w.began.String(), "m=", "the clock's reading")
}

// T11: start and stop are idempotent; there is one loop at a time; a stop before the first start
// does nothing; it can be started again.
func TestWatchdog_StartAndStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &watch{}
		w.Watchdog = New(Options{OnEvent: w.note})
		w.Stop()
		require.Empty(t, w.reported())
		for range 3 {
			w.forget()
			var starts sync.WaitGroup
			for range 5 {
				starts.Go(w.Start)
			}
			starts.Wait()
			require.True(t, w.Healthy())
			time.Sleep(time.Second)
			for range 5 {
				starts.Go(w.Stop)
			}
			starts.Wait()
			require.False(t, w.Healthy())
			require.Equal(t, []EventKind{EventStarted, EventStopped}, w.kinds())
		}
	})
}

// T11: nobody is reaped after a stop has returned: not who expires later, and not who was being
// settled. What is held counts on after the next start.
func TestWatchdog_NobodyIsReapedAfterStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		later := &reaper{}
		settling := &settler{settle: func(ctx context.Context) { <-ctx.Done() }}
		require.NoError(t, w.Client("later", later).Acquire("s", time.Second))
		c := w.Client("settling", settling)
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(interval)
		synctest.Wait()
		require.Equal(t, 1, settling.settled())
		began := time.Now()
		w.Stop()
		require.Equal(t, began, time.Now(), "the settling is called off")
		time.Sleep(time.Minute)
		require.Empty(t, later.reaps())
		require.Empty(t, settling.reaps())
		require.True(t, c.Condemned())

		w.Start()
		time.Sleep(2 * interval)
		require.Len(t, later.reaps(), 1)
		require.GreaterOrEqual(t, later.reaps()[0].Overdue, 59*time.Second)
		time.Sleep(settleLimit)
		require.Len(t, settling.reaps(), 1)
	})
}

// T11: a stop cancels reapings and waits for them, but not for ever; the one left behind is still
// the only one of its client.
func TestWatchdog_StopIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		var cancelled time.Time
		obeys := &reaper{do: func(ctx context.Context, _ Expiry) error {
			<-ctx.Done()
			cancelled = time.Now()
			time.Sleep(time.Second)
			return ctx.Err()
		}}
		require.NoError(t, w.Client("obeys", obeys).Acquire("s", 0))
		time.Sleep(interval)
		require.Len(t, obeys.reaps(), 1)
		began := time.Now()
		w.Stop()
		require.Equal(t, began, cancelled)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, []EventKind{EventStarted, EventExpired, EventReapFailed, EventStopped}, w.kinds())

		free := make(chan struct{})
		hangs := &reaper{do: func(context.Context, Expiry) error { <-free; return nil }}
		w.Start()
		c := w.Client("hangs", hangs)
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(interval)
		require.Len(t, hangs.reaps(), 1)
		began = time.Now()
		w.Stop()
		require.Equal(t, stopLimit, time.Since(began))
		w.Start()
		time.Sleep(time.Minute)
		require.Len(t, hangs.reaps(), 1)
		require.True(t, c.Condemned())
		close(free)
		synctest.Wait()
		require.False(t, c.Condemned())
		require.Len(t, w.reported(EventReaped), 1)
	})
}

// T12: if the watchdog is not running, or late, a client gets that error at once.
func TestWatchdog_Away(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &watch{}
		w.Watchdog = New(Options{Interval: 300 * time.Millisecond})
		c := w.Client("w", &reaper{})
		began := time.Now()
		var away *timers.AwayError
		require.ErrorAs(t, c.Acquire("s", time.Second), &away)
		require.Equal(t, timers.AwayError{Worker: "w", Scope: "s"}, *away)
		require.EqualError(t, away, `scope "s" of worker w: the watchdog is not running`)

		w.Start()
		defer w.Stop()
		require.NoError(t, c.Acquire("s", time.Hour))
		w.round.Store(int64(w.now() - 3*time.Second + 1))
		require.NoError(t, c.Acquire("s", time.Hour))
		w.round.Store(int64(w.now() - 3*time.Second))
		require.ErrorAs(t, c.Acquire("s", time.Hour), &away)
		require.Equal(t, 3*time.Second, away.Late)
		require.EqualError(t, away, `scope "s" of worker w: the watchdog has not looked for 3s`)
		require.Equal(t, 1, c.Held(), "what is held stays held")
		c.Release("s")
		require.Zero(t, c.Held())
		require.Equal(t, began, time.Now(), "at once")
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, c.Acquire("s", time.Hour), "it has looked again")
	})
}

// T14: the time of the last round is there for a health check.
func TestWatchdog_LastRound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := New(Options{})
		require.Zero(t, w.LastRound())
		require.False(t, w.Healthy())
		w.Start()
		defer w.Stop()
		require.Equal(t, time.Now(), w.LastRound().Round(0).Local())
		require.True(t, w.Healthy())
		time.Sleep(12*interval + interval/2)
		require.Equal(t, interval/2, time.Since(w.LastRound()))
		require.True(t, w.Healthy())
		w.round.Store(int64(w.now() - time.Second + 1))
		require.True(t, w.Healthy())
		w.round.Store(int64(w.now() - time.Second))
		require.False(t, w.Healthy(), "for a second no round")
		time.Sleep(interval)
		synctest.Wait()
		require.True(t, w.Healthy())
	})
}

// T14: everything is reported, in order, with worker, scope and how late it was noticed.
func TestWatchdog_Events(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		began := time.Now()
		failed := fmt.Errorf("busy")
		r := &reaper{do: func(context.Context, Expiry) error {
			time.Sleep(10 * time.Millisecond)
			err := failed
			failed = nil
			return err
		}}
		c := w.Client("w", r)
		require.NoError(t, c.Acquire("outer", 250*time.Millisecond))
		require.NoError(t, c.Acquire("inner", 220*time.Millisecond))
		time.Sleep(time.Second)
		w.Stop()
		const ms = time.Millisecond
		for i, want := range []Event{
			{Kind: EventStarted},
			{Kind: EventExpired, Worker: "w", Scope: "inner", After: 220 * ms, Overdue: 80 * ms, Time: began.Add(300 * ms)},
			{Kind: EventExpired, Worker: "w", Scope: "outer", After: 250 * ms, Overdue: 50 * ms, Time: began.Add(300 * ms)},
			{Kind: EventReapFailed, Worker: "w", Scope: "inner", After: 220 * ms, Overdue: 90 * ms, Time: began.Add(310 * ms), Err: fmt.Errorf("busy")},
			{Kind: EventReaped, Worker: "w", Scope: "inner", After: 220 * ms, Overdue: 190 * ms, Time: began.Add(410 * ms)},
			{Kind: EventStopped, Time: began.Add(time.Second)},
		} {
			got := w.reported()[i]
			if i == 0 {
				want.Time = began
			}
			require.Equal(t, want, got, i)
		}
		require.Len(t, w.reported(), 6)
	})
}

func TestEventKind_String(t *testing.T) {
	t.Parallel()
	require.Equal(t, "timer expired", EventExpired.String())
	require.Equal(t, "event 0", EventKind(0).String())
	require.Len(t, eventKinds, int(EventReaperPanicked))
}
