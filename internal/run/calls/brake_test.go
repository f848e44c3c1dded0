package calls

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// B13: A few calls refused at random do not slow a job down. Four in a row do, and so does a tenth of them.
func TestD13_BrakeMindsTheShare(t *testing.T) {
	t.Parallel()
	slows := func(calls int, share float64) (n int) {
		random := rand.New(rand.NewPCG(1, 13))
		b := &Brake{}
		for range calls {
			if random.Float64() >= share {
				b.answered(1)
			} else if b.refused(time.Millisecond) {
				n++
			}
		}
		return n
	}
	require.Zero(t, slows(200_000, 0.005))
	require.Zero(t, slows(50_000, 0.02))
	require.Positive(t, slows(2000, 0.15))
	require.True(t, (*Brake)(nil).refused(time.Second))
	synctest.Test(t, func(t *testing.T) {
		b := &Brake{}
		b.answered(1000)
		for range 3 {
			require.False(t, b.refused(time.Second))
		}
		require.True(t, b.refused(time.Second))
		b.answered(1)
		require.False(t, b.refused(time.Second), "not in a row")
		b.refused(time.Second)
		b.refused(time.Second)
		require.True(t, b.refused(time.Second))
		time.Sleep(2 * time.Second)
		require.False(t, b.refused(time.Second), "what was before the pause says nothing of the lower rate")
	})
}

// A burst of calls, few of which are refused at random and therefore first, does not slow a job down; one that is
// refused as a whole does.
func TestBrake_Burst(t *testing.T) {
	t.Parallel()
	const burst = 500
	for refused, slow := range map[int]bool{10: false, 60: true, burst: true} {
		b := &Brake{}
		slowed := false
		for range burst {
			b.began()
		}
		for range refused {
			slowed = b.refused(time.Second) || slowed
			b.ended()
		}
		for range burst - refused {
			b.answered(1)
			b.ended()
		}
		require.Equal(t, slow, slowed, "%d of %d", refused, burst)
		require.Zero(t, b.under.Load())
	}
}

// Answers push older calls out, however many come at once.
func TestBrake_Shift(t *testing.T) {
	t.Parallel()
	for _, n := range []uint{1, 3, 63, 64, 65, 100, 127, 128, 1000} {
		b := &Brake{recent: [2]uint64{1, 0}}
		b.shift(n)
		var want [2]uint64
		if n < 128 {
			want[n/64] = 1 << (n % 64)
		}
		require.Equal(t, want, b.recent, "%d", n)
	}
}
