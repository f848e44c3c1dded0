package coordinate

import (
	"errors"

	"go.temporal.io/sdk/workflow"

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
	traits   Traits // of the work
	Selector workflow.Selector
	wake     workflow.Channel // makes run look again

	Planning planning
	Legs     []*OpenLeg
	Inside   insider // the leg that runs inside the job; nil once it has ended
	Left     int64   // items that ended legs did not get to
	Renew    bool    // continue as new as soon as no leg is open

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
	Sofar() wire.Outcomes
	Flying(executions []string) []string
}

// New returns the coordinator of a run that begins, or continues, with the input.
func New(ctx workflow.Context, in wire.JobInput, works newWork) *Coordinator {
	canceled := ctx
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	c := &Coordinator{
		Ctx: ctx, canceled: canceled, In: in,
		Selector: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1),
	}
	c.work = works(in, &c.State.Work)
	if in.State != nil {
		c.State = *in.State
		c.Planning.RateKnown = true
		c.resize()
		return c
	}
	info := workflow.GetInfo(ctx)
	c.State.Ref = wire.Ref{Job: in.Spec.Name, Run: info.FirstRunID, Born: info.WorkflowStartTime.UnixMilli(), Store: in.Spec.Store}
	c.State.Heads = in.Resume
	c.State.Listed.At = workflow.Now(ctx)
	c.State.Report = job.Report{
		Job: in.Spec.Name, Run: info.FirstRunID, Pool: in.Spec.Pool, State: job.Running,
		Started: workflow.Now(ctx), Store: in.Spec.Store, Manifests: in.Resume, Settings: in.Spec.Settings(),
		Grace: max(0, in.Spec.Grace), Expiry: in.Spec.Expiry, Attempts: in.Spec.Attempts, Salvage: len(in.Salvage),
		Stages: in.Spec.StageReports(),
	}
	c.resize()
	return c
}

// Setup has the job answer queries, signals and updates.
func (c *Coordinator) Setup() error {
	report := func(executions []string) (wire.Answer, error) { return c.Answer(executions), nil }
	if err := errors.Join(execute.Answer(c.Ctx, wire.QueryReport, report), execute.Answer(c.Ctx, wire.QueryPending, c.Pending)); err != nil {
		return err
	}
	for _, signal := range []string{job.SignalStop, wire.SignalFail, wire.SignalSlow, wire.SignalCounts, wire.SignalPool, wire.SignalPlaces, wire.SignalKept} {
		c.Selector.AddReceive(workflow.GetSignalChannel(c.Ctx, signal), func(workflow.ReceiveChannel, bool) { c.ReceiveAll() })
	}
	c.Selector.AddReceive(c.wake, func(ch workflow.ReceiveChannel, _ bool) { ch.ReceiveAsync(nil) })
	workflow.Go(c.canceled, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		c.ReceiveAll()
		c.WakeUp()
	})
	traits, err := c.work.Attach(c)
	if err != nil {
		return err
	}
	c.traits = traits.filled(c)
	return c.listenForSettings()
}

// run returns once no leg is open and no further one will be.
func (c *Coordinator) run() {
	for {
		if workflow.GetInfo(c.Ctx).GetContinueAsNewSuggested() {
			c.RenewSoon()
		}
		c.startLeg()
		c.startPlan()
		c.traits.Progressed()
		c.describe()
		if c.idle() && (c.Ending() || c.Renew && c.Planning.found == nil || c.allPlanned()) {
			return
		}
		c.Selector.Select(c.Ctx)
	}
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

// Spec is the job's, with the settings in force.
func (c *Coordinator) Spec() job.Spec { return c.In.Spec }

func (c *Coordinator) terms() Snapshot {
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
	dispatch.ReceiveEach(c.Ctx, job.SignalStop, c.stop)
	run := c.State.Ref.Run
	dispatch.ReceiveFromLegs(c.Ctx, run, wire.SignalFail, func(failure job.Error) { c.Fail(&failure) })
	dispatch.ReceiveFromLegs(c.Ctx, run, wire.SignalSlow, c.SlowDown)
	dispatch.ReceiveFromLegs(c.Ctx, run, wire.SignalCounts, c.receiveCounts)
	dispatch.ReceiveFromLegs(c.Ctx, run, wire.SignalPool, c.Hear)
	dispatch.ReceiveFromLegs(c.Ctx, run, wire.SignalPlaces, c.TakeBack)
	c.traits.Receive()
	dispatch.ReceiveFromLegs(c.Ctx, run, wire.SignalKept, func(kept wire.KeptResult) {
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
		c.work.Amend(&r)
	}
	return r
}

// Answer is the answer to the query: those that ask ask the legs in other workflows, too.
func (c *Coordinator) Answer(executions []string) wire.Answer {
	a := wire.Answer{Report: c.report()}
	if c.Inside != nil {
		a.Flying = c.Inside.Flying(executions)
	}
	for _, l := range c.Legs {
		if n := l.Reported.Sofar; l.ID() != "" && !n.At.IsZero() {
			a.Heard = append(a.Heard, wire.Heard{Leg: l.ID(), Counted: n})
		}
	}
	return a
}

// overview is the report with what the legs in other workflows have reported of themselves. AsOf is when the oldest of these numbers was
// counted: a leg reports some ten times, and not at all while no worker runs it.
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
