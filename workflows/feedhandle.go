package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// errRenew ends the search for a portion because the job continues as new.
var errRenew = temporal.NewCanceledError("the job continues as new")

// feedHandle is the handle of a leg of a feed. The leg outlives runs of the job, so it is reached by its workflow ID, and reports its
// end by a signal.
type feedHandle struct {
	c       *coordinator
	number  int
	open    *openLeg
	started workflow.Future // nil: it runs
	sending int             // signals that have not been delivered
	sofar   wire.LegResult
	freed   wire.Freed // that it has reported
	run     string     // of its workflow; "" if an earlier run of the job has started it
	over    bool
	// salvaging: its workflow has ended without a report.
	salvaging bool
}

// startFeedLeg starts a leg of the feed. The first one takes items at once, the others stand by.
func (c *coordinator) startFeedLeg(feed *wire.FeedWorkState) {
	c.state.Report.Legs++
	in := wire.FeedLegInput{
		Ref: c.state.Ref, Spec: c.spec(), Version: c.in.Version, Previous: c.state.Heads,
		LegState: wire.LegState{Number: c.nextLeg(false), Limits: c.limits(), Window: max(0, c.places), Known: pool.Workers(c.state.Pool.Workers).Calls()},
	}
	in.Limits.Legs = len(c.legs) + 1
	c.state.Heads = nil
	c.places -= in.Window
	if feed.Latest == 0 {
		in.Opening = &wire.FeedOpening{Opening: wire.Opening{First: feed.Accepted, Session: feed.Session, Unfinished: c.work.(*feedWork).leaveEarlier()}, Batches: c.state.Batches}
	}
	h := &feedHandle{c: c, number: in.Number, sofar: wire.LegResult{Manifests: in.Previous, Accepted: feed.Accepted}}
	h.open = &openLeg{number: in.Number, answered: true, batches: job.MaxWindow, places: in.Window, standsBy: in.Opening == nil, legHandle: h}
	c.legs = append(c.legs, h.open)
	feed.Latest = in.Number
	// In its own coroutine, because a leg of an ended job may still have the workflow ID.
	started, settable := workflow.NewFuture(c.ctx)
	h.started = started
	workflow.Go(c.ctx, func(ctx workflow.Context) {
		child := h.start(ctx, in)
		var execution workflow.Execution
		err := child.GetChildWorkflowExecution().Get(ctx, &execution)
		h.run = execution.RunID
		settable.Set(nil, err)
		if err == nil {
			h.begun(feed, in.Opening != nil)
		}
		h.closed(ctx, child)
	})
}

const (
	// startTries and startWait bound how long a leg waits for the end of another one that has its workflow ID: legs notice the
	// end of their job at once, if a worker is there and they have begun. One whose start the server had not yet reported when
	// its job ended has no workflow task: it is disowned, which gives it one.
	startTries = 60
	startWait  = time.Second
)

// start starts the leg's workflow, and returns when that is known to run, or not to.
func (h *feedHandle) start(ctx workflow.Context, in wire.FeedLegInput) workflow.ChildWorkflowFuture {
	options := execute.FeedLegOptions(ctx, h.c.spec(), in.Number, fmt.Sprintf("leg %d of a feed", in.Number))
	for try := 1; ; try++ {
		child := workflow.ExecuteChildWorkflow(options, FeedLeg, in)
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &taken) || try == startTries || h.c.ending() {
			return child
		}
		workflow.SignalExternalWorkflow(ctx, h.id(), "", dispatch.SignalDisowned, nil)
		_ = workflow.NewTimer(ctx, startWait).Get(ctx, nil)
	}
}

// begun makes a leg that has started known to the one before it, or, if it takes items at once, to clients.
func (h *feedHandle) begun(feed *wire.FeedWorkState, opened bool) {
	h.started = nil
	work := h.c.work.(*feedWork)
	if opened {
		work.opened(h.number)
	}
	var before *feedHandle
	work.eachLeg(func(leg *feedHandle) {
		if leg.number < h.number {
			before = leg
		}
	})
	if before != nil {
		before.signal(signalSuccessor, h.number)
	}
	if feed.Closing {
		h.signal(signalClose, nil)
	}
}

// resumeFeedLeg continues with a leg that an earlier run of the job has started.
func (c *coordinator) resumeFeedLeg(carried wire.CarriedLeg) {
	h := &feedHandle{c: c, number: carried.Number, sofar: carried.Sofar, freed: carried.Freed}
	h.open = &openLeg{
		number: carried.Number, since: workflow.Now(c.ctx), reported: carried.Reported, answered: true, batches: job.MaxWindow, places: carried.Places, dry: carried.Dry, told: carried.Told,
		standsBy: carried.Number > c.state.Work.Feed.Open, legHandle: h,
	}
	c.places -= carried.Places
	c.legs = append(c.legs, h.open)
	workflow.Go(c.ctx, func(ctx workflow.Context) {
		for !h.over {
			h.send(signalAlive, nil, func() { workflow.Go(c.ctx, h.vanished) })
			_, _ = workflow.AwaitWithTimeout(ctx, checkLegs, func() bool { return h.over })
		}
	})
}

