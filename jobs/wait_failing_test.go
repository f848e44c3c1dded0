package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// pastOf is a server that knows the latest events of histories, by workflow ID.
type pastOf struct {
	workflowservice.WorkflowServiceClient
	events map[string][]*history.HistoryEvent
}

func (p pastOf) GetWorkflowExecutionHistoryReverse(_ context.Context, in *workflowservice.GetWorkflowExecutionHistoryReverseRequest, _ ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: &history.History{Events: p.events[in.GetExecution().GetWorkflowId()]}}, nil
}

// A workflow task that fails again and again is found, in the job and in its legs, with its reason. One that was lost
// with its worker, or has failed once, is none.
func TestD10_FailingTask(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	failed := &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventTime: timestamppb.New(at), Attributes: &history.HistoryEvent_WorkflowTaskFailedEventAttributes{
		WorkflowTaskFailedEventAttributes: &history.WorkflowTaskFailedEventAttributes{Failure: &failure.Failure{Message: "[TMPRL1100] nondeterministic"}},
	}}
	signalled := &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}
	timedOut := &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
	for name, test := range map[string]struct {
		job, leg int32 // attempts
		events   []*history.HistoryEvent
		space    string
		want     *FailingTask
	}{
		"of the job":    {7, 0, []*history.HistoryEvent{signalled, failed}, "default", &FailingTask{"nightly", 7, at, "[TMPRL1100] nondeterministic"}},
		"of a leg":      {1, 3, []*history.HistoryEvent{failed, timedOut}, "default", &FailingTask{"nightly/leg-1", 3, at, "[TMPRL1100] nondeterministic"}},
		"once":          {1, 1, []*history.HistoryEvent{failed}, "default", nil},
		"lost":          {5, 0, []*history.HistoryEvent{timedOut, failed}, "default", nil},
		"no namespace":  {5, 0, nil, "", &FailingTask{Workflow: "nightly", Attempts: 5}},
		"nothing known": {5, 0, nil, "default", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc := &mocks.Client{}
			for id, attempt := range map[string]int32{"nightly": test.job, "nightly/leg-1": test.leg} {
				desc := &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Execution: &common.WorkflowExecution{WorkflowId: id}}}
				if attempt > 0 {
					desc.PendingWorkflowTask = &workflow.PendingWorkflowTaskInfo{Attempt: attempt}
				}
				if id == "nightly" {
					desc.PendingChildren = []*workflow.PendingChildExecutionInfo{{WorkflowId: "nightly/leg-1"}}
				}
				tc.On("DescribeWorkflowExecution", mock.Anything, id, "").Return(desc, nil)
			}
			tc.On("WorkflowService").Return(pastOf{events: map[string][]*history.HistoryEvent{"nightly": test.events, "nightly/leg-1": test.events}})
			got, err := NewClient(tc, &ClientOptions{Namespace: test.space}).Get("nightly").FailingTask(t.Context())
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			if got != nil && got.Reason != "" {
				require.Regexp(t, `^the workflow task of nightly\S* fails \(since .*\): \[TMPRL1100\] nondeterministic; it goes on once workers of the version`, got.String())
			}
		})
	}
}

// The server refuses an update at once while the workflow task fails: the job does not answer.
func TestSet_WorkflowTaskFails(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewWorkflowNotReady("Workflow Task in failed state."))
	_, err := c.Get("nightly").Set(t.Context(), job.Settings{})
	silent, ok := errors.AsType[*UnansweredError](err)
	require.True(t, ok, err)
	require.Equal(t, "nightly", silent.Name)
}
