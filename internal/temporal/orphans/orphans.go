// Package orphans ends what a dead process has left running on a server.
package orphans

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// End ends what a dead process has left running in a job: it signals the restart to the job and its legs,
// and fails their started activities as orphans, which does not count as an attempt. Only a process that
// knows that no other one can run the job's activities may call it (the owner of an embedded server),
// before any worker polls. The namespace is the client's. It reports whether the job was running.
func End(ctx context.Context, c client.Client, namespace, name string) (running bool, err error) {
	running, legs, err := end(ctx, c, namespace, name)
	if err != nil {
		return running, err
	}
	for _, leg := range legs {
		if _, _, err := end(ctx, c, namespace, leg); err != nil {
			return running, err
		}
	}
	return running, nil
}

// end ends the orphans of one workflow, and returns whether it runs and its running children.
func end(ctx context.Context, tc client.Client, namespace, id string) (running bool, children []string, err error) {
	desc, err := tc.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return false, nil, ignoreGone(err, "asking for "+id)
	}
	if desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, nil, nil
	}
	execution := desc.GetWorkflowExecutionInfo().GetExecution()
	if err := tc.SignalWorkflow(ctx, id, execution.GetRunId(), wire.SignalRestarted, nil); err != nil {
		return true, nil, ignoreGone(err, "signalling the restart to "+id)
	}
	for _, activity := range desc.GetPendingActivities() {
		if activity.GetState() == enums.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		if err := failActivity(ctx, tc, namespace, execution, activity); err != nil {
			return true, nil, err
		}
	}
	// The dead process's sticky queue would delay the next workflow task by seconds.
	_, err = tc.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: namespace, Execution: execution,
	})
	if err != nil {
		return true, nil, ignoreGone(err, "releasing "+id)
	}
	for _, child := range desc.GetPendingChildren() {
		children = append(children, child.GetWorkflowId())
	}
	return true, children, nil
}

func failActivity(ctx context.Context, c client.Client, namespace string, of *common.WorkflowExecution, activity *workflow.PendingActivityInfo) error {
	var details []any
	if activity.GetHeartbeatDetails() != nil {
		hint, _ := lookup.LastHint(activity, converter.GetDefaultDataConverter())
		details = []any{hint} // what it had in hand
	}
	orphaned := temporal.NewNonRetryableApplicationError("the process that ran this has ended", wire.ErrorOrphaned, nil, details...)
	err := c.CompleteActivityByID(ctx, namespace, of.GetWorkflowId(), of.GetRunId(), activity.GetActivityId(), nil, orphaned)
	return ignoreGone(err, "ending an orphan of "+of.GetWorkflowId()) // gone: it has just ended
}

func ignoreGone(err error, doing string) error {
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone || err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
