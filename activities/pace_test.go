package activities

import (
	"testing"
	"testing/synctest"
	"time"

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
		{job.MaxRate, 1000, 1000, time.Microsecond},
	} {
		bubble(t, minderLimits{}, func(t *testing.T, m *minder) {
			s := stride{pace: c.pace}
			began := time.Now()
			for done := 0; done < c.items; {
				n := s.portion(1000)
				require.Equal(t, c.portion, n)
				n = min(n, c.items-done)
				s.pass(m, n)
				done += n
			}
			require.Equal(t, c.took, time.Since(began))
			require.Equal(t, c.took, s.waited)
		})
	}
}

// What a portion takes of itself is not waited for, and a slow one is not made up for.
func TestStride_SlowPortions(t *testing.T) {
	t.Parallel()
	bubble(t, minderLimits{}, func(t *testing.T, m *minder) {
		s := stride{pace: 10_000}
		s.portion(10)
		time.Sleep(400 * time.Millisecond)
		s.pass(m, 10)
		require.Equal(t, 600*time.Millisecond, s.waited)
		s.portion(10)
		time.Sleep(5 * time.Second)
		s.pass(m, 10)
		require.Equal(t, 600*time.Millisecond, s.waited)
	})
}

// A batch that a stop ends does not wait for its pace.
func TestStride_EndsWithAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan struct{})
		m := mind(t.Context(), minderLimits{stopped: stopped, grace: time.Hour})
		defer m.stop()
		time.AfterFunc(time.Second, func() { close(stopped) })
		s := stride{pace: 1} // an item in a thousand seconds
		began := time.Now()
		s.portion(1)
		s.pass(m, 1)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// All batches of a worker together keep its rate.
func TestLimiter_IsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(10_000)
		began := time.Now()
		ended := make(chan struct{})
		for range 4 {
			go func() {
				m := mind(t.Context(), minderLimits{})
				defer m.stop()
				for range 5 {
					_, ok := limiter.take(m, limiter.portion(1000))
					require.True(t, ok)
				}
				ended <- struct{}{}
			}()
		}
		for range 4 {
			<-ended
		}
		require.Equal(t, 19*time.Second, time.Since(began).Round(time.Millisecond), "200 items at 10 a second, after a burst of 10")
	})
}

// A batch that should end gives back what it has not begun.
func TestLimiter_GivesBack(t *testing.T) {
	t.Parallel()
	bubble(t, minderLimits{slice: time.Second}, func(t *testing.T, m *minder) {
		limiter := NewLimiter(100) // an item in ten seconds
		_, ok := limiter.take(m, 1)
		require.True(t, ok)
		_, ok = limiter.take(m, 1)
		require.False(t, ok)
		other := mind(t.Context(), minderLimits{})
		defer other.stop()
		began := time.Now()
		_, ok = limiter.take(other, 1)
		require.True(t, ok)
		require.LessOrEqual(t, time.Since(began), 10*time.Second, "as if it had not asked")
	})
}

func TestLimiter_None(t *testing.T) {
	t.Parallel()
	limiter := NewLimiter(0)
	require.Equal(t, 1000, limiter.portion(1000))
	waited, ok := limiter.take(nil, 1000)
	require.True(t, ok)
	require.Zero(t, waited)
}

// The longest of a handler's wishes counts, and the batch should end.
func TestMinder_SlowDown(t *testing.T) {
	t.Parallel()
	bubble(t, minderLimits{}, func(t *testing.T, m *minder) {
		require.Zero(t, m.slowedDown())
		m.slowDown(2 * time.Second)
		m.slowDown(time.Second)
		require.Equal(t, 2*time.Second, m.slowedDown())
		require.True(t, m.ending.Load())
		m.slowDown(-1)
		require.Equal(t, 2*time.Second, m.slowedDown())
	})
}
