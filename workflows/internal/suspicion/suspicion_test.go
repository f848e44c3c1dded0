package suspicion

import (
	"math/bits"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// Whichever item of a batch kills its workers, it is condemned, after log2(n) + 2 deaths at most.
func TestSuspicion_FindsEveryItem(t *testing.T) {
	t.Parallel()
	for n := int64(1); n <= 70; n++ {
		for bad := range n {
			var s Suspicion
			batch := wire.Batch{First: 1000, Count: n}.Sealed()
			s.Begin(batch, nil)
			deaths, first := 0, int64(0)
			for !s.Condemned {
				require.True(t, s.Suspected())
				take := s.Take()
				require.LessOrEqual(t, first+take, n)
				if first <= bad && bad < first+take {
					deaths++
					s.Died()
					continue
				}
				first += take
				s.Survived(take, n-first)
			}
			require.Equal(t, bad, first, "of %d", n)
			require.LessOrEqual(t, deaths, bits.Len64(uint64(n))+2)
			s.Survived(1, n-first-1)
			require.False(t, s.Suspected(), "the verdict ends the suspicion")
		}
	}
}

// A hint saves deaths if it is right, and is dropped if it is out of date or out of bounds.
func TestSuspicion_Hint(t *testing.T) {
	t.Parallel()
	batch := wire.Batch{First: 1000, Count: 100}.Sealed()
	var s Suspicion
	s.Begin(batch, &wire.Hint{First: 1040, Count: 8})
	require.EqualValues(t, 40, s.Take(), "first what was done before")
	s.Survived(40, 60)
	require.EqualValues(t, 4, s.Take())
	s.Survived(4, 56)
	s.Survived(2, 54)
	s.Survived(1, 53)
	s.Survived(1, 52)
	require.Equal(t, Suspicion{Suspects: 52}, s, "it was out of date")

	for _, hint := range []wire.Hint{{First: 999, Count: 8}, {First: 1096, Count: 8}, {First: 1000}} {
		var s Suspicion
		s.Begin(batch, &hint)
		require.Equal(t, Suspicion{Suspects: 100}, s, "%+v", hint)
	}
}
