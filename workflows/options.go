package workflows

import (
	"errors"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// acts names activities by their methods; it is never called.
var acts *activities.Activities

const (
	// unlimited stands for "no limit" where Temporal wants one.
	unlimited = 365 * 24 * time.Hour
	// ioPatience is how long Plan, Commit and Finish are repeated over faults that may pass.
	ioPatience = 24 * time.Hour
)

// batchOptions are those of one execution of Process, which gets an ID where id is not empty. The leg counts attempts, not the server.
func batchOptions(ctx workflow.Context, spec job.Spec, id, summary string) workflow.Context {
	timeout := spec.BatchTimeout
	if timeout == 0 {
		timeout = unlimited
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           job.PoolQueue(spec.Pool),
		StartToCloseTimeout: timeout,
		HeartbeatTimeout:    spec.Expiry,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             summary,
	})
}

// ioOptions are those of Plan, Commit and Finish, which run outside the slots.
func ioOptions(ctx workflow.Context, spec job.Spec, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              job.IOQueue(spec.Pool),
		ScheduleToCloseTimeout: ioPatience,
		HeartbeatTimeout:       spec.Expiry,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: job.PermanentErrors(),
		},
		Summary: summary,
	})
}

// finishOptions are those of Finish. A stop that comes too late to keep it from publishing the output
// is too late for the job.
func finishOptions(ctx workflow.Context, spec job.Spec) workflow.Context {
	return workflow.WithWaitForCancellation(ioOptions(ctx, spec, "check the books and publish the output"), true)
}

// locateOptions are those of a look at where batches run, which is not worth waiting for long.
func locateOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: locateLimit,
		StartToCloseTimeout:    locateLimit / 2,
		Summary:                "find out where stragglers run",
	})
}

func legOptions(ctx workflow.Context, spec job.Spec, number int, summary string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          job.LegID(spec.Name, number),
		TaskQueue:           job.WorkflowQueue,
		WorkflowTaskTimeout: workflow.GetInfo(ctx).WorkflowTaskTimeout,
		ParentClosePolicy:   enums.PARENT_CLOSE_POLICY_TERMINATE,
		// A leg of an earlier run of the job may have had the number.
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         summary,
	})
}

// isType reports whether err is an application error of the type.
func isType(err error, kind string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == kind
}

// jobError turns the end of an activity into the job's error.
func jobError(err error) *job.Error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return &job.Error{Type: app.Type(), Message: app.Message()}
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return &job.Error{Type: "Timeout", Message: timeoutMessage(timeout)}
	}
	return &job.Error{Type: job.ErrorFailed, Message: err.Error()}
}

func timeoutMessage(t *temporal.TimeoutError) string {
	switch t.TimeoutType() {
	case enums.TIMEOUT_TYPE_HEARTBEAT:
		return "its worker died, hung or was cut off: no heartbeat within the expiry"
	case enums.TIMEOUT_TYPE_START_TO_CLOSE:
		return "it took longer than the batch timeout"
	}
	return t.Error()
}

// ranOut reports whether err is a heartbeat timeout, itself or as the cause of another.
func ranOut(err error) bool {
	for err != nil {
		var timeout *temporal.TimeoutError
		if !errors.As(err, &timeout) {
			return false
		}
		if timeout.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT {
			return true
		}
		err = timeout.Unwrap()
	}
	return false
}

// executeIO runs an activity of the io queue to its end; one that is orphaned is run again.
func executeIO(ctx workflow.Context, activity, input, result any) error {
	for {
		err := workflow.ExecuteActivity(ctx, activity, input).Get(ctx, result)
		if !isType(err, job.ErrorOrphaned) {
			return err
		}
	}
}
