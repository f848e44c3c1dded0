package feeds

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every item is found in a spill that has it, and what no spill has is lost, however spills overlap.
func TestFinder_FindsWhatSpillsHave(t *testing.T) {
	t.Parallel()
	random := jobtest.Seeded(t, 7)
	for range 2000 {
		const items = 30
		var spills []wire.Spill
		for range random.IntN(6) {
			first := random.Int64N(items)
			spills = append(spills, wire.Spill{First: first, Count: 1 + random.Int64N(items-first)})
		}
		slices.SortFunc(spills, func(a, b wire.Spill) int { return cmp.Compare(a.First, b.First) })
		f := &finder{spills: spills}
		var wanted, found, missing, lost []int64
		for at := int64(0); at < items; {
			end := at + random.Int64N(items-at+1)
			f.find(at, end)
			for ; at < end; at++ {
				wanted = append(wanted, at)
				if !slices.ContainsFunc(spills, func(s wire.Spill) bool { return s.First <= at && at < s.End() }) {
					missing = append(missing, at)
				}
			}
			at++ // it has an outcome
		}
		for _, g := range f.found {
			require.Less(t, g.first, g.end)
			require.LessOrEqual(t, spills[g.spill].First, g.first)
			require.LessOrEqual(t, g.end, spills[g.spill].End())
			for at := g.first; at < g.end; at++ {
				found = append(found, at)
			}
		}
		require.True(t, slices.IsSorted(found))
		for _, g := range f.lost {
			require.Less(t, g.first, g.end)
			for at := g.first; at < g.end; at++ {
				lost = append(lost, at)
			}
		}
		require.Equal(t, missing, lost)
		all := append(found, lost...)
		slices.Sort(all)
		require.Equal(t, wanted, all)
	}
}
