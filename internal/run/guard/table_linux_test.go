package guard

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the guard finds in the table is what is in it, whatever was added and removed.
func TestTable(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	table, err := newTable()
	require.NoError(t, err)
	defer table.close()
	want := map[int]struct{}{}
	for range 2000 {
		group := 2 + random.IntN(100)
		if random.IntN(2) == 0 {
			require.NoError(t, table.add(group))
			want[group] = struct{}{}
		} else {
			table.remove(group)
			delete(want, group)
		}
		if random.IntN(10) == 0 {
			got, err := groupsIn(table.file)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	require.LessOrEqual(t, table.used, 100, "places are used again")
}

func TestTable_IsFull(t *testing.T) {
	t.Parallel()
	table, err := newTable()
	require.NoError(t, err)
	defer table.close()
	for group := 2; group < 2+tableGroups; group++ {
		require.NoError(t, table.add(group))
	}
	require.EqualError(t, table.add(1<<20), "more than 65536 processes at once")
	table.remove(7)
	require.NoError(t, table.add(1<<20))
	got, err := groupsIn(table.file)
	require.NoError(t, err)
	require.Len(t, got, tableGroups)
	require.Equal(t, got, maps.Collect(func(yield func(int, struct{}) bool) {
		for group := range table.places {
			if !yield(group, struct{}{}) {
				return
			}
		}
	}))
}
