package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// H2: turns come back as they were, in whole milliseconds and none too soon.
func TestNextTurns(t *testing.T) {
	t.Parallel()
	n := NextTurns(-time.Second, []KeyTurn{{7, 1500 * time.Microsecond}, {Keys - 1, 2 * time.Hour}, {3, time.Second}, {4, 0}, {5, -time.Second}}, 10)
	require.Equal(t, []KeyTurn{{3, time.Second}, {7, 2 * time.Millisecond}, {Keys - 1, time.Hour}}, n.Keys.All())
	require.Equal(t, -time.Second, n.Turn)
	require.NoError(t, n.Keys.Valid())

	n = NextTurns(2*time.Second, []KeyTurn{{1, time.Second}, {2, 5 * time.Second}, {3, 4 * time.Second}, {4, 3 * time.Second}}, 2)
	require.Equal(t, []KeyTurn{{2, 5 * time.Second}, {3, 4 * time.Second}}, n.Keys.All())
	require.Equal(t, 3*time.Second, n.Turn, "the latest of the rest")

	require.Equal(t, NextTurn{Turn: time.Second}, NextTurns(time.Second, []KeyTurn{{1, time.Second}}, 2), "it comes no later than all others")
	require.Equal(t, []KeyTurn{{1, 3 * time.Second}}, NextTurns(0, []KeyTurn{{1, time.Second}, {1, 3 * time.Second}, {1, 2 * time.Second}}, 2).Keys.All(), "the latest")
	require.Empty(t, NextTurns(0, nil, 2))
}

// However far apart the digests are, turns keep to their bytes.
func TestNextTurns_Bytes(t *testing.T) {
	t.Parallel()
	for most, bytes := range map[int]int{MaxKeyTurns: MaxKeyBytes, LeastKeyTurns: LeastKeyBytes} {
		for _, far := range []uint32{1, 1 << 14, Keys / MaxKeyTurns, 1<<21 + 1} {
			var keys []KeyTurn
			for i := range uint32(2000) {
				key := min(i*far, Keys-2000+i)
				keys = append(keys, KeyTurn{key, time.Hour})
			}
			n := NextTurns(0, keys, most)
			require.Len(t, n.Keys.All(), most)
			require.LessOrEqual(t, len(n.Keys), bytes, far)
		}
	}
}

func TestKeyTurns_Damaged(t *testing.T) {
	t.Parallel()
	keys := NextTurns(0, []KeyTurn{{1, time.Second}, {300, time.Minute}}, 10).Keys
	for i := range keys {
		if half := keys[:i]; i != len(half.All())*3 { // a turn of a second takes three bytes
			require.Error(t, half.Valid())
		}
	}
	for _, k := range []KeyTurns{{0x80}, {1}, {1, 0x80}, {0xff, 0xff, 0xff, 0x08, 1}, {1, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 1}} {
		require.Error(t, k.Valid(), k)
		require.Empty(t, k.All())
	}
	in := ProcessInput{Share: &Share{First: NextTurn{Keys: KeyTurns{0x80}}}}
	require.Error(t, in.Valid())
}
