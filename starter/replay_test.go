package starter_test

import (
	"testing"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// requireReplays requires that every workflow in the state of the box replays with the same decisions:
// the effects of kills are in these histories.
func (b *box) requireReplays(state string) {
	b.t.Helper()
	server, err := devserver.Start(b.t.Context(), devserver.Options{Dir: b.path(state), Logger: silent})
	require.NoError(b.t, err)
	defer server.Stop()
	client := b.dial(server.Address())
	replayer := sdkworker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(workflows.Job, workflow.RegisterOptions{Name: wire.WorkflowJob})
	replayer.RegisterWorkflowWithOptions(workflows.Leg, workflow.RegisterOptions{Name: wire.WorkflowLeg})
	listed, err := client.ListWorkflow(b.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000})
	require.NoError(b.t, err)
	require.NotEmpty(b.t, listed.GetExecutions())
	for _, info := range listed.GetExecutions() {
		execution := info.GetExecution()
		err := replayer.ReplayWorkflowHistory(nil, historyOf(b.t, client, execution.GetWorkflowId(), execution.GetRunId()))
		require.NoError(b.t, err, "%s, run %s", execution.GetWorkflowId(), execution.GetRunId())
	}
}

func historyOf(t *testing.T, client sdkclient.Client, id, run string) *history.History {
	t.Helper()
	events := client.GetWorkflowHistory(t.Context(), id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var all history.History
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		all.Events = append(all.Events, event)
	}
	return &all
}
