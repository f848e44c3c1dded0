package coordinate

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/pool"
)

// OpenLegs is how many legs are open at once, at most: as many as it takes to have the widest window in flight, each
// with a page of batches, and some that drain. Pages of pipelines whose stages split batches are smaller, and so is
// what is in flight then.
const OpenLegs = 24

// FeedLegs is how many legs of a feed are open at once, at most. A sealed one stays open until its last item is done,
// so a slow item among many quick ones holds a leg: this many of them, each in another leg, do no harm. Limits that
// every leg is told cost the job's history 600 events then, and the legs that its next run continues with are some 100
// KB of its 2 MB of input.
const FeedLegs = 200

// OpenLeg is a leg that runs.
type OpenLeg struct {
	Number   int
	Reported wire.Counts       // the last that it has sent
	Since    time.Time         // it has run for the job's present run since then
	Answered bool              // it has sent them since the job has asked
	final    bool              // they do not change any more
	Batches  int               // of its assignment
	Places   int               // of the window that it holds, as far as the job has heard
	Dry      bool              // it has handed places back, so it needs no more of them
	bounds   []wire.StageBound // its shares of the windows of stages
	Told     int               // how often it was sent limits
	Budget   wire.Budget       // its part of the job's
	short    bool              // it has spent that, and says so
	gone     bool              // it has ended, and has no places
	StandsBy bool              // it takes no items yet
	Handle
}

// Handle is how the coordinator deals with an open leg, wherever that runs. No method blocks.
type Handle interface {
	// ID is the leg's workflow ID; "" inside the job.
	ID() string
	// Halt stops the leg.
	Halt(notice wire.StopNotice)
	// Limit sets the leg's limits, and asks for its counts if they say so.
	Limit(l wire.LegLimits)
	// Grant adds places to the leg's window, or takes some away. If the leg has ended before it gets them,
	// returned is called.
	Grant(places int, returned func())
	// Counts is what is known of the leg's items, given what it has reported last.
	Counts(reported wire.Counts) wire.Counts
	// Exact reports whether counts is up to date.
	Exact() bool
	// Kept notes what the leg has committed before it continued as new: that remains if its workflow fails.
	Kept(r wire.LegResult)
	// AddTo adds what is known of the leg to a report.
	AddTo(r *job.Report)
	// Pending is what the leg has accepted and not committed, so far as only the job can say it.
	// It returns inputs of the activity that commits it.
	Pending() []any
}

// counted returns when the leg's numbers were counted that the job has; now, if the job counts them itself, or they do
// not change any more.
func (l *OpenLeg) counted(now time.Time) time.Time {
	if l.Exact() || l.final {
		return now
	}
	if at := l.Reported.Sofar.At; at.After(l.Since) {
		return at
	}
	return l.Since
}

// startLeg gives the assignment that was found to a leg. The first one runs inside the job if it is small.
func (c *Coordinator) startLeg() {
	found := c.Planning.found
	if found == nil || len(c.Legs) >= found.MostLegs || c.Ending() || !c.hooks.ready {
		return // an assignment that has been found is run even if the run is to continue as new
	}
	if !found.Standing && c.Paused() {
		return
	}
	if len(c.Legs) > 0 && !found.Standing && (c.Limited() || c.Places < 1) {
		return // the open legs have batches for all places
	}
	c.Planning.found = nil
	c.work.Open(*found)
}

// Prepare makes the input of the next leg, in a workflow of its own or inside the job, and counts it. A leg takes no more
// places than it has batches: the others are for the next.
func (c *Coordinator) Prepare(inside bool, p Assignment) wire.LegInput {
	in := wire.LegInput{
		Ref: c.State.Ref, Spec: c.Spec(), Version: c.In.Version, Base: c.State.Batches, Page: p.Page, Previous: c.State.Heads,
		LegState: c.NewLeg(inside, int(min(int64(c.Places), p.Batches))),
	}
	in.Tasks, in.Last = p.Tasks, c.allPlanned()
	c.State.Heads = nil
	c.State.Batches += p.Batches
	return in
}

