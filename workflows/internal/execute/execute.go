// Package execute has activities and legs executed: with which options, and what their errors mean to a job. The
// heartbeat timeout, which takes a batch from a dead worker, is set here.
package execute

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

const (
	// Unlimited stands for "no limit" for timeouts that Temporal requires.
	Unlimited = 365 * 24 * time.Hour
	// Patience is how long one attempt of Plan, Commit, Finish or a hook may take, and about how long the first three
	// are repeated over faults that may pass: MaxAttempts, a minute apart. It is not the activity's whole time,
	// which also counts the time in which no worker is there.
	Patience    = 24 * time.Hour
	MaxAttempts = 1440
	// maxSummary is what Temporal takes of a summary, in bytes as JSON, with some room.
	maxSummary = 350
	// locateLimit is how long it may take to find out where stragglers run.
	locateLimit = 10 * time.Second
)

// QueueOf returns the task queue at which the workflow's version of the logic is known: what a job starts stays there.
func QueueOf(ctx workflow.Context, queue string) string {
	return wire.AtLogic(queue, wire.LogicOf(workflow.GetInfo(ctx).TaskQueueName))
}

// BatchOptions returns those of one execution of Process with an activity ID. The leg counts attempts, not the
// server.
func BatchOptions(ctx workflow.Context, spec job.Spec, id, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           QueueOf(ctx, wire.PinnedQueue(spec.Pool, spec.Pin)),
		StartToCloseTimeout: cmp.Or(spec.BatchTimeout, Unlimited),
		HeartbeatTimeout:    spec.Expiry,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             text.Fit(summary, maxSummary),
		Priority:            temporal.Priority{PriorityKey: spec.Priority},
	})
}

// IOOptions returns those of Plan, Commit and Finish, which run outside the slots.
func IOOptions(ctx workflow.Context, spec job.Spec, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              QueueOf(ctx, wire.IOQueue(spec.Pool)),
		ScheduleToCloseTimeout: Unlimited,
		StartToCloseTimeout:    Patience,
		HeartbeatTimeout:       spec.Expiry,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: MaxAttempts,
			NonRetryableErrorTypes: wire.PermanentErrors(),
		},
		Summary:  summary,
		Priority: temporal.Priority{PriorityKey: spec.Priority},
	})
}

// failuresLimit is how long the errors file of a failed job may take, the wait for a worker included: a job does not
// stay open for it.
const failuresLimit = 5 * time.Minute

// FailuresOptions returns those of the errors file of a failed job.
func FailuresOptions(ctx workflow.Context, spec job.Spec) workflow.Context {
	ctx = IOOptions(ctx, spec, "write the errors file")
	return workflow.WithScheduleToCloseTimeout(ctx, failuresLimit)
}

// FinishOptions returns those of Finish. A stop that comes too late to keep it from publishing the output
// is too late for the job.
func FinishOptions(ctx workflow.Context, spec job.Spec) workflow.Context {
	return workflow.WithWaitForCancellation(IOOptions(ctx, spec, "check the books and publish the output"), true)
}

// LocateOptions returns those of a look at where batches run: it is not worth a long wait.
func LocateOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: locateLimit,
		StartToCloseTimeout:    locateLimit / 2,
		Summary:                "find out where stragglers run",
	})
}

// LegOptions returns those of a leg, which ends with its job.
func LegOptions(ctx workflow.Context, spec job.Spec, number int, summary string) workflow.Context {
	return legOptions(ctx, spec, number, summary, wire.WorkflowQueue, enums.PARENT_CLOSE_POLICY_TERMINATE)
}

func legOptions(ctx workflow.Context, spec job.Spec, number int, summary, queue string, atEnd enums.ParentClosePolicy) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          wire.LegID(spec.Name, number),
		TaskQueue:           QueueOf(ctx, queue),
		WorkflowTaskTimeout: workflow.GetInfo(ctx).WorkflowTaskTimeout,
		ParentClosePolicy:   atEnd,
		// A leg of an earlier run of the job may have had the number.
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         summary,
	})
}

// FeedLegOptions returns those of a leg of a feed. It runs on the pool's own queue, so that its batches start eagerly,
// and outlives a run of the job that continues as new: the job's end requests its cancellation.
func FeedLegOptions(ctx workflow.Context, spec job.Spec, number int, summary string) workflow.Context {
	return legOptions(ctx, spec, number, summary, wire.PoolQueue(spec.Pool), enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL)
}

// Answer has the workflow answer a query with what a handler returns.
func Answer(ctx workflow.Context, query string, handler any) error {
	if err := workflow.SetQueryHandler(ctx, query, handler); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	return nil
}

