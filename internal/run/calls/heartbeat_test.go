package calls

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// T16: heartbeats continue while the call in hand can still be ended, and no longer.
func TestWatch_Heartbeats(t *testing.T) {
	t.Parallel()
	const beat, limit = time.Second, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int64
		m := startWatched(t.Context(), WatchLimits{Call: limit, Beat: beat, Vouch: func([]watchdog.Held) { beats.Add(1) }})
		defer m.Stop()

		time.Sleep(10*beat + beat/2)
		synctest.Wait()
		require.EqualValues(t, 10, beats.Swap(0), "between calls")

		callOf(m) // and never comes back
		time.Sleep(limit + unvouched - beat)
		synctest.Wait()
		require.InDelta(t, (limit+unvouched-beat)/beat, beats.Swap(0), 1, "while it may still obey")
		time.Sleep(2 * beat)
		beats.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, beats.Load(), "a call that does not end loses its batch")

		m.lane.scope.Release()
		time.Sleep(2 * beat)
		synctest.Wait()
		require.NotZero(t, beats.Load(), "it came back after all")
	})
}

// While the server is asked about a stop the batch is looked after: it heartbeats, and its calls expire.
func TestWatch_HeartbeatsWhileAStopIsLookedUp(t *testing.T) {
	t.Parallel()
	var beats atomic.Int32
	stopped := make(chan struct{})
	limits := WatchLimits{
		Beat: time.Second, Grace: time.Hour, Call: 20 * time.Second, Stopped: stopped, Vouch: func([]watchdog.Held) { beats.Add(1) },
		Notice: func(context.Context) (wire.StopNotice, bool) {
			time.Sleep(30 * time.Second)
			return wire.StopNotice{Deadline: time.Now().Add(10 * time.Second), Reason: "enough"}, true
		},
	}
	bubble(t, limits, func(t *testing.T, m *watched) {
		close(stopped)
		synctest.Wait()
		require.True(t, m.Ending.Load(), "no call is begun")
		requireExpired(t, callOf(m), 20*time.Second)
		m.lane.scope.Release()
		require.GreaterOrEqual(t, beats.Load(), int32(15))
		call := callOf(m)
		<-m.stopping
		require.Equal(t, "enough", m.notice.Reason)
		require.NoError(t, call.Err())
		<-call.Done()
		require.ErrorIs(t, context.Cause(call), ErrEnded)
	})
}

// beatsIn returns how many heartbeats are counted in a time of a bubble.
func beatsIn(d time.Duration, beats *atomic.Int64) int64 {
	beats.Store(0)
	time.Sleep(d)
	synctest.Wait()
	return beats.Load()
}

// T16: no heartbeat while a call is in doubt; its end is the end of that.
func TestWatch_NoHeartbeatsInDoubt(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int64
		m := startWatched(t.Context(), WatchLimits{Beat: beat, Vouch: func([]watchdog.Held) { beats.Add(1) }})
		defer m.Stop()
		count := func() int64 { return beatsIn(10*beat+beat/2, &beats) }
		c := &Call{lane: m.lane}
		c.Begin()
		doubt := c.Doubt()
		require.GreaterOrEqual(t, count(), int64(9))
		doubt()
		require.Zero(t, count())
		c.End()
		require.GreaterOrEqual(t, count(), int64(9))
		doubt() // late
		c.Begin()
		require.GreaterOrEqual(t, count(), int64(9), "the next call is another one")
		c.End()
	})
}

func TestWatch_NoHeartbeatsWithoutTimeout(t *testing.T) {
	t.Parallel()
	bubble(t, WatchLimits{Vouch: func([]watchdog.Held) { panic("nobody asked for a heartbeat") }}, func(t *testing.T, m *watched) {
		time.Sleep(time.Hour)
	})
}

// T16: a batch heartbeats only while its worker's watchdog is healthy, and no timer of it is due.
func TestWatch_VouchesOnlyWhileWatched(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	synctest.Test(t, func(t *testing.T) {
		dog := watchdog.New(watchdog.Options{})
		dog.Start()
		defer dog.Stop()
		var beats atomic.Int64
		m := startWatched(t.Context(), WatchLimits{Beat: beat, Vouch: func([]watchdog.Held) { beats.Add(1) }, Watchdog: dog})
		defer m.Stop()
		count := func() int64 { return beatsIn(10*beat+beat/2, &beats) }
		require.EqualValues(t, 10, count())
		dog.Stop()
		require.LessOrEqual(t, count(), int64(1), "the watchdog is away")
		dog.Start()
		require.GreaterOrEqual(t, count(), int64(9), "it is back")
	})
}
