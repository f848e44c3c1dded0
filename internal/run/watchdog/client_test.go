package watchdog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// T1: a timer is held from acquire to release; releasing what is not held is a no-op.
func TestClient_AcquireRelease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r := start(t, Options{}), &reaper{}
		c := w.Client("w", r)
		c.Release("never held")
		require.NoError(t, c.Acquire("a", time.Second))
		require.NoError(t, c.Acquire("b", time.Second))
		require.Equal(t, 2, c.Held())
		c.Release("c")
		require.Equal(t, 2, c.Held())
		c.Release("a")
		c.Release("a")
		require.Equal(t, 1, c.Held())
		c.Release("b")
		require.Zero(t, c.Held())
		time.Sleep(time.Hour)
		require.Empty(t, r.reaps())
	})
}

// Clearing releases everything, what has expired too; the client continues.
func TestClient_Clear(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		r := &settler{settle: func(context.Context) { time.Sleep(interval) }}
		c := w.Client("w", r)
		c.Clear()
		release, err := timers.Expires(timers.NewContext(t.Context(), c), time.Second)
		require.NoError(t, err)
		require.NoError(t, c.Acquire("a", time.Second))
		require.NoError(t, c.Acquire("b", time.Hour))
		time.Sleep(time.Second + interval/2)
		require.True(t, c.Condemned())
		c.Clear()
		require.Zero(t, c.Held())
		require.False(t, c.Condemned())
		time.Sleep(time.Hour)
		require.Empty(t, r.reaps())
		require.NoError(t, c.Acquire("a", time.Second))
		release()
		require.Equal(t, 1, c.Held())
	})
}

// T2: acquiring again replaces the deadline by a later one, or a sooner one, and the options.
func TestClient_AcquireAgainReplaces(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, later, sooner := start(t, Options{}), &reaper{}, &reaper{}
		began := time.Now()
		a, b := w.Client("a", later), w.Client("b", sooner)
		require.NoError(t, a.Acquire("s", time.Second))
		require.NoError(t, b.Acquire("s", time.Hour, timers.ReportOnly()))
		time.Sleep(interval / 2)
		require.NoError(t, a.Acquire("s", 10*time.Second, timers.WithSignal(syscall.SIGTERM)))
		require.NoError(t, b.Acquire("s", time.Second))
		require.Equal(t, 1, a.Held())
		require.Equal(t, 1, b.Held())
		time.Sleep(time.Minute)
		require.Len(t, later.reaps(), 1)
		require.Len(t, sooner.reaps(), 1)
		require.InDelta(t, 10*time.Second, later.reaps()[0].when.Sub(began), float64(2*interval))
		require.InDelta(t, time.Second, sooner.reaps()[0].when.Sub(began), float64(2*interval))
		require.Equal(t, syscall.SIGTERM, later.reaps()[0].Signal)
		require.Zero(t, sooner.reaps()[0].Signal)
	})
}

// T2: scopes are independent, and so are equal scopes of two workers.
func TestClient_ScopesAreIndependent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r, other := start(t, Options{}), &reaper{}, &reaper{}
		c, d := w.Client("w", r), w.Client("w", other) // of equal names, even
		require.NoError(t, c.Acquire("a", time.Second))
		require.NoError(t, c.Acquire("b", 2*time.Second))
		require.NoError(t, d.Acquire("b", 3*time.Second))
		c.Release("a")
		d.Release("a")
		d.Release("b")
		time.Sleep(10 * time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, "b", r.reaps()[0].Scope)
		require.Empty(t, other.reaps())
	})
}

// T12: the length of a scope's name and the number of timers have limits, which are checked.
func TestClient_Limits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{MaxTimers: 3})
		c := w.Client("w", &reaper{})
		var wrong *timers.ScopeError
		require.ErrorAs(t, c.Acquire("", time.Second), &wrong)
		require.EqualError(t, wrong, "scope: the name is empty: use 1 to 200 bytes")
		require.NoError(t, c.Acquire(strings.Repeat("x", 200), time.Second))
		require.ErrorAs(t, c.Acquire(strings.Repeat("x", 201), time.Second), &wrong)
		require.Contains(t, wrong.Error(), "201 bytes")
		require.Less(t, len(wrong.Error()), 200)
		for _, signal := range []syscall.Signal{-1, 65} {
			require.ErrorAs(t, c.Acquire("a", time.Second, timers.WithSignal(signal)), &wrong)
		}
		require.Equal(t, 1, c.Held(), "what is refused leaves nothing")

		require.NoError(t, c.Acquire("b", time.Second))
		require.NoError(t, c.Acquire("c", time.Second))
		require.ErrorAs(t, c.Acquire("d", time.Second), &wrong)
		require.EqualError(t, wrong, `scope "d": 3 timers are held already, which is the limit`)
		require.NoError(t, c.Acquire("b", time.Minute), "replacing needs no place")
		c.Release("c")
		require.NoError(t, c.Acquire("d", time.Second))
		require.NoError(t, w.Client("other", nil).Acquire("d", time.Second), "the limit is a client's")
	})
}