// HookOptions returns those of one hook. The server repeats it as often as a batch is tried. limit is how long it may
// take in all, the wait for a worker included; 0: it waits for a worker as Plan does, and each try may take as long as
// one of Plan.
func HookOptions(ctx workflow.Context, spec job.Spec, pool, summary string, limit time.Duration) workflow.Context {
	each, whole := Patience, Unlimited
	if limit > 0 {
		each, whole = limit, limit
	}
	each = min(each, spec.CallTimeout)
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              QueueOf(ctx, wire.IOQueue(pool)),
		ScheduleToCloseTimeout: whole,
		StartToCloseTimeout:    each,
		HeartbeatTimeout:       spec.Expiry,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: spec.Backoff, BackoffCoefficient: 2, MaximumInterval: limits.MaxBackoff,
			MaximumAttempts: int32(spec.Attempts), NonRetryableErrorTypes: wire.PermanentErrors(),
		},
		Summary: text.Fit(summary, maxSummary),
	})
}

// IO runs an activity of the io queue to its end; one that is orphaned is run again.
func IO[In, Out any](ctx workflow.Context, activity wire.Activity[In, Out], in In) (Out, error) {
	for {
		var out Out
		err := workflow.ExecuteActivity(ctx, string(activity), in).Get(ctx, &out)
		if !IsType(err, wire.ErrorOrphaned) {
			return out, err
		}
	}
}

// Process starts one execution of a batch.
func Process(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
	return workflow.ExecuteActivity(ctx, string(wire.ActivityProcess), in)
}

// IsType reports whether err is an application error of the type.
func IsType(err error, kind string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == kind
}

// MaxErrorType and MaxErrorText bound what workflows keep of the type and the message of an error, in bytes as JSON:
// both go on in histories.
const (
	MaxErrorType = 200
	MaxErrorText = 4000
)

// JobError turns the end of an activity into the job's error, within the bounds of its texts.
func JobError(err error) *job.Error {
	kind, message := job.ErrorFailed, err.Error()
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		kind, message = app.Type(), app.Message()
	} else if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		kind, message = "Timeout", timeoutMessage(timeout)
	}
	return &job.Error{Type: text.Fit(kind, MaxErrorType), Message: text.Fit(message, MaxErrorText)}
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

// RanOut reports whether err is a heartbeat timeout, itself or as the cause of another.
func RanOut(err error) bool {
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

func IsTimeout(err error) bool { return errors.As(err, new(*temporal.TimeoutError)) }

func IsPermanent(err error) bool {
	return slices.ContainsFunc(wire.PermanentErrors(), func(kind string) bool { return IsType(err, kind) })
}

// TaskLoad counts what a workflow task of a leg sends: the items that it accepts, which the server gets once more, the
// inputs of activities, and answers. More than [wire.MaxTask] waits for a later task: Temporal ends a workflow whose
// task sends 4 MB. One payload alone is always sent; it is at most [wire.MaxPayload].
type TaskLoad struct {
	ctx     workflow.Context
	length  int       // of the history, when the task began
	at      time.Time // when that was
	bytes   int
	renewed bool // by a timer, which brings a later task
	armed   bool
}

// NewTaskLoad returns the load of the workflow's present task.
func NewTaskLoad(ctx workflow.Context) *TaskLoad { return &TaskLoad{ctx: ctx} }

// look begins to count anew if this is another task than before.
func (t *TaskLoad) look() {
	length, at := workflow.GetInfo(t.ctx).GetCurrentHistoryLength(), workflow.Now(t.ctx)
	if length == t.length && at.Equal(t.at) && !t.renewed {
		return
	}
	t.length, t.at, t.bytes, t.renewed = length, at, 0, false
}

// Fits reports whether the present task can send so many more bytes.
func (t *TaskLoad) Fits(n int) bool {
	t.look()
	return t.bytes == 0 || t.bytes+n <= wire.MaxTask
}

// Add counts bytes that the present task sends.
func (t *TaskLoad) Add(n int) {
	t.look()
	t.bytes += n
}

// Take counts bytes that the present task sends, if they fit.
func (t *TaskLoad) Take(n int) bool {
	if !t.Fits(n) {
		return false
	}
	t.Add(n)
	return true
}

// Await returns when there is a task that sends as many bytes as size returns, and counts them. It returns an error if
// the context is cancelled before.
func (t *TaskLoad) Await(ctx workflow.Context, size func() int) error {
	for !t.Take(size()) {
		t.arm()
		if err := workflow.Await(ctx, func() bool { return t.Fits(size()) }); err != nil {
			return err
		}
	}
	return nil
}

// arm makes sure that there is another task soon.
func (t *TaskLoad) arm() {
	if t.armed {
		return
	}
	t.armed = true
	workflow.Go(t.ctx, func(ctx workflow.Context) {
		_ = workflow.NewTimer(ctx, time.Millisecond).Get(ctx, nil)
		t.armed, t.renewed = false, true
	})
}
