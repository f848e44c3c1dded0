package throttle

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate job.Rate
		item time.Duration
		want int
	}{
		{1000, 0, 1}, {1000, time.Millisecond, 1}, {1000, time.Second, 2}, {10_000, time.Second, 11},
		{100_000, time.Second, 64}, {limits.MaxRate, time.Hour, 64}, {limits.MaxRate, time.Nanosecond, 2}, {1, time.Hour, 4},
	} {
		require.Equal(t, c.want, Needed(c.rate, c.item, 64), "%+v", c)
	}
	require.Equal(t, 1, Needed(10_000, time.Second, 0), "a window without places")
}

// The limit after a request to slow down halves, holds, grows by itself and ends.
func TestSlowed_Recovers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	var s Slowed
	require.Zero(t, s.Rate(now))
	s.SlowDown(now, now, 2*time.Second, 100_000)
	require.Equal(t, Slowed{Base: 50_000, From: now.Add(2 * time.Second), Halved: now, First: now}, s)
	s.SlowDown(now.Add(time.Second), now.Add(time.Second), 3*time.Second, 100_000)
	require.Equal(t, job.Rate(50_000), s.Base, "batches that were running ask for the same")
	require.Equal(t, now.Add(4*time.Second), s.From)
	before := s.Rate(s.From)
	for d := time.Second; s.Rate(s.From.Add(d)) > 0; d += time.Second {
		rate := s.Rate(s.From.Add(d))
		require.GreaterOrEqual(t, rate, before)
		require.LessOrEqual(t, rate, s.Base<<doublings)
		before = rate
		require.Less(t, d, 5*time.Minute)
	}
	s.SlowDown(now.Add(6*time.Second), now.Add(5*time.Second), time.Second, 0)
	require.Equal(t, job.Rate(25_000), s.Base, "another request, later")
	require.Equal(t, job.Rate(25_000), s.Rate(s.From.Add(4*time.Second)))
	require.Equal(t, job.Rate(31_250), s.Rate(s.From.Add(5*time.Second)), "by equal steps from now on")
	require.Equal(t, job.Rate(50_000), s.Rate(s.From.Add(20*time.Second)))
	require.Equal(t, job.Rate(93_750), s.Rate(s.From.Add(59*time.Second)))
	require.Zero(t, s.Rate(s.From.Add(time.Minute)))
	before = s.Base
	s.SlowDown(s.From.Add(20*time.Second), now, time.Second, 0)
	require.Equal(t, before, s.Base, "a batch that began before does not know of the limit")
	fresh := Slowed{}
	fresh.SlowDown(now, now, time.Second, 0)
	require.Equal(t, Slowed{From: now.Add(time.Second), Halved: now, First: now}, fresh, "no rate is known: a pause only")
	fresh.SlowDown(now.Add(time.Minute), now, time.Second, 0)
	require.Equal(t, now, fresh.First, "it is that of the first request")
	for range 30 {
		s.SlowDown(s.From.Add(time.Second), s.From, 6*time.Second, 0)
	}
	require.Equal(t, minSlowed, s.Base)
}
