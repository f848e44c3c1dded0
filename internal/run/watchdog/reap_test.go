package watchdog

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
)

// T6: one expired timer condemns the worker, all its timers go, and its next incarnation starts
// with none; nobody else is touched.
func TestWatchdog_ReapingEndsAllTimers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r, other := start(t, Options{}), &reaper{}, &reaper{}
		c, d := w.Client("w", r), w.Client("other", other)
		require.NoError(t, c.Acquire("a", time.Second))
		require.NoError(t, c.Acquire("b", 1500*time.Millisecond))
		require.NoError(t, c.Acquire("report", 2*time.Second, timers.ReportOnly()))
		require.NoError(t, d.Acquire("a", time.Hour))
		require.False(t, c.Condemned())
		time.Sleep(time.Minute)
		require.Len(t, r.reaps(), 1)
		require.Empty(t, other.reaps())
		require.Zero(t, c.Held())
		require.False(t, c.Condemned())
		require.Equal(t, 1, d.Held())
		require.Equal(t, []EventKind{EventStarted, EventExpired, EventReaped}, w.kinds())
		var closed *timers.ClosedError
		require.ErrorAs(t, c.Acquire("a", time.Second), &closed)
		require.True(t, closed.Reaped)
		require.EqualError(t, closed, "worker w holds no timers any more: it was reaped")
		c.Release("b")
		c.Close()
		next := w.Client("w", r)
		require.Zero(t, next.Held())
		require.NoError(t, next.Acquire("a", time.Second))
		next.Release("a")
	})
}

// T6: a reaper closes the client of the worker that it has ended, or the slot does while it is at
// it; neither waits for the other.
func TestWatchdog_ClosedWhileReaped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		var c *Client
		r := &reaper{do: func(context.Context, Expiry) error { c.Close(); return nil }}
		c = w.Client("w", r)
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, []EventKind{EventStarted, EventExpired, EventReaped}, w.kinds())

		fails := &reaper{do: func(context.Context, Expiry) error { c.Close(); return errors.New("it was gone") }}
		c = w.Client("w", fails)
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(time.Second)
		require.Len(t, fails.reaps(), 1, "there is nobody left to reap")
	})
}

// T7: a reaping that fails is retried every round, the timers stay, and the expiry is reported
// once.
func TestWatchdog_FailedReapingIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		busy := errors.New("busy")
		tries := 0
		r := &reaper{do: func(context.Context, Expiry) error {
			if tries++; tries < 5 {
				return busy
			}
			return nil
		}}
		c := w.Client("w", r)
		require.NoError(t, c.Acquire("s", time.Second))
		require.NoError(t, c.Acquire("t", time.Hour))
		time.Sleep(time.Second + 3*interval)
		require.Len(t, r.reaps(), 4)
		require.Equal(t, 2, c.Held())
		require.True(t, c.Condemned())
		for i := 1; i < 4; i++ {
			require.Equal(t, interval, r.reaps()[i].when.Sub(r.reaps()[i-1].when))
		}
		time.Sleep(time.Minute)
		require.Len(t, r.reaps(), 5)
		require.Zero(t, c.Held())
		failed := w.reported(EventReapFailed)
		require.Len(t, failed, 4)
		require.ErrorIs(t, failed[0].Err, busy)
		require.Len(t, w.reported(EventExpired), 1)
	})
}

// T7: between two tries the worker may still release.
func TestWatchdog_ReleaseAfterFailedReaping(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		r := &reaper{do: func(context.Context, Expiry) error { return errors.New("busy") }}
		c := w.Client("w", r)
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(interval)
		require.Len(t, r.reaps(), 1)
		c.Release("s")
		require.False(t, c.Condemned())
		time.Sleep(time.Minute)
		require.Len(t, r.reaps(), 1)
	})
}

// T7: a reaper that panics, or ends its goroutine, counts as reaped and raises an alarm; the
// watchdog continues.
func TestWatchdog_PanickingReaper(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		for want, do := range map[string]func(){
			"reaping: panic: broken":              func() { panic("broken") },
			"reaping: it has ended its goroutine": runtime.Goexit,
		} {
			w.forget()
			r := &reaper{do: func(context.Context, Expiry) error { do(); return nil }}
			c := w.Client("w", r)
			require.NoError(t, c.Acquire("s", 0))
			time.Sleep(time.Second)
			require.Len(t, r.reaps(), 1)
			require.Zero(t, c.Held())
			require.Error(t, c.Acquire("s", 0))
			require.Equal(t, []EventKind{EventExpired, EventReaperPanicked}, w.kinds())
			require.ErrorContains(t, w.reported(EventReaperPanicked)[0].Err, want)
		}
		require.True(t, w.Healthy())
		r := &reaper{}
		require.NoError(t, w.Client("next", r).Acquire("s", 0))
		time.Sleep(interval)
		require.Len(t, r.reaps(), 1)
	})
}

