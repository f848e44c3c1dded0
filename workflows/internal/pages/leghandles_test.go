package pages

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
)

type begun struct {
	workflow.Future
	ready bool
}

func (b begun) IsReady() bool { return b.ready }

// S12: if Temporal ends a job that has just given its manifests to a leg which has not begun, they
// are not lost, and no leg of the same number of an earlier run is taken for it.
func TestPending_LegThatHasNotBegun(t *testing.T) {
	t.Parallel()
	leg := func(number int, ready bool, previous ...string) *ChildLeg {
		return &ChildLeg{
			In: wire.LegInput{LegState: wire.LegState{Number: number}, Previous: previous, Spec: job.Spec{Name: "nightly"}}, started: begun{ready: ready},
		}
	}
	begun, waiting := leg(1, true, "m-1"), leg(2, false, "m-2", "m-3")
	require.Empty(t, begun.Pending(), "it is asked itself")
	require.Equal(t, []any{wire.CommitInput{Leg: 2, Previous: []string{"m-2", "m-3"}}}, waiting.Pending())
	var report job.Report
	begun.AddTo(&report)
	waiting.AddTo(&report)
	require.Equal(t, []string{"nightly/leg-1"}, report.OpenLegs)
}