// NewLeg makes the state of the next leg, which gets so many places at most, and counts it. The workflow of a leg is named
// by its number. The first one is 0 if it runs inside the job.
func (c *Coordinator) NewLeg(inside bool, places int) wire.LegState {
	if !inside || c.State.Report.Legs > 0 {
		c.State.LastLeg++
	}
	s := wire.LegState{Number: c.State.LastLeg, Limits: c.Limits(), Grain: c.State.Report.Life.Grain(), Window: max(0, places), Known: pool.Workers(c.State.Pool.Workers).Calls()}
	s.Limits.Legs, s.Limits.Stages = len(c.Legs)+1, c.nextBounds(c.Legs)
	s.Limits.Budget = c.budgetOf(&OpenLeg{}) // one of a feed asks when it needs something of it
	c.Places -= s.Window
	c.State.Report.Legs++
	return s
}

// Opened adds a leg, whose assignment has so many batches, to those that are open.
func (c *Coordinator) Opened(s wire.LegState, batches int64, handle Handle) *OpenLeg {
	l := &OpenLeg{
		Number: s.Number, Since: workflow.Now(c.Ctx), Answered: true, Batches: int(batches), Places: s.Window,
		bounds: s.Limits.Stages, Handle: handle,
	}
	if b := s.Limits.Budget; b != nil {
		l.Budget = wire.Budget{Cost: b.Cost, Tokens: b.Tokens}
	}
	c.Legs = append(c.Legs, l)
	return l
}

const (
	// startTries and startWait bound how long a leg waits for the end of another one that has its workflow ID: the server
	// may not have ended all legs of an earlier run yet. Those of feeds notice the end of their job at once, if a worker is
	// there and they have begun. One whose start the server had not yet reported when its job ended has no workflow task,
	// and one that only keeps results for clients stays: either is disowned, which gives it a task and ends it.
	startTries = 60
	startWait  = time.Second
)

// StartLeg starts a leg's workflow with the options of ctx, and returns when that is known to run, or not to. It is for a
// coroutine of its own.
func (c *Coordinator) StartLeg(ctx workflow.Context, leg Handle, name string, in any) workflow.ChildWorkflowFuture {
	for try := 1; ; try++ {
		child := workflow.ExecuteChildWorkflow(ctx, name, in)
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		if !errors.As(err, new(*temporal.ChildWorkflowExecutionAlreadyStartedError)) || try == startTries || c.Ending() {
			return child
		}
		c.Outbox.Send(leg.ID(), "", wire.SignalDisowned, c.State.Ref.Run)
		_ = workflow.NewTimer(ctx, startWait).Get(ctx, nil)
	}
}

// Replace has start open a leg that goes on with what another one has left, which ends now: with its places of the
// window, and before the legs that are younger than that. Those of a feed have batches for all places that there are,
// and would leave it none.
func (c *Coordinator) Replace(ends *OpenLeg, start func()) {
	c.regain(ends)
	start()
	last := len(c.Legs) - 1
	c.Legs = slices.Insert(c.Legs[:last], slices.Index(c.Legs, ends), c.Legs[last])
}

// LegEnded takes what a leg has done.
func (c *Coordinator) LegEnded(ended *OpenLeg, result wire.LegResult) {
	c.Legs = slices.DeleteFunc(c.Legs, func(l *OpenLeg) bool { return l == ended })
	r := &c.State.Report
	c.State.Heads = append(c.State.Heads, result.Manifests...)
	c.State.Speed = result.Speed
	c.Planning.RateKnown = true
	r.Planned, r.Discarded = max(r.Planned, result.Accepted), r.Discarded+result.Discarded
	r.Outcomes.Add(result.Outcomes)
	c.State.Fresh.Add(dispatch.CountsOf(result.LegOutcomes))
	c.traits.Ended(ended, result)
	c.Left += result.Left
	c.regain(ended)
	pool.Of(&c.State.Pool).Hear(result.Pool...)
	c.resize()
	c.Share()
	if result.Error != nil {
		c.Fail(result.Error)
	}
	c.CheckOutcomes(false)
	if c.Limited() {
		c.SendLimits()
	}
	c.rebound()
}
