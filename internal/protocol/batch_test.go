package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatch_After(t *testing.T) {
	t.Parallel()
	whole := Batch{Source: 2, Offset: 100, Length: 50, First: 10, Count: 5}
	require.Equal(t, whole, whole.After(0, 0))

	rest := whole.After(2, 21)
	require.Equal(t, Batch{Source: 2, Offset: 121, Length: 29, First: 12, Count: 3}, rest)
	require.Equal(t, whole.End(), rest.End(), "a rest is a suffix")

	require.Equal(t, Batch{Source: 2, Offset: 150, First: 15}, whole.After(5, 50), "nothing is left")
}

func TestBatch_String(t *testing.T) {
	t.Parallel()
	require.Equal(t, "items 12,000–12,999", Batch{First: 12_000, Count: 1000}.String())
	require.Equal(t, "item 4,711", Batch{First: 4711, Count: 1}.String())
	require.Equal(t, "items 0–1", Batch{Count: 2}.String())
}
