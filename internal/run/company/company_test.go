package company

import (
	"math/bits"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stretchr/testify/require"
)

func TestHall(t *testing.T) {
	t.Parallel()
	var h Hall
	require.True(t, h.May(nil))
	h.Wait(nil)
	h.Begin(nil)
	h.Begin(nil)
	first, second := h.Halves()
	alone := h.Alone()
	require.True(t, first.Narrows() && second.Narrows())
	require.False(t, alone.Narrows() || (*Group)(nil).Narrows())
	for _, g := range []*Group{alone, second, first, first} {
		h.Wait(g)
		require.False(t, h.May(g), "others are in hand")
	}
	require.False(t, h.May(nil), "some wait to be among themselves")
	require.False(t, h.End())
	require.True(t, h.End())
	require.False(t, h.May(second))
	require.True(t, h.May(first))
	h.Begin(first)
	require.True(t, h.May(first), "with the other one")
	require.False(t, h.May(nil))
	h.GiveUp(first)
	require.True(t, h.End())
	require.False(t, h.May(alone))
	require.True(t, h.May(second))
	third, _ := h.Halves()
	h.Wait(third)
	require.False(t, h.May(second), "later halves come first")
	h.Begin(third)
	require.True(t, h.End())
	h.Begin(second)
	require.False(t, h.May(alone))
	require.True(t, h.End())
	h.Begin(alone)
	require.False(t, h.May(nil))
	require.True(t, h.End())
	require.True(t, h.May(nil))
	require.Empty(t, h.waiting)
}

// K8: one bad call among n in hand is found in at most 2·log2(n) rounds, of which log2(n) die. Calls come back in any
// order, and some do not.
func TestHall_Rounds(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 1)
	for _, n := range []int{2, 3, 16, 200, 1000} {
		for range 50 {
			log := bits.Len(uint(n - 1))
			var h Hall
			groups := make([]*Group, n)
			accuse := func(calls []int) {
				first, second := h.Halves()
				for i, c := range calls {
					groups[c] = first
					if i >= (len(calls)+1)/2 {
						groups[c] = second
					}
				}
			}
			all := random.Perm(n)
			bad := all[0]
			accuse(all)
			if random.IntN(2) == 0 {
				all = all[:n-random.IntN(n)]
			}
			for _, c := range all {
				h.Wait(groups[c])
			}
			rounds, deaths, found := 0, 0, false
			for len(h.waiting) > 0 {
				require.False(t, h.May(nil))
				var round []int
				random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
				for _, c := range all {
					if g := groups[c]; g != nil && h.waiting[g] > 0 && h.May(g) {
						h.Begin(g)
						round = append(round, c)
					}
				}
				require.NotEmpty(t, round)
				rounds++
				died := false
				for i, c := range round {
					died = died || c == bad
					require.Equal(t, i == len(round)-1, h.End())
				}
				switch {
				case died && len(round) == 1:
					found = true
					groups[bad] = nil
					deaths++
				case died:
					deaths++
					accuse(round)
					for _, c := range round {
						h.Wait(groups[c])
					}
				default:
					for _, c := range round {
						groups[c] = nil
					}
				}
			}
			require.True(t, found)
			require.LessOrEqual(t, rounds, 2*log, "%d calls", n)
			require.LessOrEqual(t, deaths, log, "%d calls", n)
			require.True(t, h.May(nil))
		}
	}
}
