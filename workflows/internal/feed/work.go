package feed

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pages"
	"github.com/stint-run/stint/workflows/internal/pool"
)

// feedWork has legs take items from clients, one leg at a time; the next one stands by. A feed that continues an
// earlier run begins with the items that it has left: these are pages as those of files.
//
// A leg costs the job's history the child's 3 events, 4 signals received (sealed, ended, two of places) and 3 sent
// (successor, grant, freed), 3 events for each that causes a workflow task, and one signal every 10 s for a commit:
// some 60 events and 20 more a minute. So a run of a feed that takes 50 exchanges a second lasts half an hour; then it
// continues as new, and its open legs go on.
type feedWork struct {
	pages.Pager
	feed    *wire.FeedWorkState
	handles map[int]*feedHandle // of the open legs that take items, or have taken some, by their numbers
	cancel  bool                // next returns
	legs    int                 // started by this run
}

// LegsARun is how many legs a run of the job starts before it continues as new; tests set another number. They are
// 100·60 events, and 100 commits of each.
var LegsARun = 100

// New returns the work of a feed.
func New(state *wire.WorkState) coordinate.Work {
	return &feedWork{Pager: pages.Pager{State: state}, handles: map[int]*feedHandle{}}
}

// Begin has the job close the feed when it is asked to, and continues with the legs that are open. A feed has no errors
// file: its clients have been given the errors. Its items are whatever clients put, so that some fail alone shows
// nothing.
func (w *feedWork) Begin(c *coordinate.Coordinator) (coordinate.Traits, error) {
	w.C = c
	if w.State.Feed == nil {
		w.State.Feed = &wire.FeedWorkState{Wanted: 2, Session: 1, Began: 1} // one that takes items, and one that stands by
	}
	w.feed = w.State.Feed
	for _, carried := range c.State.Carried {
		w.resumeLeg(carried)
	}
	c.State.Carried = nil
	for _, signal := range []string{wire.SignalSealed, wire.SignalEnded, wire.SignalFreed, wire.SignalSession, wire.SignalStalled, wire.SignalAlive} {
		c.Selector.AddReceive(workflow.GetSignalChannel(c.Ctx, signal), func(workflow.ReceiveChannel, bool) { c.ReceiveAll() })
	}
	err := workflow.SetUpdateHandlerWithOptions(c.Ctx, wire.UpdateClose, func(ctx workflow.Context) error {
		w.close()
		return workflow.Await(ctx, w.signalsDelivered) // then no leg takes items any more
	}, workflow.UpdateHandlerOptions{Description: "take no more items, and complete when all are done"})
	if err != nil {
		return coordinate.Traits{}, fmt.Errorf("answering updates: %w", err)
	}
	return coordinate.Traits{
		BoundsFailures: true, LegsOverlap: true, Receive: w.receive, Resized: w.resized, Progressed: w.progressed, Ended: w.ended, Carry: w.carry,
		Outcomes: w.outcomes, Counted: w.ofSession,
	}, nil
}

// close has every leg take no more items.
func (w *feedWork) close() {
	if w.feed.Closing {
		return
	}
	w.feed.Closing = true
	w.eachLeg(func(leg *feedHandle) { leg.Signal(wire.SignalClose, nil) })
	w.C.WakeUp()
}

// signalsDelivered reports whether no signal is on its way to a leg.
func (w *feedWork) signalsDelivered() bool {
	delivered := true
	w.eachLeg(func(leg *feedHandle) { delivered = delivered && leg.sending == 0 })
	return delivered
}

func (w *feedWork) receive() {
	c := w.C
	run := c.State.Ref.Run
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalSealed, w.sealed)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalSession, w.sessionBegun)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalFreed, w.legFreed)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalStalled, w.stalled)
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalEnded, func(ended wire.KeptResult) {
		if leg := w.handles[ended.Leg]; leg != nil {
			leg.ended(ended.Result)
		}
	})
	dispatch.ReceiveFromLegs(c.Outbox, run, wire.SignalAlive, func(any) {}) // that it is delivered is the answer
}

func (w *feedWork) eachLeg(fn func(*feedHandle)) {
	for _, l := range w.C.Legs {
		if leg := w.handles[l.Number]; leg != nil {
			fn(leg)
		}
	}
}

// sealed notes that the next leg takes items, and has another one stand by. The notices come in order: without the one
// that is started now, the next leg is not sealed.
func (w *feedWork) sealed(n wire.SealedNotice) {
	w.feed.Accepted = max(w.feed.Accepted, n.Next)
	w.C.State.Report.Planned = max(w.C.State.Report.Planned, n.Next)
	w.feed.Wanted++
	if next := w.handles[n.Leg+1]; next != nil {
		next.open.StandsBy = false
		w.Opened(next.number)
	}
	if w.C.Limited() {
		w.C.SendLimits()
	}
	w.C.WakeUp()
}

// Opened notes which leg takes items, where clients look for it.
func (w *feedWork) Opened(leg int) {
	w.feed.Open = leg
	w.feed.Segments++
	w.sendFreed()
	w.feed.Stalled, w.feed.StallSeen = time.Time{}, time.Time{} // the leg that takes items now finds out anew
	if err := workflow.UpsertMemo(w.C.Ctx, map[string]any{wire.MemoLeg: leg}); err != nil {
		workflow.GetLogger(w.C.Ctx).Error("writing which leg takes items", "error", err)
	}
}

