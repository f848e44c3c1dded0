package watchdog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// T5: a release that was sent before the deadline saves the worker, though it is applied only
// after a round has found the timer expired.
func TestWatchdog_ReleaseInTimeSaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		var c *Client
		r := &settler{settle: func(context.Context) {
			time.Sleep(500 * time.Millisecond) // the release is on its way
			c.Release("s")
		}}
		c = w.Client("w", r)
		require.NoError(t, c.Acquire("s", time.Second))
		time.Sleep(time.Second + interval)
		synctest.Wait()
		require.True(t, c.Condemned(), "until it is settled")
		time.Sleep(time.Minute)
		require.Empty(t, r.reaps())
		require.Equal(t, 1, r.settled())
		require.False(t, c.Condemned())
		require.Equal(t, []EventKind{EventStarted}, w.kinds())
		require.NoError(t, c.Acquire("s", time.Second), "it lives on")
	})
}

// T5: so does acquiring again in time, with the new deadline in force from then on.
func TestWatchdog_AcquireInTimeSaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		var c *Client
		r := &settler{settle: func(context.Context) {
			if c.Condemned() && c.holdings == 1 {
				_ = c.Acquire("s", 10*time.Second)
			}
		}}
		c = w.Client("w", r)
		require.NoError(t, c.Acquire("s", time.Second))
		time.Sleep(10 * time.Second)
		require.Empty(t, r.reaps())
		time.Sleep(2 * time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, 10*time.Second, r.reaps()[0].After)
	})
}

// T5: a timer that expires while another is settled is settled itself before anything is done
// about it; and a release of one does not save from the other.
func TestWatchdog_EveryExpiryIsSettled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		var c *Client
		var r *settler
		r = &settler{settle: func(context.Context) {
			late := map[int]string{1: "a", 2: "b", 3: "a"}[r.settled()]
			time.Sleep(500 * time.Millisecond)
			c.Release(late)
		}}
		c = w.Client("w", r)
		require.NoError(t, c.Acquire("a", time.Second))
		require.NoError(t, c.Acquire("b", 1200*time.Millisecond))
		time.Sleep(3 * time.Second)
		require.Empty(t, r.reaps())
		require.Equal(t, 2, r.settled())

		require.NoError(t, c.Acquire("a", time.Second))
		require.NoError(t, c.Acquire("hangs", time.Second))
		time.Sleep(3 * time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, "hangs", r.reaps()[0].Scope)
	})
}

// T5: a worker that hangs is not saved by a Settle that hangs; that one is not called twice at the
// same time.
func TestWatchdog_SettleThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		free := make(chan struct{})
		r := &settler{settle: func(context.Context) { <-free }}
		tries := 0
		r.do = func(context.Context, Expiry) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}
		require.NoError(t, w.Client("w", r).Acquire("s", time.Second))
		began := time.Now()
		time.Sleep(10 * time.Second)
		require.Len(t, r.reaps(), 3)
		require.Equal(t, time.Second+settleLimit, r.reaps()[0].when.Sub(began))
		require.Equal(t, interval, r.reaps()[2].when.Sub(r.reaps()[1].when))
		require.Equal(t, 1, r.settled())
		close(free)
	})
}

// T7: a panic of Settle raises the alarm, and the reaping follows.
func TestWatchdog_PanickingSettler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := start(t, Options{})
		r := &settler{settle: func(context.Context) { panic("broken") }}
		require.NoError(t, w.Client("w", r).Acquire("s", 0))
		time.Sleep(time.Second)
		require.Len(t, r.reaps(), 1)
		require.Equal(t, []EventKind{EventStarted, EventReaperPanicked, EventExpired, EventReaped}, w.kinds())
		alarm := w.reported(EventReaperPanicked)[0]
		require.ErrorContains(t, alarm.Err, "settling: panic: broken")
		require.ErrorContains(t, alarm.Err, "settle_test.go", "with the stack")
		require.Equal(t, "w", alarm.Worker)
	})
}
