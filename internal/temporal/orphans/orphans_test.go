package orphans

import (
	"context"
	"errors"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"
)

func temporalClient(t *testing.T) *mocks.Client {
	tc := &mocks.Client{}
	tc.Test(t)
	t.Cleanup(func() { tc.AssertExpectations(t) })
	return tc
}

// stickyService notes whose sticky queue is given up.
type stickyService struct {
	workflowservice.WorkflowServiceClient
	released []string
	err      error
}

func (s *stickyService) ResetStickyTaskQueue(_ context.Context, in *workflowservice.ResetStickyTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.ResetStickyTaskQueueResponse, error) {
	s.released = append(s.released, in.GetNamespace()+" "+in.GetExecution().GetWorkflowId()+" "+in.GetExecution().GetRunId())
	return nil, s.err
}

// pending describes a workflow with activities in the states and with children.
func pending(tc *mocks.Client, id string, status enums.WorkflowExecutionStatus, states []enums.PendingActivityState, children ...string) {
	desc := &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
		Execution: &common.WorkflowExecution{WorkflowId: id, RunId: "run-of-" + id}, Status: status,
	}}
	for i, state := range states {
		desc.PendingActivities = append(desc.PendingActivities, &workflow.PendingActivityInfo{ActivityId: id + "-" + string(rune('a'+i)), State: state})
	}
	for _, child := range children {
		desc.PendingChildren = append(desc.PendingChildren, &workflow.PendingChildExecutionInfo{WorkflowId: child})
	}
	tc.On("DescribeWorkflowExecution", mock.Anything, id, "").Return(desc, nil)
}

const (
	running   = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	scheduled = enums.PENDING_ACTIVITY_STATE_SCHEDULED
	started   = enums.PENDING_ACTIVITY_STATE_STARTED
	cancelled = enums.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
)

// What a dead process had started is failed as orphaned, in the job and in its legs; what only lies
// in a queue stays.
func TestEnd(t *testing.T) {
	t.Parallel()
	tc := temporalClient(t)
	service := &stickyService{}
	tc.On("WorkflowService").Return(service)
	pending(tc, "nightly", running, []enums.PendingActivityState{started, scheduled}, "nightly/leg-1", "nightly/leg-2", "nightly/leg-3")
	pending(tc, "nightly/leg-1", running, []enums.PendingActivityState{scheduled, started, cancelled})
	pending(tc, "nightly/leg-2", enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, []enums.PendingActivityState{started})
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly/leg-3", "").Return(nil, serviceerror.NewNotFound("not yet started"))
	for _, id := range []string{"nightly", "nightly/leg-1"} {
		tc.On("SignalWorkflow", mock.Anything, id, "run-of-"+id, wire.SignalRestarted, nil).Return(nil)
	}
	var failed []string
	tc.On("CompleteActivityByID", mock.Anything, "default", mock.Anything, mock.Anything, mock.Anything, nil, mock.Anything).
		Run(func(args mock.Arguments) {
			var app *temporal.ApplicationError
			require.ErrorAs(t, args.Error(6), &app)
			require.Equal(t, wire.ErrorOrphaned, app.Type())
			require.True(t, app.NonRetryable())
			require.Equal(t, "run-of-"+args.String(2), args.String(3))
			failed = append(failed, args.String(4))
		}).Return(serviceerror.NewNotFound("it has just ended by itself")).Once()
	tc.On("CompleteActivityByID", mock.Anything, "default", mock.Anything, mock.Anything, mock.Anything, nil, mock.Anything).
		Run(func(args mock.Arguments) { failed = append(failed, args.String(4)) }).Return(nil)
	wasRunning, err := End(t.Context(), tc, "default", "nightly")
	require.NoError(t, err)
	require.True(t, wasRunning)
	require.Equal(t, []string{"nightly-a", "nightly/leg-1-b", "nightly/leg-1-c"}, failed)
	require.Equal(t, []string{"default nightly run-of-nightly", "default nightly/leg-1 run-of-nightly/leg-1"}, service.released)
}

func TestEnd_Fails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no network")
	steps := map[string]func(tc *mocks.Client){
		"asking for nightly": func(tc *mocks.Client) {
			tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(nil, broken)
		},
		"signalling the restart to nightly": func(tc *mocks.Client) {
			pending(tc, "nightly", running, nil)
			tc.On("SignalWorkflow", mock.Anything, "nightly", mock.Anything, wire.SignalRestarted, nil).Return(broken)
		},
		"ending an orphan of nightly": func(tc *mocks.Client) {
			pending(tc, "nightly", running, []enums.PendingActivityState{started})
			tc.On("SignalWorkflow", mock.Anything, "nightly", mock.Anything, wire.SignalRestarted, nil).Return(nil)
			tc.On("CompleteActivityByID", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(broken)
		},
		"releasing nightly": func(tc *mocks.Client) {
			pending(tc, "nightly", running, nil)
			tc.On("SignalWorkflow", mock.Anything, "nightly", mock.Anything, wire.SignalRestarted, nil).Return(nil)
			tc.On("WorkflowService").Return(&stickyService{err: broken})
		},
	}
	for doing, step := range steps {
		t.Run(doing, func(t *testing.T) {
			t.Parallel()
			tc := temporalClient(t)
			step(tc)
			_, err := End(t.Context(), tc, "default", "nightly")
			require.EqualError(t, err, doing+": no network")
		})
	}
}

// A job that has ended in the meantime needs no taking over.
func TestEnd_OfEndedJob(t *testing.T) {
	t.Parallel()
	tc := temporalClient(t)
	pending(tc, "nightly", enums.WORKFLOW_EXECUTION_STATUS_FAILED, nil, "nightly/leg-1")
	wasRunning, err := End(t.Context(), tc, "default", "nightly")
	require.NoError(t, err)
	require.False(t, wasRunning)
}
