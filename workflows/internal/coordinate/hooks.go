package coordinate

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// hooks is what a coordinator knows of its hooks.
type hooks struct {
	ready      bool                // the init hooks have run
	cancelInit workflow.CancelFunc // nil if none runs
	initRuns   bool                // an init hook does not end
	unblocking bool                // the shutdown hooks run
}

// runHooks runs the hooks of a stage one after the other, and notes how they end. Each takes at most limit, the wait
// for a worker included; 0: a worker is waited for as for Plan. If stopAtError is set, it stops at the first that fails
// and returns its error.
func (c *Coordinator) runHooks(ctx workflow.Context, stage string, hooks []string, limit time.Duration, stopAtError bool) error {
	for i, hook := range hooks {
		pool, name := c.Spec().HookOf(hook)
		in := wire.HookInput{
			Ref: c.State.Ref, Pool: c.Spec().Pool, Stage: stage, Name: name, Key: fmt.Sprintf("%s/%s/%d", c.State.Ref.Run, stage, i),
			State: c.State.Report.State, Reason: c.State.Report.Reason,
		}
		hookCtx := execute.HookOptions(ctx, c.Spec(), pool, fmt.Sprintf("%s hook %s", stage, hook), limit)
		if stage == wire.HookInit { // a cleanup hook must not come in its way
			hookCtx = workflow.WithWaitForCancellation(hookCtx, true)
		}
		_, err := execute.IO(hookCtx, wire.ActivityHook, in)
		run := job.HookRun{Stage: stage, Hook: hook}
		if err != nil {
			run.Error = execute.JobError(err)
		}
		c.State.Report.Hooks = append(c.State.Report.Hooks, run)
		if err != nil && stopAtError {
			return err
		}
	}
	return nil
}

// startInit runs the init hooks. No batch is given out before they have ended.
func (c *Coordinator) startInit() {
	if c.In.State != nil || len(c.Spec().Init) == 0 || c.Ending() {
		c.hooks.ready = true
		return
	}
	ctx, cancel := workflow.WithCancel(c.Ctx)
	c.hooks.cancelInit = cancel
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := c.runHooks(ctx, wire.HookInit, c.Spec().Init, 0, true)
		c.hooks.ready, c.hooks.cancelInit = true, nil
		if err != nil && !temporal.IsCanceledError(err) {
			cause := execute.JobError(err)
			c.Fail(&job.Error{Type: job.ErrorHook, Message: fmt.Sprintf("an init hook failed, and no batch was run: %s", cause.Message), Stack: cause.Stack})
		}
		c.WakeUp()
	})
}

// limitInit waits for an init hook no longer than for batches once the job is ending.
func (c *Coordinator) limitInit(grace time.Duration) {
	if !c.traits.InsistsOnInit {
		c.hooks.cancelInit()
	}
	c.Selector.AddFuture(workflow.NewTimer(c.Ctx, grace+dispatch.KillLimit), func(workflow.Future) {
		if !c.hooks.ready {
			c.hooks.ready, c.hooks.initRuns = true, true
		}
	})
}

// startShutdown runs the shutdown hooks beside what is ending: they may be what lets it end.
func (c *Coordinator) startShutdown(grace time.Duration) {
	if len(c.Spec().Shutdown) == 0 {
		return
	}
	c.hooks.unblocking = true
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		_ = c.runHooks(ctx, wire.HookShutdown, c.Spec().Shutdown, grace+dispatch.KillLimit, false) // noted in the report
		c.hooks.unblocking = false
		c.WakeUp()
	})
}

// cleanUp runs the cleanup hooks, unless something is still running.
func (c *Coordinator) cleanUp() {
	if len(c.State.Report.Stragglers) == 0 && !c.hooks.initRuns {
		_ = c.runHooks(c.Ctx, wire.HookCleanup, c.Spec().Cleanup, 0, false) // noted in the report
		return
	}
	for _, hook := range c.Spec().Cleanup {
		c.State.Report.Hooks = append(c.State.Report.Hooks, job.HookRun{Stage: wire.HookCleanup, Hook: hook, Skipped: "work was still running"})
	}
}
