package workflows

import (
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/details"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"go.temporal.io/sdk/workflow"
)

// coordinator is one run of a job. It does what every job does: it opens legs and shares the window out to
// them, stops, runs hooks, takes settings, watches tolerance and rate, reports, salvages, continues as new and
// concludes. What is special to a kind of job is its work.
type coordinator struct {
	ctx      workflow.Context // never cancelled: a cancellation of the workflow is a stop
	canceled workflow.Context // the workflow's own
	in       wire.JobInput
	state    wire.JobState
	work     work
	selector workflow.Selector
	wake     workflow.Channel // makes run look again

	planning planning
	legs     []*openLeg
	inside   *leg  // the leg that runs inside the job; nil once it has ended
	left     int64 // items that ended legs did not get to
	renew    bool  // continue as new as soon as no leg is open

	window int // in force
	places int // of the window that no leg holds; negative: legs hold more than it has

	notice    *wire.StopNotice // that legs get; nil before a stop
	finishing bool
	concluded bool // the outcome is decided
	asking    bool // legs for their counts

	hooks hooks
}

func newCoordinator(ctx workflow.Context, in wire.JobInput) *coordinator {
	canceled := ctx
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	c := &coordinator{
		ctx: ctx, canceled: canceled, in: in,
		selector: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1),
	}
	c.work = newWork(in, &c.state.Work)
	if in.State != nil {
		c.state = *in.State
		c.planning.rateKnown = true
		c.resize()
		return c
	}
	info := workflow.GetInfo(ctx)
	c.state.Ref = wire.Ref{Job: in.Spec.Name, Run: info.FirstRunID, Born: info.WorkflowStartTime.UnixMilli(), Store: in.Spec.Store}
	c.state.Heads = in.Resume
	c.state.Listed.At = workflow.Now(ctx)
	c.state.Report = job.Report{
		Job: in.Spec.Name, Run: info.FirstRunID, Pool: in.Spec.Pool, State: job.Running,
		Started: workflow.Now(ctx), Store: in.Spec.Store, Manifests: in.Resume, Settings: in.Spec.Settings(),
		Grace: max(0, in.Spec.Grace), Expiry: in.Spec.Expiry, Attempts: in.Spec.Attempts, Salvage: len(in.Salvage),
		Stages: in.Spec.StageReports(),
	}
	c.resize()
	return c
}

// setup has the job answer queries, signals and updates.
func (c *coordinator) setup() error {
	report := func(executions []string) (wire.Answer, error) { return c.answer(executions), nil }
	if err := workflow.SetQueryHandler(c.ctx, wire.QueryReport, report); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	if err := workflow.SetQueryHandler(c.ctx, wire.QueryPending, c.pending); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	for _, signal := range []string{job.SignalStop, dispatch.SignalFail, dispatch.SignalSlow, dispatch.SignalCounts, dispatch.SignalPool, dispatch.SignalPlaces, signalKept} {
		c.selector.AddReceive(workflow.GetSignalChannel(c.ctx, signal), func(workflow.ReceiveChannel, bool) { c.receiveAll() })
	}
	c.selector.AddReceive(c.wake, func(ch workflow.ReceiveChannel, _ bool) { ch.ReceiveAsync(nil) })
	workflow.Go(c.canceled, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		c.receiveAll()
		c.wakeUp()
	})
	if err := c.work.attach(c); err != nil {
		return err
	}
	return c.listenForSettings()
}

// run returns once no leg is open and no further one will be.
func (c *coordinator) run() {
	for {
		if workflow.GetInfo(c.ctx).GetContinueAsNewSuggested() {
			c.renewSoon()
		}
		c.startLeg()
		c.startPlan()
		c.work.progressed()
		c.describe()
		if c.idle() && (c.ending() || c.renew && c.planning.found == nil || c.allPlanned()) {
			return
		}
		c.selector.Select(c.ctx)
	}
}

// renewSoon has the run continue as new as soon as it can.
func (c *coordinator) renewSoon() {
	if c.renew {
		return
	}
	c.renew = true
	c.closeInside()
	c.work.renew()
}

