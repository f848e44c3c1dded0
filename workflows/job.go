package workflows

import (
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Job runs a job to its end. If the job fails, it returns an application error whose details are the
// job's report, otherwise the report.
//
// It has no largest input. A run spends on each leg, so on 600 batches: Plan 3 events, the child 3, at most four
// signals with places that come back and as many that grant them, 12, and at most 3 for a workflow task for each of the
// 11 events that cause one: 51. In bytes: the page in Plan's result and in the leg's
// input, 6 KB each (24 KB if no batch follows from the one before), twice the spec, 500 bytes, and 150 for
// each event: 20 KB, at most 57 KB. So Temporal suggests continue-as-new (4,096 events or 4 MB) after some
// 80 legs, 48,000 batches, and no sooner than after 70. The run then starts nothing, waits for its open
// legs, at most 24, and ends with at most 4,096 + 24·51 = 5,320 events. A leg inside the job adds 1,300 events at most, and there
// is one at a time: more than one only if the input is still being written, and then each takes about 20 events and a run some 200 of them. News
// of the pool (see dispatch.PoolNews) are 4 events each, and 5 more for a window that grows: some ten in the life of a job.
//
// The next run gets the spec, the state of the work, counts, what is known of 64 workers (6 KB) and the heads of the
// manifest chain: one for each leg that was open, at most 25 (2 KB), however many manifests there are. These are at most
// 20 KB and the spec, and a chain of runs has no limit. 10^12 items in batches of 100,000 are 10^7 batches,
// 17,000 legs and 210 runs; in batches of one item they are 1.7·10^9 legs and 20 million runs.
func Job(ctx workflow.Context, in wire.JobInput) (job.Report, error) {
	in = scheduled(ctx, in)
	if err := checkJob(&in); err != nil {
		failed := job.Report{Job: in.Spec.Name, State: job.Failed, Error: &job.Error{Type: job.ErrorInvalid, Message: err.Error()}}
		return job.Report{}, refused(err, failed)
	}
	c := newCoordinator(ctx, in)
	if err := c.setup(); err != nil {
		return job.Report{}, err
	}
	if err := c.salvage(); err != nil {
		c.fail(execute.JobError(err))
	}
	c.startInit()
	c.lookForPools()
	c.run()
	c.receiveAll() // nothing may be lost over continue-as-new
	if c.renew && !c.ending() && !c.allDone() {
		next := c.in
		c.state.Carried, _ = c.work.carry(c.legs)
		next.State = &c.state
		return job.Report{}, workflow.NewContinueAsNewError(ctx, Job, next)
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

// A running job must follow the logic that it has started with, or its history would not replay. Its input
// carries the wire.LogicVersion of the client that has started it, over all its runs and in all its legs.
//
// To change what workflows do, raise wire.LogicVersion to n, name the gate below with the number n and what it
// changes, and branch with hasLogic(in.Version, gate): the old way stays for jobs that run already. Then
// record histories under new names (go test -run TestHistory_Jobs -record). A gate may go once no job that
// was started before it can still run.
//
// A change that must reach running jobs needs workflow.GetVersion, which costs two events a run.

// logicFirst is the gate of the first version: every job has it.
const logicFirst = 1

// hasLogic reports whether a job that was started with a version of the logic follows what a gate names.
func hasLogic(version, gate int) bool { return version >= gate }

// Any Temporal client can start a workflow with any input. One that makes no sense fails it, with an error that is not retried: it must not
// take the memory of a worker, or fail a workflow task again and again.

// refused is the error of a workflow whose input makes no sense; nil: it does. details are the error's.
func refused(err error, details ...any) error {
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
	errs := []error{in.Spec.Validate(), count("accepted", in.Accepted)}
	for _, s := range in.Loop {
		errs = append(errs, checkSlot(s, in.Spec.Slots))
	}
	return errors.Join(errs...)
}

// checkSlot returns an error if a loop with so many slots has no such one.
func checkSlot(s job.LoopSlot, slots int) error {
	if s.Slot < 0 || s.Slot >= slots {
		return fmt.Errorf("slot %d of a loop: it has %d, from 0", s.Slot, slots)
	}
	return errors.Join(count("next tick", s.Next), count("skipped ticks", s.Skipped), count("ticks in doubt", s.Doubt))
}

// count returns an error if a number of items is none.
func count(what string, n int64) error {
	if n < 0 || n > wire.Endless {
		return fmt.Errorf("%s: %d: use 0 to %d", what, n, int64(wire.Endless))
	}
	return nil
}

// checkLeg returns an error if a leg cannot begin with the spec and the state.
func checkLeg(spec job.Spec, s wire.LegState) error {
	errs := []error{spec.Validate()}
	if s.Number < 0 || s.Window < -job.MaxWindow || s.Window > job.MaxWindow {
		errs = append(errs, fmt.Errorf("leg %d with a window of %d: use 0 or more, and a window of at most %d", s.Number, s.Window, job.MaxWindow))
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
