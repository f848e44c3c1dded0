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

// A worker's name is the same with and without its process.
func TestWorkerIdentity(t *testing.T) {
	t.Parallel()
	for _, process := range []string{"", "table:4711:1"} {
		for _, version := range []string{"", "v2"} {
			identity := WorkerIdentity("mill-4711", version, process)
			worker, of := WorkerOf(identity)
			require.Equal(t, "mill-4711", worker)
			require.Equal(t, process, of)
			require.Equal(t, version, VersionOf(identity))
		}
	}
}
