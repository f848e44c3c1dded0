package watchdog

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// T14: a listener that hangs makes no round late; what does not fit is lost and counted; a stop
// does not wait for it for ever.
func TestWatchdog_SlowListener(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		var reported atomic.Int64
		w := start(t, Options{OnEvent: func(Event) { reported.Add(1); <-free }, MaxTimers: maxEvents})
		synctest.Wait()
		require.EqualValues(t, 1, reported.Load(), "started")
		c, r := w.Client("reports", nil), &reaper{}
		for i := range maxEvents {
			require.NoError(t, c.Acquire(fmt.Sprint(i), 0))
		}
		require.NoError(t, w.Client("w", r).Acquire("s", 10*time.Second))
		time.Sleep(9 * time.Second)
		require.Zero(t, w.Lost())
		require.Zero(t, c.Held())
		for i := range 10 {
			require.NoError(t, c.Acquire(fmt.Sprint(i), 0))
		}
		time.Sleep(2 * time.Second)
		require.True(t, w.Healthy())
		require.Len(t, r.reaps(), 1, "reaping continues")
		require.EqualValues(t, 12, w.Lost(), "10 reports, expired, reaped")
		began := time.Now()
		w.Stop()
		require.Equal(t, stopLimit, time.Since(began))
		close(free)
		synctest.Wait()
		require.EqualValues(t, 1+maxEvents, reported.Load())
	})
}

// T14: a listener that panics, or ends its goroutine, hurts only itself.
func TestWatchdog_BrokenListener(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var kinds []EventKind
		w := start(t, Options{OnEvent: func(e Event) {
			kinds = append(kinds, e.Kind)
			switch e.Kind {
			case EventExpired:
				panic("broken")
			case EventReaped:
				runtime.Goexit()
			}
		}})
		require.NoError(t, w.Client("w", &reaper{}).Acquire("s", 0))
		time.Sleep(time.Second)
		require.True(t, w.Healthy())
		w.Stop()
		require.Equal(t, []EventKind{EventStarted, EventExpired, EventReaped, EventStopped}, kinds)
		require.EqualValues(t, 2, w.Lost())
	})
}

// A listener may use the watchdog that it gets events of.
func TestWatchdog_ListenerCallsBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var w *watch
		var c *Client
		var again int
		w = start(t, Options{OnEvent: func(e Event) {
			if e.Kind == EventExpired && again < 3 {
				again++
				_ = c.Acquire(e.Scope, 0)
				_, _, _ = c.Held(), w.Healthy(), w.Lost()
			}
		}})
		c = w.Client("w", nil)
		require.NoError(t, c.Acquire("s", 0))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 3, again)
		require.Zero(t, c.Held())
	})
}
