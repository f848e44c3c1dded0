package collector

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPacer_Percent(t *testing.T) {
	t.Parallel()
	const floor = 200 << 20
	p := &pacer{floor: floor, growth: firstGrowth, last: time.Unix(0, 0)}
	now := p.last
	for _, c := range []struct {
		live  uint64
		after time.Duration // since the last collection
		want  int
	}{
		{0, 0, 4900},
		{50 << 20, time.Minute, 300},
		{50 << 20, time.Millisecond, 300},
		{160 << 20, time.Second, 50},
		{180 << 20, time.Second, 50},
		{200 << 20, time.Second, 50},
		{300 << 20, time.Second, 50},
		{300 << 20, 3 * time.Second, 25},
		{180 << 20, 3 * time.Second, 25},
		{160 << 20, 3 * time.Second, 25},
		{300 << 20, 300 * time.Millisecond, 50},
		{300 << 20, 300 * time.Millisecond, 100},
		{300 << 20, 0, 100},
		{50 << 20, time.Minute, 300},
		{300 << 20, time.Second, 100},
		{300 << 20, time.Minute, 50},
	} {
		now = now.Add(c.after)
		require.Equal(t, c.want, p.percent(c.live, now), "%d MB after %v", c.live>>20, c.after)
	}
}

// TestPace: the pace is set anew after every collection.
func TestPace(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	Pace(64 << 20)
	now := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	require.Greater(t, now(), 500)
	held := make([]byte, 63<<20)
	require.Eventually(t, func() bool { runtime.GC(); return now() <= mostGrowth }, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(held)
	held = nil
	require.Eventually(t, func() bool { runtime.GC(); return now() > mostGrowth }, 10*time.Second, time.Millisecond)
}
