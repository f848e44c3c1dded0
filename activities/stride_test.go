package activities

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// A batch with a pace begins its items in portions of a second's worth, and takes the time due.
func TestStride_KeepsThePace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pace    job.Rate
		portion int
		items   int
		took    time.Duration
	}{
		{0, 1000, 1000, 0}, {10_000, 10, 100, 10 * time.Second}, {500, 1, 3, 6 * time.Second}, {2_500, 2, 4, 1600 * time.Millisecond},
		{limits.MaxRate, 1000, 1000, time.Microsecond},
	} {
		minded(t, calls.WatchLimits{}, func(t *testing.T, m *calls.Watch) {
			s := stride{pace: c.pace}
			began := time.Now()
			for done := 0; done < c.items; {
				n := s.portion(1000)
				require.Equal(t, c.portion, n)
				n = min(n, c.items-done)
				require.True(t, s.begin(m, n))
				done += n
			}
			s.finish(m)
			require.Equal(t, c.took, time.Since(began))
			require.Equal(t, c.took, s.waited)
		})
	}
}

// What a portion takes of itself is not waited for, and a slow one is not made up for.
func TestStride_SlowPortions(t *testing.T) {
	t.Parallel()
	minded(t, calls.WatchLimits{}, func(t *testing.T, m *calls.Watch) {
		s := stride{pace: 10_000}
		require.True(t, s.begin(m, 10))
		time.Sleep(400 * time.Millisecond)
		require.True(t, s.begin(m, 10))
		require.Equal(t, 600*time.Millisecond, s.waited)
		time.Sleep(5 * time.Second)
		require.True(t, s.begin(m, 10))
		require.Equal(t, 600*time.Millisecond, s.waited)
	})
}

// A batch that a stop ends does not wait for its pace.
func TestStride_EndsWithAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan struct{})
		m := calls.StartWatch(t.Context(), calls.WatchLimits{Stopped: stopped, Grace: time.Hour})
		defer m.Stop()
		time.AfterFunc(time.Second, func() { close(stopped) })
		s := stride{pace: 1} // an item in a thousand seconds
		began := time.Now()
		require.True(t, s.begin(m, 1))
		require.False(t, s.begin(m, 1))
		s.finish(m)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// A batch keeps its pace when it ends because it has run for its slice: the rest begins at once.
func TestStride_OutlastsTheSlice(t *testing.T) {
	t.Parallel()
	m := calls.StartWatch(t.Context(), calls.WatchLimits{Slice: time.Nanosecond})
	defer m.Stop()
	s := stride{pace: 4000}
	require.Equal(t, 4, s.portion(100))
	began := time.Now()
	require.True(t, s.begin(m, 4))
	<-m.Soon
	require.False(t, s.begin(m, 4))
	s.finish(m)
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	require.Positive(t, s.waited)
}

// Nothing is waited for where the job or the worker ends, or where the handler has asked for less.
func TestStride_EndsWithTheJob(t *testing.T) {
	t.Parallel()
	ends := make(chan struct{})
	close(ends)
	for name, limits := range map[string]calls.WatchLimits{
		"stop": {Stopped: ends, Grace: time.Hour}, "drain": {Draining: ends, Drain: time.Hour}, "slow down": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := calls.StartWatch(t.Context(), limits)
			defer m.Stop()
			if limits.Grace+limits.Drain == 0 {
				m.SlowDown(time.Second)
			}
			s := stride{pace: job.Rate(1)} // an item in a thousand seconds
			require.Equal(t, 1, s.portion(100))
			require.True(t, s.begin(m, 1))
			s.finish(m)
		})
	}
}

// minded runs a test of a watch with its own clock.
func minded(t *testing.T, limits calls.WatchLimits, test func(t *testing.T, m *calls.Watch)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := calls.StartWatch(t.Context(), limits)
		defer m.Stop()
		test(t, m)
	})
}