// Reapers that hang delay neither rounds nor other reapings, run once at a time for each client,
// and have their context cancelled after 10 s.
func TestWatchdog_HangingReapersDelayNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		hangs := &reaper{do: func(ctx context.Context, _ Expiry) error { <-ctx.Done(); return ctx.Err() }}
		for range 10 {
			require.NoError(t, w.Client("hangs", &reaper{do: hangs.do}).Acquire("s", 0))
		}
		require.NoError(t, w.Client("hangs", hangs).Acquire("s", 0))
		time.Sleep(interval)
		r := &reaper{}
		require.NoError(t, w.Client("w", r).Acquire("s", 0))
		time.Sleep(interval)
		require.Len(t, r.reaps(), 1)
		require.True(t, w.Healthy())
		time.Sleep(reapLimit - 2*interval)
		require.Len(t, hangs.reaps(), 1)
		time.Sleep(reapLimit)
		require.Len(t, hangs.reaps(), 2)
		require.Equal(t, 1, hangs.atOnce())
		require.ErrorIs(t, w.reported(EventReapFailed)[0].Err, context.DeadlineExceeded)
	})
}

// T10: a timer says with which signal, or that its expiry is only reported: once, then it is over.
func TestWatchdog_SignalOrReport(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r := start(t, Options{}), &reaper{}
		c := w.Client("w", r)
		require.NoError(t, c.Acquire("report", time.Second, timers.WithSignal(syscall.SIGKILL), timers.ReportOnly()))
		time.Sleep(10 * time.Second)
		require.Empty(t, r.reaps())
		require.Zero(t, c.Held())
		require.False(t, c.Condemned())
		expired := w.reported(EventExpired)
		require.Len(t, expired, 1)
		require.True(t, expired[0].ReportOnly)
		require.Equal(t, "report", expired[0].Scope)
		c.Release("report")

		require.NoError(t, c.Acquire("kill", time.Second, timers.WithSignal(syscall.SIGABRT)))
		time.Sleep(2 * time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, syscall.SIGABRT, r.reaps()[0].Signal)
		require.False(t, w.reported(EventExpired)[1].ReportOnly)
	})
}

// T10: reports come on time while their worker cannot be reaped.
func TestWatchdog_ReportsOfCondemned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		c := w.Client("w", &reaper{do: func(ctx context.Context, _ Expiry) error { <-ctx.Done(); return ctx.Err() }})
		require.NoError(t, c.Acquire("kill", time.Second))
		require.NoError(t, c.Acquire("report", 2*time.Second, timers.ReportOnly()))
		time.Sleep(2*time.Second + interval)
		expired := w.reported(EventExpired)
		require.Len(t, expired, 2)
		require.Equal(t, "report", expired[1].Scope)
		require.LessOrEqual(t, expired[1].Overdue, interval)
	})
}

// A client without a reaper only reports.
func TestWatchdog_NoReaper(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		c := w.Client("w", nil)
		require.NoError(t, c.Acquire("s", time.Second))
		time.Sleep(2 * time.Second)
		require.True(t, w.reported(EventExpired)[0].ReportOnly)
		require.NoError(t, c.Acquire("s", time.Second))
	})
}

func TestExpiry_Err(t *testing.T) {
	t.Parallel()
	var expired *timers.ExpiredError
	require.ErrorAs(t, Expiry{Scope: "load", After: time.Minute, Overdue: time.Second}.Err(), &expired)
	require.Equal(t, timers.ExpiredError{Scope: "load", After: time.Minute, Over: time.Second}, *expired)
}

func TestReaperFunc(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		var got Expiry
		c := w.Client("w", ReaperFunc(func(_ context.Context, e Expiry) error { got = e; return nil }))
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(interval)
		synctest.Wait()
		require.Equal(t, "w", got.Worker)
	})
}
