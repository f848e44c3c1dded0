package lookup

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflow/v1"
)

// A worker is known by its identity, before its batch's first heartbeat.
func TestLastHint_WithoutAHeartbeat(t *testing.T) {
	t.Parallel()
	hint, _ := LastHint(&workflow.PendingActivityInfo{LastWorkerIdentity: wire.Identity{Worker: "mill-4711", Slots: 4, Process: "table:4711:1"}.String()}, nil)
	require.Equal(t, wire.SlotRef{Worker: "mill-4711", PID: 4711, Process: "table:4711:1"}, hint.SlotRef)
}
