package coordinate

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/details"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
)

// Coordinator is one run of a job. It does what every job does: it opens legs and shares the window out to
// them, stops, runs hooks, takes settings, watches tolerance and rate, reports, salvages, continues as new and
// concludes. What is special to a kind of job is its work.
type Coordinator struct {
	Ctx      workflow.Context // never cancelled: a cancellation of the workflow is a stop
	canceled workflow.Context // the workflow's own
	In       wire.JobInput
	State    wire.JobState
	work     Work
	traits   Traits           // of the work
	Outbox   *dispatch.Outbox // of the run's signals
	Selector workflow.Selector
	wake     workflow.Channel // makes run look again

	Planning planning
	Legs     []*OpenLeg
	Inside   insider // the leg that runs inside the job; nil once it has ended

	cancelDeadline workflow.CancelFunc // of the timer; nil: none runs
	Left           int64               // items that ended legs did not get to
	Renew          bool                // continue as new as soon as no leg is open

	window int // in force
	Places int // of the window that no leg holds; negative: legs hold more than it has

	notice    *wire.StopNotice // that legs get; nil before a stop
	finishing bool
	concluded bool // the outcome is decided
	Asking    bool // legs for their counts

	hooks hooks
}

// insider is a leg that runs inside the job: what the job reads of it directly.
type insider interface {
	Sofar() wire.LegOutcomes
	Life() samples.Packed
	Flying(executions []string) []string
}

// New returns the coordinator of a run that begins, or continues, with the input.
func New(ctx workflow.Context, in wire.JobInput, works newWork) *Coordinator {
	canceled := ctx
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	c := &Coordinator{
		Ctx: ctx, canceled: canceled, In: in,
		Outbox: dispatch.NewOutbox(ctx), Selector: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1),
	}
	c.work = works(in, &c.State.Work)
	if in.State != nil {
		c.State = *in.State
		c.Planning.RateKnown = true
		c.resize()
		return c
	}
	info := workflow.GetInfo(ctx)
	c.State.Ref = wire.Ref{
		Job: in.Spec.Name, Run: info.FirstRunID, Root: in.Root, Born: info.WorkflowStartTime.UnixMilli(), Store: in.Spec.Store,
	}
	if in.Version > 1 {
		c.State.Ref.Logic = in.Version
	}
	c.State.Heads = in.Resume
	c.State.Listed.At = workflow.Now(ctx)
	c.State.Report = job.Report{
		Job: in.Spec.Name, Run: info.FirstRunID, Pool: in.Spec.Pool, State: job.Running,
		Started: workflow.Now(ctx), Store: in.Spec.Store, Manifests: in.Resume, Settings: in.Spec.Settings(),
		Grace: in.Spec.Grace, Expiry: in.Spec.Expiry, Attempts: in.Spec.Attempts, Salvage: len(in.Salvage),
		Outcomes: job.Outcomes{Totals: job.Totals{Usage: in.Spent, LostUsage: in.Lost}, Versions: in.Versions, Stages: in.Spec.StageReports(), Life: in.Life},
	}
	c.In.Life = nil // the report has it
	c.resize()
	return c
}

// Setup has the job answer queries, signals and updates.
func (c *Coordinator) Setup() error {
	report := func(executions []string) (wire.Answer, error) { return c.Answer(executions), nil }
	if err := errors.Join(execute.Answer(c.Ctx, wire.QueryReport, report), execute.Answer(c.Ctx, wire.QueryPending, c.Pending)); err != nil {
		return err
	}
	for _, signal := range []string{wire.SignalStop, wire.SignalPause, wire.SignalFail, wire.SignalSlow, wire.SignalCounts, wire.SignalPool, wire.SignalPlaces, wire.SignalKept} {
		c.Selector.AddReceive(workflow.GetSignalChannel(c.Ctx, signal), func(workflow.ReceiveChannel, bool) { c.ReceiveAll() })
	}
	c.Selector.AddReceive(c.wake, func(ch workflow.ReceiveChannel, _ bool) { ch.ReceiveAsync(nil) })
	workflow.Go(c.canceled, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		c.ReceiveAll()
		c.WakeUp()
	})
	traits, err := c.work.Begin(c)
	if err != nil {
		return err
	}
	c.traits = traits.filled(c)
	c.rebound() // legs that an earlier run of the workflow has opened
	return c.listenForSettings()
}

// run returns once no leg is open and no further one will be, every signal is taken, and none of its own is on its way:
// what comes or goes would be lost over continue-as-new.
func (c *Coordinator) run() {
	for {
		if workflow.GetInfo(c.Ctx).GetContinueAsNewSuggested() {
			c.RenewSoon()
		}
		c.startLeg()
		c.startPlan()
		c.traits.Progressed()
		c.describe()
		if !c.done() {
			c.Selector.Select(c.Ctx)
			continue
		}
		c.Outbox.Flush()
		if c.ReceiveAll(); c.done() && c.Outbox.Empty() {
			return
		}
	}
}

