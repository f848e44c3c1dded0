package job

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
)

// TakeOver ends what a dead process has left running in a job: it tells the job and its legs of
// the restart and fails their started activities as orphans, which costs these no attempt. Only
// a process that knows that no other can hold the job's activities may call it (the owner of an
// embedded server), before any worker polls. namespace is the Temporal client's.
func (r *Run) TakeOver(ctx context.Context, namespace string) error {
	legs, err := r.orphan(ctx, namespace, r.name)
	if err != nil {
		return err
	}
	for _, leg := range legs {
		if _, err := r.orphan(ctx, namespace, leg); err != nil {
			return err
		}
	}
	return nil
}

// orphan treats one workflow and returns its running children.
func (r *Run) orphan(ctx context.Context, namespace, id string) ([]string, error) {
	tc := r.client.temporal
	desc, err := tc.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return nil, ignoreGone(err, "asking for "+id)
	}
	if desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	execution := desc.GetWorkflowExecutionInfo().GetExecution()
	if err := tc.SignalWorkflow(ctx, id, execution.GetRunId(), SignalRestarted, nil); err != nil {
		return nil, ignoreGone(err, "telling "+id+" of the restart")
	}
	for _, activity := range desc.GetPendingActivities() {
		if activity.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		if err := r.failActivity(ctx, namespace, execution, activity.GetActivityId()); err != nil {
			return nil, err
		}
	}
	// The dead process's sticky queue would hold the next workflow task back for seconds.
	_, err = tc.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: namespace, Execution: execution,
	})
	if err != nil {
		return nil, ignoreGone(err, "releasing "+id)
	}
	var children []string
	for _, child := range desc.GetPendingChildren() {
		children = append(children, child.GetWorkflowId())
	}
	return children, nil
}

func (r *Run) failActivity(ctx context.Context, namespace string, of *common.WorkflowExecution, activity string) error {
	orphaned := temporal.NewNonRetryableApplicationError("the process that ran this has ended", ErrorOrphaned, nil)
	err := r.client.temporal.CompleteActivityByID(ctx, namespace, of.GetWorkflowId(), of.GetRunId(), activity, nil, orphaned)
	return ignoreGone(err, "ending an orphan of "+of.GetWorkflowId()) // gone: it has just ended by itself
}

func ignoreGone(err error, doing string) error {
	var gone *serviceerror.NotFound
	if err == nil || errors.As(err, &gone) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
