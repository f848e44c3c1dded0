package collector

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live, floor uint64
		growth      int
		want        int
	}{
		{0, 200 << 20, 150, 4900},
		{50 << 20, 200 << 20, 150, 300},
		{80 << 20, 200 << 20, 150, 150},
		{100 << 20, 200 << 20, 150, 150},
		{300 << 20, 200 << 20, 150, 150},
		{200 << 20, 200 << 20, 150, 150},
	} {
		require.Equal(t, c.want, percent(c.live, c.floor, c.growth), "%d MB", c.live>>20)
	}
}

// TestPace: the pace is set anew after every collection.
func TestPace(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	Pace(64<<20, 50)
	now := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	require.Greater(t, now(), 500)
	held := make([]byte, 63<<20)
	require.Eventually(t, func() bool { runtime.GC(); return now() == 50 }, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(held)
	held = nil
	require.Eventually(t, func() bool { runtime.GC(); return now() > 50 }, 10*time.Second, time.Millisecond)
}
