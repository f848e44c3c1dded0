package coordinate

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/internal/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
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

// Any Temporal client can start a workflow with any input. One that makes no sense fails it, with an error that is not retried: it must not
// take the memory of a worker, or fail a workflow task again and again.

// Refused is the error of a workflow whose input makes no sense; nil: it does. details are the error's.
func Refused(err error, details ...any) error {
	if err == nil {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), job.ErrorInvalid, nil, details...)
}

// check returns an error if a job cannot be run with the input. What an earlier run of the workflow has left was checked when that began.
func checkJob(in *wire.JobInput) error {
	if in.State != nil {
		return nil
	}
	errs := []error{in.Spec.Validate(), Count("accepted", in.Accepted)}
	for _, s := range in.Loop {
		errs = append(errs, CheckSlot(s, in.Spec))
	}
	return errors.Join(errs...)
}

// CheckSlot returns an error if the job is no loop, or has no such slot.
func CheckSlot(s job.LoopSlot, spec job.Spec) error {
	slots := 0
	if spec.Loop != nil {
		slots = spec.Loop.Slots
	}
	if s.Slot < 0 || s.Slot >= slots {
		return fmt.Errorf("slot %d of a loop: it has %d, from 0", s.Slot, slots)
	}
	return errors.Join(Count("next tick", s.Next), Count("skipped ticks", s.Skipped), Count("ticks in doubt", s.Doubt))
}

// Count returns an error if a number of items is none.
func Count(what string, n int64) error {
	if n < 0 || n > wire.Endless {
		return fmt.Errorf("%s: %d: use 0 to %d", what, n, int64(wire.Endless))
	}
	return nil
}

// CheckLeg returns an error if a leg cannot begin with the spec and the state.
func CheckLeg(spec job.Spec, s wire.LegState) error {
	errs := []error{spec.Validate()}
	if s.Number < 0 || s.Window < -limits.MaxWindow || s.Window > limits.MaxWindow {
		errs = append(errs, fmt.Errorf("leg %d with a window of %d: use 0 or more, and a window of at most %d", s.Number, s.Window, limits.MaxWindow))
	}
	for i := range s.Tasks {
		errs = append(errs, checkBatch(s.Tasks[i].Batch, pipeline.Compile(spec.Stages)))
	}
	return errors.Join(errs...)
}

// checkBatch returns an error if a batch is not one of a job with these steps.
func checkBatch(b wire.Batch, steps pipeline.Program) error {
	if b.From != nil && (b.From.Step < 0 || b.From.Step >= len(steps)) {
		return fmt.Errorf("%s are for step %d: the job has %d", b, b.From.Step, len(steps))
	}
	return b.Valid()
}
