package workflows

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// hookOptions are those of one hook. The server repeats it as often as a batch is tried.
func hookOptions(ctx workflow.Context, spec job.Spec, pool, summary string, limit time.Duration) workflow.Context {
	each := spec.CallTimeout
	if each <= 0 {
		each = unlimited
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              job.IOQueue(pool),
		ScheduleToCloseTimeout: limit,
		StartToCloseTimeout:    min(each, limit),
		HeartbeatTimeout:       spec.Expiry,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: spec.Backoff, BackoffCoefficient: 2, MaximumInterval: job.MaxBackoff,
			MaximumAttempts: int32(spec.Attempts), NonRetryableErrorTypes: job.PermanentErrors(),
		},
		Summary: summary,
	})
}

// runHooks runs the hooks of a stage one after the other, and notes how they end. It stops at the
// first that fails where that is wanted, and returns its error.
func (j *jobRun) runHooks(ctx workflow.Context, stage string, hooks []string, limit time.Duration, stopAtError bool) error {
	for i, hook := range hooks {
		pool, name := j.spec().HookOf(hook)
		in := activities.HookInput{
			Ref: j.state.Ref, Pool: j.spec().Pool, Stage: stage, Name: name, Key: fmt.Sprintf("%s/%s/%d", j.state.Ref.Run, stage, i),
			State: j.state.Report.State, Reason: j.state.Report.Reason,
		}
		hookCtx := hookOptions(ctx, j.spec(), pool, fmt.Sprintf("%s hook %s", stage, hook), limit)
		if stage == job.StageInit { // a cleanup hook must not come in its way
			hookCtx = workflow.WithWaitForCancellation(hookCtx, true)
		}
		err := executeIO(hookCtx, acts.Hook, in, nil)
		run := job.HookRun{Stage: stage, Hook: hook}
		if err != nil {
			run.Error = jobError(err)
			run.Error.Message = cut(run.Error.Message)
		}
		j.state.Report.Hooks = append(j.state.Report.Hooks, run)
		if err != nil && stopAtError {
			return err
		}
	}
	return nil
}

// startInit runs the init hooks. No batch is given out before they have ended.
func (j *jobRun) startInit() {
	if j.in.State != nil || len(j.spec().Init) == 0 || j.ending() {
		j.ready = true
		return
	}
	ctx, cancel := workflow.WithCancel(j.ctx)
	j.cancelInit = cancel
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := j.runHooks(ctx, job.StageInit, j.spec().Init, ioPatience, true)
		j.ready, j.cancelInit = true, nil
		if err != nil && !temporal.IsCanceledError(err) {
			cause := jobError(err)
			j.fail(&job.Error{Type: job.ErrorHook, Message: fmt.Sprintf("an init hook failed, and no batch was run: %s", cause.Message), Stack: cause.Stack})
		}
		j.wake.SendAsync(nil)
	})
}

// limitInit waits for an init hook no longer than for batches once the job is ending.
func (j *jobRun) limitInit(grace time.Duration) {
	j.cancelInit()
	j.selector.AddFuture(workflow.NewTimer(j.ctx, grace+killLimit), func(workflow.Future) {
		if !j.ready {
			j.ready, j.initRuns = true, true
		}
	})
}

// startShutdown runs the shutdown hooks beside what is ending: they may be what lets it end.
func (j *jobRun) startShutdown(grace time.Duration) {
	if len(j.spec().Shutdown) == 0 {
		return
	}
	j.unblocking = true
	workflow.Go(j.ctx, func(ctx workflow.Context) {
		_ = j.runHooks(ctx, job.StageShutdown, j.spec().Shutdown, grace+killLimit, false) // noted in the report
		j.unblocking = false
		j.wake.SendAsync(nil)
	})
}

// cleanUp runs the cleanup hooks, unless something is still running.
func (j *jobRun) cleanUp() {
	if len(j.state.Report.Stragglers) == 0 && !j.initRuns {
		_ = j.runHooks(j.ctx, job.StageCleanup, j.spec().Cleanup, ioPatience, false) // noted in the report
		return
	}
	for _, hook := range j.spec().Cleanup {
		j.state.Report.Hooks = append(j.state.Report.Hooks, job.HookRun{Stage: job.StageCleanup, Hook: hook, Skipped: "work was still running"})
	}
}