// checkLegs is how often the job checks that a leg still runs which an earlier run has started: its end is not reported by
// the server.
const checkLegs = 10 * time.Minute

// closed notes that the leg's workflow has ended. If it has reported its result, that is all.
func (h *feedHandle) closed(ctx workflow.Context, child workflow.Future) {
	var result wire.LegResult
	err := child.Get(ctx, &result)
	h.c.receiveAll() // its report may have come together with its end
	if h.over {
		return
	}
	if err != nil {
		h.failed(ctx, execute.JobError(err))
		return
	}
	h.ended(result)
}

// vanished ends a leg whose workflow is no more although it has not reported its end.
func (h *feedHandle) vanished(ctx workflow.Context) {
	if !h.over {
		h.failed(ctx, &job.Error{Type: job.ErrorFailed, Message: fmt.Sprintf("the workflow %s has ended without a report", h.id())})
	}
}

// failed takes what the leg had accepted from its closed workflow, so that the job can be resumed.
func (h *feedHandle) failed(ctx workflow.Context, err *job.Error) {
	if h.salvaging {
		return
	}
	h.salvaging = true
	h.c.fail(err)
	result := h.sofar
	result.Left = max(1, result.Left) // what it had accepted is not known
	in := wire.SalvageFeedInput{Workflow: h.id(), Run: h.run}
	options := execute.IOOptions(ctx, h.c.spec(), fmt.Sprintf("commit what leg %d has left", h.number))
	saved, lost := execute.IO(options, wire.ActivitySalvageFeed, in)
	switch {
	case lost != nil:
		h.c.noteError(*execute.JobError(lost))
		result.Unsaved = true
	case saved.Gone:
		h.c.work.(*feedWork).noteGone(h.id())
	default:
		result.Manifests = saved.Manifests
	}
	h.ended(result)
}

// ended takes what the leg has done.
func (h *feedHandle) ended(result wire.LegResult) {
	if h.over {
		return
	}
	h.over = true
	if result.Unsaved {
		h.c.state.Report.Unsaved = append(h.c.state.Report.Unsaved, h.id())
	}
	h.c.legEnded(h.open, result)
	h.c.wakeUp()
}

// settled reports that the leg runs, and that no signal is on its way to it.
func (h *feedHandle) settled() bool { return h.started == nil && h.sending == 0 }

// signal sends a signal without waiting. A leg that has ended does not need it.
func (h *feedHandle) signal(name string, argument any) { h.send(name, argument, func() {}) }

// send sends a signal without waiting; undelivered is called if the leg has ended before.
func (h *feedHandle) send(name string, argument any, undelivered func()) {
	h.sending++
	workflow.Go(h.c.ctx, func(ctx workflow.Context) {
		err := errors.New("not started")
		if h.started == nil || h.started.Get(ctx, nil) == nil {
			err = workflow.SignalExternalWorkflow(ctx, h.id(), "", name, argument).Get(ctx, nil)
		}
		h.sending--
		if err != nil {
			undelivered()
		}
		h.c.wakeUp()
	})
}

func (h *feedHandle) id() string { return wire.LegID(h.c.spec().Name, h.number) }

func (h *feedHandle) halt(notice wire.StopNotice) {
	h.signal(dispatch.SignalHalt, notice)
}

func (h *feedHandle) limit(limits wire.LegLimits) {
	h.signal(dispatch.SignalLimits, limits)
}

func (h *feedHandle) grant(places int, returned func()) {
	h.send(dispatch.SignalGrant, places, returned)
}

func (h *feedHandle) counts(reported wire.Counts) wire.Counts { return reported }

func (h *feedHandle) exact() bool { return false }

func (h *feedHandle) kept(r wire.LegResult) {
	h.sofar.Manifests, h.sofar.Accepted = r.Manifests, r.Accepted
}

func (h *feedHandle) addTo(r *job.Report) {
	if h.started == nil {
		r.OpenLegs = append(r.OpenLegs, h.id())
	}
	r.Manifests = slices.Concat(r.Manifests, h.sofar.Manifests) // so that what is committed can be read while the feed runs
	r.Planned = max(r.Planned, h.sofar.Accepted)
}

// pending keeps the manifests that the leg was given, until it has begun and can say so itself.
func (h *feedHandle) pending() []any {
	if h.started == nil {
		return nil
	}
	return []any{wire.CommitInput{Ref: h.c.state.Ref, Leg: h.number, Previous: h.sofar.Manifests}}
}
