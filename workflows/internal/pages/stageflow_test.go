package pages

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// A damaged batch between two steps is left out of the commit, which would otherwise lose all that the leg has done.
func TestD1_DamagedBatchBetweenSteps(t *testing.T) {
	t.Parallel()
	whole := batchOf(0).With(&wire.Parcel{Step: 1, Run: "r"})
	damaged := batchOf(10).With(&wire.Parcel{Step: 1, Run: "r"})
	damaged.Offset = 0
	require.Equal(t, []wire.Batch{whole}, between([]wire.Task{{Batch: whole}, {Batch: damaged}, {Batch: batchOf(20)}}))
}

func batchOf(first int64) wire.Batch {
	return wire.Batch{Offset: 10 * first, Length: 100, First: first, Count: 10}.Sealed()
}
