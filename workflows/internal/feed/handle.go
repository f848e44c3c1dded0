package feed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// feedHandle is the handle of a leg of a feed. The leg outlives runs of the job, so it is reached by its workflow ID,
// and reports its end by a signal.
type feedHandle struct {
	c       *coordinate.Coordinator
	work    *feedWork
	number  int
	open    *coordinate.OpenLeg
	started workflow.Future // nil: it runs
	sending int             // signals that have not been delivered
	sofar   wire.LegResult
	freed   wire.Freed // that it has reported
	run     string     // of its workflow; "" if an earlier run of the job has started it
	over    bool
	// salvaging: its workflow has ended without a report.
	salvaging bool
}

// startLeg starts a leg of the feed. The first one takes items at once, the others stand by.
func (w *feedWork) startLeg() {
	c, feed := w.C, w.feed
	in := wire.FeedLegInput{
		Ref: c.State.Ref, Spec: c.Spec(), Version: c.In.Version, Previous: c.State.Heads,
		LegState: c.NewLeg(false, c.Places),
	}
	c.State.Heads = nil
	if feed.Latest == 0 {
		feed.Earlier.Freed = w.earlierDone()
		in.Opening = &wire.FeedOpening{
			Opening: wire.Opening{First: feed.Accepted, Session: feed.Session, Unfinished: w.earlierLeft()}, Batches: c.State.Batches,
		}
	}
	h := &feedHandle{c: c, work: w, number: in.Number, sofar: wire.LegResult{Manifests: in.Previous, Accepted: feed.Accepted}}
	h.open = c.Opened(in.LegState, limits.MaxWindow, h)
	h.open.Since, h.open.StandsBy = time.Time{}, in.Opening == nil // one that stands by counts nothing
	w.handles[in.Number] = h
	feed.Latest = in.Number
	// In its own coroutine, because a leg of an ended job may still have the workflow ID.
	started, settable := workflow.NewFuture(c.Ctx)
	h.started = started
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		child := c.StartLeg(execute.FeedLegOptions(ctx, in.Spec, in.Number, fmt.Sprintf("leg %d of a feed", in.Number)), h, wire.WorkflowFeedLeg, in)
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

// begun makes a leg that has started known to the one before it, or, if it takes items at once, to clients.
func (h *feedHandle) begun(feed *wire.FeedWorkState, opened bool) {
	h.started = nil
	if opened {
		h.work.Opened(h.number)
	}
	if before := h.work.handles[h.number-1]; before != nil {
		before.Signal(wire.SignalSuccessor, h.number)
	}
	if feed.Closing {
		h.Signal(wire.SignalClose, nil)
	}
}

// resumeLeg continues with a leg that an earlier run of the job has started.
func (w *feedWork) resumeLeg(carried wire.CarriedLeg) {
	c := w.C
	h := &feedHandle{c: c, work: w, number: carried.Number, sofar: carried.Sofar, freed: carried.Freed}
	h.open = &coordinate.OpenLeg{
		Number: carried.Number, Since: workflow.Now(c.Ctx), Reported: carried.Reported, Answered: true, Batches: limits.MaxWindow, Places: carried.Places, Dry: carried.Dry, Told: carried.Told, Budget: carried.Budget,
		StandsBy: carried.Number > w.feed.Open, Handle: h,
	}
	c.Places -= carried.Places
	c.Legs = append(c.Legs, h.open)
	w.handles[h.number] = h
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		for !h.over {
			_ = workflow.Await(ctx, func() bool { return h.over || !c.Paused() }) // its context is never cancelled
			if h.over {
				return
			}
			h.send(wire.SignalAlive, nil, func() { workflow.Go(c.Ctx, h.vanished) })
			_, _ = workflow.AwaitWithTimeout(ctx, checkLegs, func() bool { return h.over })
		}
	})
}

// checkLegs is how often the job checks that a leg still runs which an earlier run has started: its end is not reported
// by the server.
const checkLegs = 10 * time.Minute

// closed notes that the leg's workflow has ended. If it has reported its result, that is all.
func (h *feedHandle) closed(ctx workflow.Context, child workflow.Future) {
	var result wire.LegResult
	err := child.Get(ctx, &result)
	switch {
	case h.reported():
	case err != nil:
		h.failed(ctx, execute.JobError(err))
	default:
		h.ended(result)
	}
}

