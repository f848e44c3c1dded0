package jobs

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// V1: a job whose logic no worker that polls knows says which release it needs.
func TestRun_Needs(t *testing.T) {
	t.Parallel()
	newer := wire.AtLogic(wire.WorkflowQueue, wire.LogicVersion+3)
	poller := []*taskqueue.PollerInfo{{Identity: "mill"}}
	for name, c := range map[string]struct {
		queue   string
		status  enums.WorkflowExecutionStatus
		pollers []*taskqueue.PollerInfo
		needs   string
	}{
		"of the first release": {wire.WorkflowQueue, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil, ""},
		"newer":                {newer, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil, wire.NeedsRelease(wire.LogicVersion + 3)},
		"newer, and known":     {newer, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, poller, ""},
		"newer, and ended":     {newer, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, tc := setup(t)
			tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
				WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Type: &common.WorkflowType{Name: wire.WorkflowJob}, TaskQueue: c.queue, Status: c.status},
			}, nil)
			if c.queue == newer && c.status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				tc.On("DescribeTaskQueue", mock.Anything, newer, enums.TASK_QUEUE_TYPE_WORKFLOW).Return(&workflowservice.DescribeTaskQueueResponse{Pollers: c.pollers}, nil)
			}
			needs, err := client.Get("nightly").Needs(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.needs, needs)
		})
	}
}

// V1: who does not know the logic of a job does not continue it.
func TestClient_DoesNotContinueANewerJob(t *testing.T) {
	t.Parallel()
	client, tc := setup(t)
	hasHistory(t, tc, "nightly", `{"version":99,"spec":`+asJSON(t, valid())+`}`, neverRan...)
	_, err := client.inputOf(t.Context(), "nightly")
	var needs *NeedsReleaseError
	require.ErrorAs(t, err, &needs)
	require.ErrorContains(t, err, "job nightly needs stint ≥ 0.99: this program has 0.")
}
