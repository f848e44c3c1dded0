package coordinate

import (
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// newWork makes the work of a job.
type newWork func(in wire.JobInput, state *wire.WorkState) Work

// Run runs a job to its end, or to that of one of its runs.
func Run(ctx workflow.Context, in wire.JobInput, works newWork) (job.Report, error) {
	in = scheduled(ctx, in)
	if err := checkJob(&in); err != nil {
		failed := job.Report{Job: in.Spec.Name, State: job.Failed, Error: &job.Error{Type: job.ErrorInvalid, Message: err.Error()}}
		return job.Report{}, Refused(err, failed)
	}
	c := New(ctx, in, works)
	if err := c.Setup(); err != nil {
		return job.Report{}, err
	}
	if err := c.Salvage(); err != nil {
		c.Fail(execute.JobError(err))
	}
	c.startInit()
	c.lookForPools()
	c.run()
	c.ReceiveAll() // nothing may be lost over continue-as-new
	if c.Renew && !c.Ending() && !c.allDone() {
		next := c.In
		c.State.Carried, _ = c.traits.Carry(c.Legs)
		next.State = &c.State
		return job.Report{}, workflow.NewContinueAsNewError(ctx, wire.WorkflowJob, next)
	}
	return c.conclude()
}

// scheduled makes the input of a job that a schedule has started, which is the same at every tick,
// that of this one: named as the server has named it, with the tick's time in its locations. Other
// inputs stay as they are.
func scheduled(ctx workflow.Context, in wire.JobInput) wire.JobInput {
	if !in.Scheduled {
		return in
	}
	output := in.Spec.Output
	in.Scheduled = false                                                                // the runs after this one have it in their input
	in.Spec = in.Spec.Ticked(workflow.GetInfo(ctx).WorkflowExecution.ID).WithDefaults() // an older program may have made the schedule
	if in.Spec.Output != output {
		if err := workflow.UpsertMemo(ctx, map[string]any{wire.MemoOutput: in.Spec.Output}); err != nil {
			workflow.GetLogger(ctx).Error("writing where the output goes", "error", err)
		}
	}
	return in
}