// Closing ends all timers of a worker that has ended (T9: a timer dies with the process that held
// it); it is idempotent.
func TestClient_Close(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r := start(t, Options{}), &reaper{}
		c, other := w.Client("w", r), w.Client("other", r)
		release, err := timers.Expires(timers.NewContext(t.Context(), c), time.Second)
		require.NoError(t, err)
		require.NoError(t, c.Acquire("a", time.Second))
		c.Close()
		c.Close()
		require.Zero(t, c.Held())
		require.Len(t, w.clients, 1)
		var closed *timers.ClosedError
		require.ErrorAs(t, c.Acquire("a", time.Second), &closed)
		require.EqualError(t, closed, "worker w holds no timers any more: it has ended")
		c.Release("a")
		release()
		time.Sleep(time.Minute)
		require.Empty(t, r.reaps())
		other.Close()
		require.Empty(t, w.clients)
	})
}

// T13: ten workers with ten nested scopes each, over and over: no request is lost. The innermost
// scope of one of them hangs in the end, and only that one is reaped.
func TestClient_ManyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{Interval: time.Millisecond})
		var reapers [10]reaper
		var work sync.WaitGroup
		for i := range reapers {
			c := w.Client(fmt.Sprint(i), &reapers[i])
			work.Go(func() {
				for range 100 {
					for depth := range 10 {
						assert.NoError(t, c.Acquire(fmt.Sprint(depth), time.Second))
						time.Sleep(time.Millisecond)
					}
					assert.Equal(t, 10, c.Held())
					for depth := range 10 {
						c.Release(fmt.Sprint(9 - depth))
					}
					assert.Zero(t, c.Held())
				}
				if i == 7 {
					for depth := range 10 {
						assert.NoError(t, c.Acquire(fmt.Sprint(depth), time.Second-time.Duration(depth)))
					}
				}
			})
		}
		work.Wait()
		time.Sleep(time.Minute)
		for i := range reapers {
			if i != 7 {
				require.Empty(t, reapers[i].reaps(), i)
			}
		}
		require.Len(t, reapers[7].reaps(), 1)
		require.Equal(t, "9", reapers[7].reaps()[0].Scope)
	})
}

// Clients are used by many goroutines while rounds and reapings continue: the race detector looks on.
func TestClient_Concurrently(t *testing.T) {
	t.Parallel()
	w := start(t, Options{Interval: time.Millisecond})
	var work sync.WaitGroup
	for i := range 8 {
		c := w.Client(fmt.Sprint(i%2), &reaper{})
		for j := range 4 {
			work.Go(func() {
				for k := range 2000 {
					scope := fmt.Sprint(k % 7)
					after := time.Hour
					if j == 0 && k == 1500 && i%2 == 0 {
						after = 0
					}
					err := c.Acquire(scope, after)
					if closed := new(timers.ClosedError); errors.As(err, &closed) {
						return
					}
					assert.NoError(t, err)
					_ = timers.Do(timers.NewContext(t.Context(), c), time.Hour, func(context.Context) error { return nil })
					c.Release(scope)
					_, _, _ = c.Held(), c.Condemned(), w.Healthy()
				}
				if j == 1 {
					c.Close()
				}
			})
		}
	}
	work.Wait()
}

// A time that reaches beyond the clock's end is never over.
func TestClient_ForEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r := start(t, Options{}), &reaper{}
		c := w.Client("w", r)
		require.NoError(t, c.Acquire("a", math.MaxInt64))
		time.Sleep(time.Hour)
		require.Empty(t, r.reaps())
		require.Equal(t, 1, c.Held())
	})
}

// Equal deadlines expire in the order in which they were acquired, whatever the heap looks like.
func TestClient_EqualDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		c := w.Client("w", nil)
		for i := range 100 {
			require.NoError(t, c.Acquire(fmt.Sprint(i), time.Second))
		}
		for i := 0; i < 100; i += 3 {
			c.Release(fmt.Sprint(i))
		}
		time.Sleep(2 * time.Second)
		var want, got []string
		for i := range 100 {
			if i%3 != 0 {
				want = append(want, fmt.Sprint(i))
			}
		}
		for _, e := range w.reported(EventExpired) {
			got = append(got, e.Scope)
		}
		require.Equal(t, want, got)
	})
}

// Timers are cheap enough for inner loops: a pair costs no allocation, but for the release function
// of Expires.
func TestClient_Allocations(t *testing.T) {
	w := New(Options{})
	w.Start()
	defer w.Stop()
	c := w.Client("w", nil)
	ctx := timers.NewContext(t.Context(), c)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = c.Acquire("s", time.Hour, timers.WithSignal(syscall.SIGTERM), timers.ReportOnly())
		c.Release("s")
	}))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = timers.Do(ctx, time.Hour, func(context.Context) error { return nil })
	}))
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		release, _ := timers.Expires(ctx, time.Hour, timers.Named("s"))
		release()
	}), 1.0)
}