// done reports that the run has nothing left to do.
func (c *Coordinator) done() bool {
	switch {
	case !c.idle():
		return false
	case c.Paused() && c.allPlanned() && len(c.Legs) == 0: // the output waits
		return false
	}
	return c.Ending() || c.Renew && c.Planning.found == nil || c.allPlanned()
}

// RenewSoon has the run continue as new as soon as it can.
func (c *Coordinator) RenewSoon() {
	if c.Renew {
		return
	}
	c.Renew = true
	c.work.Renew()
}

// idle reports that nothing runs, but for legs that the job's next run continues with.
func (c *Coordinator) idle() bool {
	return c.legsSettled() && !c.Planning.running && c.hooks.ready && !c.hooks.unblocking
}

func (c *Coordinator) legsSettled() bool {
	if !c.Renew || c.Ending() {
		return len(c.Legs) == 0
	}
	_, settled := c.traits.Carry(c.Legs)
	return settled
}

// WakeUp makes run look again.
func (c *Coordinator) WakeUp() { c.wake.SendAsync(nil) }

// Ending reports that nothing new is started any more.
func (c *Coordinator) Ending() bool { return c.notice != nil || c.concluded }

// Spec returns the job's, with the settings in force.
func (c *Coordinator) Spec() job.Spec { return c.In.Spec }

func (c *Coordinator) snapshot() Snapshot {
	return Snapshot{
		Ref: c.State.Ref, Spec: c.Spec(), Resume: c.In.Resume, Heads: c.State.Heads,
		Planned: c.State.Report.Planned, Portions: c.State.Portions, Sizing: c.sizing(),
		Earlier: c.In.Earlier,
	}
}

// ReceiveAll takes all signals that have arrived, and a cancellation.
func (c *Coordinator) ReceiveAll() {
	if c.canceled.Err() != nil {
		c.stop(job.Stop{Reason: "the workflow was cancelled"})
	}
	dispatch.ReceiveEach(c.Ctx, wire.SignalStop, c.stop)
	dispatch.ReceiveEach(c.Ctx, wire.SignalPause, c.pause)
	run := c.State.Ref.Run
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalFail, func(failure job.Error) { c.Fail(&failure) })
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalSlow, c.SlowDown)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalCounts, c.receiveCounts)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalPool, c.NotePool)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalPlaces, c.TakeBack)
	c.traits.Receive()
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalKept, func(kept wire.KeptResult) {
		for _, l := range c.Legs {
			if l.Number == kept.Leg {
				l.Kept(kept.Result)
			}
		}
	})
}

// report answers the query: it adds what the legs inside this workflow know.
func (c *Coordinator) report() job.Report {
	r := c.State.Report
	r.Manifests = c.State.Heads
	r.Throttle, r.SlowedSince = c.throttled(), c.State.Slowed.First
	for _, l := range c.Legs {
		l.AddTo(&r)
	}
	if r.State != job.Completed {
		c.work.CompleteReport(&r)
	}
	return r
}

// Answer returns the answer to the query: those that ask ask the legs in other workflows, too.
func (c *Coordinator) Answer(executions []string) wire.Answer {
	a := wire.Answer{Report: c.report()}
	if c.Inside != nil {
		a.Flying = c.Inside.Flying(executions)
		a.Life = a.Life.Plus(c.Inside.Life())
	}
	for _, l := range c.Legs {
		if n := l.Reported.Sofar; l.ID() != "" && !n.At.IsZero() {
			a.Heard = append(a.Heard, wire.Heard{Leg: l.ID(), Counted: n})
		}
	}
	return a
}

// overview returns the report with what the legs in other workflows have reported of themselves. AsOf is when the
// oldest of these numbers was counted: a leg reports some ten times, and not at all while no worker runs it.
func (c *Coordinator) overview() job.Report {
	r := c.report()
	r.AsOf = workflow.Now(c.Ctx)
	for _, l := range c.Legs {
		if l.ID() != "" {
			r.Totals.Add(l.Reported.Sofar.Totals())
			if at := l.counted(r.AsOf); at.Before(r.AsOf) {
				r.AsOf = at
			}
		}
	}
	return r
}

// describe keeps the job's report where people who look at the workflow find it.
func (c *Coordinator) describe() {
	r := c.overview()
	workflow.SetCurrentDetails(c.Ctx, details.Job(r, workflow.Now(c.Ctx)))
	c.noteProgress(r)
}

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
	c.awaitDeadline()
	c.lookForPools()
	c.run()
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

// Any Temporal client can start a workflow with any input. One that makes no sense fails it, with an error that is not
// retried: it must not take the memory of a worker, or fail a workflow task again and again.

// Refused is the error of a workflow whose input makes no sense; nil: it does. details are the error's.
func Refused(err error, details ...any) error {
	if err == nil {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), job.ErrorInvalid, nil, details...)
}

// check returns an error if a job cannot be run with the input. What an earlier run of the workflow has left was
// checked when that began.
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
