package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	require.Equal(t, "stint", WorkflowQueue)
	require.Equal(t, "stint.thumbs", PoolQueue("thumbs"))
	require.Equal(t, "stint.thumbs.io", IOQueue("thumbs"))
	require.Equal(t, "thumbs", PoolOfQueue(PoolQueue("thumbs")))
	for _, other := range []string{"", WorkflowQueue, IOQueue("thumbs"), "somebody's"} {
		require.Empty(t, PoolOfQueue(other), other)
	}
}

func TestLegID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "nightly/leg-12", LegID("nightly", 12))
}