// idle reports that nothing runs, but for legs that the job's next run continues with.
func (c *coordinator) idle() bool {
	return c.legsSettled() && !c.planning.running && c.hooks.ready && !c.hooks.unblocking
}

func (c *coordinator) legsSettled() bool {
	if !c.renew || c.ending() {
		return len(c.legs) == 0
	}
	_, settled := c.work.carry(c.legs)
	return settled
}

// wakeUp makes run look again.
func (c *coordinator) wakeUp() { c.wake.SendAsync(nil) }

// ending reports that nothing new is started any more.
func (c *coordinator) ending() bool { return c.notice != nil || c.concluded }

func (c *coordinator) spec() job.Spec { return c.in.Spec }

func (c *coordinator) terms() terms {
	return terms{
		ref: c.state.Ref, spec: c.spec(), resume: c.in.Resume, heads: c.state.Heads,
		planned: c.state.Report.Planned, portions: c.state.Portions, sizing: c.sizing(),
		earlier: c.in.Earlier,
	}
}

// receiveAll takes all signals that have arrived, and a cancellation.
func (c *coordinator) receiveAll() {
	if c.canceled.Err() != nil {
		c.stop(job.Stop{Reason: "the workflow was cancelled"})
	}
	dispatch.ReceiveEach(c.ctx, job.SignalStop, c.stop)
	run := c.state.Ref.Run
	dispatch.ReceiveFromLegs(c.ctx, run, dispatch.SignalFail, func(failure job.Error) { c.fail(&failure) })
	dispatch.ReceiveFromLegs(c.ctx, run, dispatch.SignalSlow, c.slowDown)
	dispatch.ReceiveFromLegs(c.ctx, run, dispatch.SignalCounts, c.receiveCounts)
	dispatch.ReceiveFromLegs(c.ctx, run, dispatch.SignalPool, c.hear)
	dispatch.ReceiveFromLegs(c.ctx, run, dispatch.SignalPlaces, c.takeBack)
	c.work.receive()
	dispatch.ReceiveFromLegs(c.ctx, run, signalKept, func(kept wire.KeptResult) {
		for _, l := range c.legs {
			if l.number == kept.Leg {
				l.kept(kept.Result)
			}
		}
	})
}

// report answers the query: it adds what the legs inside this workflow know.
func (c *coordinator) report() job.Report {
	r := c.state.Report
	r.Manifests = c.state.Heads
	r.Throttle, r.SlowedSince = c.throttled(), c.state.Slowed.First
	for _, l := range c.legs {
		l.addTo(&r)
	}
	if r.State != job.Completed {
		c.work.amend(&r)
	}
	return r
}

// answer is the answer to the query: those that ask ask the legs in other workflows, too.
func (c *coordinator) answer(executions []string) wire.Answer {
	a := wire.Answer{Report: c.report()}
	if c.inside != nil {
		a.Flying = c.inside.Flying(executions)
	}
	for _, l := range c.legs {
		if n := l.reported.Sofar; l.id() != "" && !n.At.IsZero() {
			a.Heard = append(a.Heard, wire.Heard{Leg: l.id(), Counted: n})
		}
	}
	return a
}

// overview is the report with what the legs in other workflows have reported of themselves. AsOf is when the oldest of these numbers was
// counted: a leg reports some ten times, and not at all while no worker runs it.
func (c *coordinator) overview() job.Report {
	r := c.report()
	r.AsOf = workflow.Now(c.ctx)
	for _, l := range c.legs {
		if l.id() != "" {
			r.Totals.Add(job.TotalsOf(l.reported.Sofar))
			if at := l.counted(r.AsOf); at.Before(r.AsOf) {
				r.AsOf = at
			}
		}
	}
	return r
}

// describe keeps the job's report where people who look at the workflow find it.
func (c *coordinator) describe() {
	r := c.overview()
	workflow.SetCurrentDetails(c.ctx, details.Job(r, workflow.Now(c.ctx)))
	c.noteProgress(r)
}