// reported reports whether the leg has reported its end. That may have come together with the end itself.
func (h *feedHandle) reported() bool {
	h.c.ReceiveAll()
	return h.over
}

// vanished ends a leg whose workflow is no more although it has not reported its end.
func (h *feedHandle) vanished(ctx workflow.Context) {
	if !h.reported() {
		h.failed(ctx, &job.Error{Type: job.ErrorFailed, Message: fmt.Sprintf("the workflow %s has ended without a report", h.ID())})
	}
}

// failed takes what the leg had accepted from its closed workflow, so that the job can be resumed.
func (h *feedHandle) failed(ctx workflow.Context, err *job.Error) {
	if h.salvaging {
		return
	}
	h.salvaging = true
	h.c.Fail(err)
	result := h.sofar
	result.Left = max(1, result.Left) // what it had accepted is not known
	in := wire.SalvageFeedInput{Workflow: h.ID(), Run: h.run}
	options := execute.IOOptions(ctx, h.c.Spec(), fmt.Sprintf("commit what leg %d has left", h.number))
	saved, lost := execute.IO(options, wire.ActivitySalvageFeed, in)
	switch {
	case lost != nil:
		h.c.NoteError(*execute.JobError(lost))
		result.Unsaved = true
	case saved.Gone:
		h.work.noteGone(h.ID())
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
		h.c.State.Report.Unsaved = append(h.c.State.Report.Unsaved, h.ID())
	}
	h.c.LegEnded(h.open, result)
	h.c.WakeUp()
}

// settled reports that the leg runs, and that no signal is on its way to it.
func (h *feedHandle) settled() bool { return h.started == nil && h.sending == 0 }

// Signal sends a signal without waiting. A leg that has ended does not need it.
func (h *feedHandle) Signal(name string, argument any) { h.send(name, argument, func() {}) }

// send sends a signal without waiting; undelivered is called if the leg has ended before.
func (h *feedHandle) send(name string, argument any, undelivered func()) {
	h.sending++
	workflow.Go(h.c.Ctx, func(ctx workflow.Context) {
		err := errors.New("not started")
		if h.started == nil || h.started.Get(ctx, nil) == nil {
			err = h.c.Outbox.Send(h.ID(), "", name, argument).Get(ctx, nil)
		}
		h.sending--
		if err != nil {
			undelivered()
		}
		h.c.WakeUp()
	})
}

// ID is that of [coordinate.Handle].
func (h *feedHandle) ID() string { return wire.LegID(h.c.Spec().Name, h.number) }

// Halt is that of [coordinate.Handle].
func (h *feedHandle) Halt(notice wire.StopNotice) { h.Signal(wire.SignalHalt, notice) }

// Limit is that of [coordinate.Handle].
func (h *feedHandle) Limit(limits wire.LegLimits) { h.Signal(wire.SignalLimits, limits) }

// Grant is that of [coordinate.Handle].
func (h *feedHandle) Grant(places int, returned func()) { h.send(wire.SignalGrant, places, returned) }

// Counts is that of [coordinate.Handle].
func (h *feedHandle) Counts(reported wire.Counts) wire.Counts { return reported }

// Exact is that of [coordinate.Handle].
func (h *feedHandle) Exact() bool { return false }

// Kept is that of [coordinate.Handle].
func (h *feedHandle) Kept(r wire.LegResult) {
	h.sofar.Manifests, h.sofar.Accepted = r.Manifests, r.Accepted
}

// AddTo is that of [coordinate.Handle].
func (h *feedHandle) AddTo(r *job.Report) {
	if h.started == nil {
		r.OpenLegs = append(r.OpenLegs, h.ID())
	}
	r.Manifests = slices.Concat(r.Manifests, h.sofar.Manifests) // so that what is committed can be read while the feed runs
	r.Planned = max(r.Planned, h.sofar.Accepted)
}

// Pending keeps the manifests that the leg was given, until it has begun and can say so itself.
func (h *feedHandle) Pending() []any {
	if h.started == nil {
		return nil
	}
	return []any{wire.CommitInput{Ref: h.c.State.Ref, Leg: h.number, Previous: h.sofar.Manifests}}
}
