package calls

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// All batches of a worker together keep its rate.
func TestLimiter_IsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(10_000)
		began := time.Now()
		ended := make(chan struct{})
		for range 4 {
			go func() {
				m := StartWatch(t.Context(), WatchLimits{})
				defer m.Stop()
				for range 5 {
					_, ok := limiter.Take(m, limiter.Portion(1000))
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
	bubble(t, WatchLimits{Slice: time.Second}, func(t *testing.T, m *watched) {
		limiter := NewLimiter(100) // an item in ten seconds
		_, ok := limiter.Take(m.Watch, 1)
		require.True(t, ok)
		_, ok = limiter.Take(m.Watch, 1)
		require.False(t, ok)
		other := StartWatch(t.Context(), WatchLimits{})
		defer other.Stop()
		began := time.Now()
		_, ok = limiter.Take(other, 1)
		require.True(t, ok)
		require.LessOrEqual(t, time.Since(began), 10*time.Second, "as if it had not asked")
	})
}

func TestLimiter_None(t *testing.T) {
	t.Parallel()
	limiter := NewLimiter(0)
	require.Equal(t, 1000, limiter.Portion(1000))
	waited, ok := limiter.Take(nil, 1000)
	require.True(t, ok)
	require.Zero(t, waited)
}