// Next plans what earlier runs have left, and then asks for a leg whenever one is wanted.
func (w *feedWork) Next(ctx workflow.Context, t coordinate.Snapshot) (coordinate.Assignment, error) {
	if !w.feed.Planned {
		return w.plan(ctx, t)
	}
	w.cancel = false
	err := workflow.Await(ctx, func() bool { return w.feed.Closing || w.feed.Wanted > 0 || w.cancel })
	switch {
	case err != nil:
		return coordinate.Assignment{}, err
	case w.feed.Closing:
		return coordinate.Assignment{Planned: w.C.State.Report.Planned, Last: true}, nil
	case w.feed.Wanted == 0:
		return coordinate.Assignment{}, coordinate.ErrRenew
	}
	w.feed.Wanted--
	return coordinate.Assignment{Planned: w.C.State.Report.Planned, Standing: true, MostLegs: coordinate.FeedLegs, Batches: limits.MaxWindow}, nil
}

// plan claims the output, and finds what earlier runs have left.
func (w *feedWork) plan(ctx workflow.Context, t coordinate.Snapshot) (coordinate.Assignment, error) {
	in := wire.PlanFeedInput{
		Ref: t.Ref, Spec: t.Spec, Resume: t.Resume, From: w.State.Cursor, Batches: pages.PageSize(t),
		Accepted: max(w.feed.Accepted, w.C.In.Accepted),
	}
	page, err := execute.IO(ctx, wire.ActivityPlanFeed, in)
	if err != nil {
		return coordinate.Assignment{}, err
	}
	found, err := w.Found(page.PlanResult)
	if err != nil {
		return found, err
	}
	if page.Sources != "" {
		w.feed.Earlier.Items, w.feed.Lost = page.Unfinished, page.Lost
	}
	w.feed.Planned, w.feed.Accepted = page.Done, max(w.feed.Accepted, page.Accepted)
	w.feed.Closing = w.feed.Closing || page.Closed
	if page.Session > 0 {
		w.feed.Session, w.feed.Began = page.Session+1, page.Session+1
	}
	found.Planned, found.Last = page.Accepted, false // legs that take items come after it
	found.Discarded, found.Heads, found.FirstError = page.Discarded, page.Heads, page.FirstError
	return found, nil
}

// resized is that of [traits]: the legs make their batches themselves.
func (w *feedWork) resized(items int64) {
	w.feed.Resized++
	w.eachLeg(func(leg *feedHandle) {
		leg.Signal(wire.SignalResize, wire.FeedResize{Number: w.feed.Resized, Items: items})
	})
}

// Renew is that of [coordinate.Work].
func (w *feedWork) Renew() {
	w.cancel = true
	w.Pager.Renew()
}

// Open is that of [coordinate.Work].
func (w *feedWork) Open(p coordinate.Assignment) {
	if !p.Standing {
		w.Pager.Open(p)
		return
	}
	w.startLeg()
	if w.legs++; w.legs >= LegsARun {
		w.C.RenewSoon()
	}
}

// Window is that of [coordinate.Work].
func (w *feedWork) Window(v pool.View) int { return v.FeedWindow() }

// Salvage is that of [coordinate.Work].
func (w *feedWork) Salvage(ctx workflow.Context, in wire.Salvaged) ([]string, error) {
	if in.Workflow == "" {
		in.Entries = slices.DeleteFunc(in.Entries, func(e wire.FeedEntry) bool { return e.Verify() != nil }) // PlanFeed finds their items
		committed, err := execute.IO(ctx, wire.ActivityCommitFeed, in.CommitFeedInput)
		return []string{committed.Manifest}, err
	}
	done, err := pages.SalvageLeg(ctx, in)
	if done.Gone {
		w.noteGone(in.Workflow)
	}
	return done.Manifests, err
}

// noteGone notes a leg whose history is gone: what it had not committed is known by its gaps in the books only.
func (w *feedWork) noteGone(leg string) {
	workflow.GetLogger(w.C.Ctx).Warn("the history of a leg of the feed is gone: items that it had accepted, and that are not in the store, are lost", "leg", leg)
	if len(w.feed.Gone) < limits.MaxGone {
		w.feed.Gone = append(w.feed.Gone, leg)
	}
}

func (w *feedWork) carry(legs []*coordinate.OpenLeg) ([]wire.CarriedLeg, bool) {
	var all []wire.CarriedLeg
	for _, l := range legs {
		leg := w.handles[l.Number]
		if leg == nil || !leg.settled() {
			return nil, false
		}
		all = append(all, wire.CarriedLeg{Number: l.Number, Reported: l.Reported, Places: l.Places, Dry: l.Dry, Told: l.Told, Budget: l.Budget, Freed: leg.freed, Sofar: leg.sofar})
	}
	return all, true
}

// Finish is that of [coordinate.Work].
func (w *feedWork) Finish(ctx workflow.Context, t coordinate.Snapshot, r *job.Report) error {
	if err := w.Pager.Finish(ctx, t, r); err != nil {
		return err
	}
	w.CompleteReport(r)
	return nil
}

// CompleteReport adds what the job itself knows of the feed; the legs that run know more.
func (w *feedWork) CompleteReport(r *job.Report) {
	spec := w.C.Spec()
	r.Feed = &job.FeedReport{
		Session: w.feed.Session, Accepted: r.Planned, Capacity: spec.Feed.Capacity, CapacityBytes: spec.Feed.CapacityBytes, Segments: w.feed.Segments,
		StalledSince: w.feed.Stalled, Earlier: w.earlierLeft(), Lost: w.feed.Lost, Gone: w.feed.Gone,
	}
}

// NeedsSpeed is false: a feed's batches are cut when they leave.
func (w *feedWork) NeedsSpeed(job.Spec) bool { return false }
