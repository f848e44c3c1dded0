package coordinate

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// H3: However legs ask, their parts add up to the budget at most, and after a few questions nothing is left.
func TestPortion(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		budget := 1 + random.Int64N(1_000_000)
		parts := make([]int64, 1+random.IntN(8))
		left := budget
		for asked := 0; left > 0; asked++ {
			require.Less(t, asked, 40, "seed %d", seed)
			i := random.IntN(len(parts))
			now := portion(parts[i], left, budget, false, true)
			require.Greater(t, now, parts[i], "seed %d", seed)
			left -= now - parts[i]
			parts[i] = now
			require.GreaterOrEqual(t, left, int64(0), "seed %d", seed)
		}
	}
	require.EqualValues(t, 100, portion(30, 70, 100, true, false))
	require.EqualValues(t, 10, portion(30, -20, 100, false, false), "of a budget that has become smaller")
	require.EqualValues(t, 0, portion(30, -50, 100, true, false))
	require.EqualValues(t, 30, portion(30, 70, 100, false, false))
}
