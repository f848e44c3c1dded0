package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// V1: task queues of a version of the logic have a name that no pool's has, and which says its release.
func TestAtLogic(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string]string{WorkflowQueue: "stint@0.2", PoolQueue("p"): "stint.p@0.2", IOQueue("p"): "stint.p.io@0.2"} {
		require.Equal(t, queue, AtLogic(queue, 0))
		require.Equal(t, queue, AtLogic(queue, 1), "the first version has no mark")
		require.Equal(t, want, AtLogic(queue, 2))
		require.Equal(t, 1, LogicOf(queue))
		require.Equal(t, 2, LogicOf(want))
	}
	require.Equal(t, 112, LogicOf(AtLogic(WorkflowQueue, 112)))
	require.Equal(t, "p", PoolOfQueue(AtLogic(PoolQueue("p"), 2)))
	require.Empty(t, PoolOfQueue(AtLogic(IOQueue("p"), 2)))
	require.Equal(t, 1, LogicOf("stint@x"))
}

func TestKnows(t *testing.T) {
	t.Parallel()
	require.True(t, Knows(0), "the first version")
	require.True(t, Knows(LogicVersion))
	require.False(t, Knows(LogicVersion+1))
	require.Contains(t, Logics(), LogicVersion)
	require.Equal(t, "needs stint ≥ 0.9", NeedsRelease(9))
	require.Equal(t, "needs stint ≥ 1.2", NeedsRelease(102))
}
