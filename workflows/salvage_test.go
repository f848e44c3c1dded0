package workflows

import (
	"testing"

	"github.com/stint-run/stint/activities"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
)

// child is a leg's workflow of which nothing is known but whether it has begun.
type child struct {
	workflow.ChildWorkflowFuture
	begun begun
}

func (c child) GetChildWorkflowExecution() workflow.Future { return c.begun }

type begun struct {
	workflow.Future
	ready bool
}

func (b begun) IsReady() bool { return b.ready }

// S12: where Temporal ends a job that has just given its manifests to a leg which has not begun, they
// are not lost, and no leg of the same number of an earlier run is taken for it.
func TestPending_LegThatHasNotBegun(t *testing.T) {
	t.Parallel()
	j := &jobRun{legs: []*openLeg{
		{number: 1, id: "nightly/leg-1", child: child{begun: begun{ready: true}}, previous: []string{"m-1"}},
		{number: 2, id: "nightly/leg-2", child: child{begun: begun{ready: false}}, previous: []string{"m-2", "m-3"}},
	}}
	pending, err := j.pending()
	require.NoError(t, err)
	require.Equal(t, []activities.CommitInput{{Leg: 2, Previous: []string{"m-2", "m-3"}}}, pending, "the first leg tells of itself")
	require.True(t, j.legs[0].begun())
	require.False(t, j.legs[1].begun())
}
