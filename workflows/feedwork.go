package workflows

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// feedWork has legs take items from clients, one leg at a time; the next one stands by. A feed that continues an earlier run
// begins with the items that it has left: these are pages as those of files.
//
// A leg costs the job's history the child's 3 events, 4 signals received (sealed, ended, two of places) and 3 sent (successor, grant,
// freed), 3 events for each that causes a workflow task, and one signal every 10 s for a commit: some 60 events and 20 more a minute. So a run of
// a feed that takes 50 exchanges a second lasts half an hour; then it continues as new, and its open legs go on.
type feedWork struct {
	pager
	feed   *wire.FeedWorkState
	cancel bool // next returns
	legs   int  // started by this run
}

// legsARun is how many legs a run of the job starts before it continues as new; tests set another number. They are 100·60 events, and 100
// commits of each.
var legsARun = 100

func newFeedWork(state *wire.WorkState) *feedWork { return &feedWork{pager: pager{state: state}} }

// attach has the job close the feed when it is asked to, and continues with the legs that are open.
func (w *feedWork) attach(c *coordinator) error {
	w.c = c
	if w.state.Feed == nil {
		w.state.Feed = &wire.FeedWorkState{Wanted: 2, Session: 1, Began: 1} // one that takes items, and one that stands by
	}
	w.feed = w.state.Feed
	for _, carried := range c.state.Carried {
		c.resumeFeedLeg(carried)
	}
	c.state.Carried = nil
	for _, signal := range []string{signalSealed, signalEnded, signalFreed, signalSession, signalStalled, signalAlive} {
		c.selector.AddReceive(workflow.GetSignalChannel(c.ctx, signal), func(workflow.ReceiveChannel, bool) { c.receiveAll() })
	}
	err := workflow.SetUpdateHandlerWithOptions(c.ctx, wire.UpdateClose, func(ctx workflow.Context) error {
		w.close()
		return workflow.Await(ctx, w.signalsDelivered) // then no leg takes items any more
	}, workflow.UpdateHandlerOptions{Description: "take no more items, and complete when all are done"})
	if err != nil {
		return fmt.Errorf("answering updates: %w", err)
	}
	return nil
}

// close has every leg take no more items.
func (w *feedWork) close() {
	if w.feed.Closing {
		return
	}
	w.feed.Closing = true
	w.eachLeg(func(leg *feedHandle) { leg.signal(signalClose, nil) })
	w.c.wakeUp()
}

// signalsDelivered reports whether no signal is on its way to a leg.
func (w *feedWork) signalsDelivered() bool {
	delivered := true
	w.eachLeg(func(leg *feedHandle) { delivered = delivered && leg.sending == 0 })
	return delivered
}

func (w *feedWork) receive() {
	c := w.c
	run := c.state.Ref.Run
	dispatch.ReceiveFromLegs(c.ctx, run, signalSealed, w.sealed)
	dispatch.ReceiveFromLegs(c.ctx, run, signalSession, w.sessionBegun)
	dispatch.ReceiveFromLegs(c.ctx, run, signalFreed, w.legFreed)
	dispatch.ReceiveFromLegs(c.ctx, run, signalStalled, w.stalled)
	dispatch.ReceiveFromLegs(c.ctx, run, signalEnded, func(ended wire.KeptResult) {
		for _, l := range c.legs {
			if leg, ok := l.legHandle.(*feedHandle); ok && l.number == ended.Leg {
				leg.ended(ended.Result)
				return
			}
		}
	})
	dispatch.ReceiveFromLegs(c.ctx, run, signalAlive, func(any) {}) // that it is delivered is the answer
}

func (w *feedWork) eachLeg(fn func(*feedHandle)) {
	for _, l := range w.c.legs {
		if leg, ok := l.legHandle.(*feedHandle); ok {
			fn(leg)
		}
	}
}

// sealed notes that the next leg takes items, and has another one stand by.
func (w *feedWork) sealed(n wire.SealedNotice) {
	w.feed.Accepted = max(w.feed.Accepted, n.Next)
	w.c.state.Report.Planned = max(w.c.state.Report.Planned, n.Next)
	w.feed.Wanted++
	found := false
	w.eachLeg(func(leg *feedHandle) { // in their order
		if !found && leg.number > n.Leg {
			found, leg.open.standsBy = true, false
			w.opened(leg.number)
		}
	})
	if w.c.limited() {
		w.c.sendLimits()
	}
	w.c.wakeUp()
}

// opened notes which leg takes items, where clients look for it.
func (w *feedWork) opened(leg int) {
	w.feed.Open = leg
	w.feed.Segments++
	w.sendFreed()
	w.feed.Stalled, w.feed.StallSeen = time.Time{}, time.Time{} // the leg that takes items now finds out anew
	if err := workflow.UpsertMemo(w.c.ctx, map[string]any{wire.MemoLeg: leg}); err != nil {
		workflow.GetLogger(w.c.ctx).Error("writing which leg takes items", "error", err)
	}
}

// next plans what earlier runs have left, and then asks for a leg whenever one is wanted.
func (w *feedWork) next(ctx workflow.Context, t terms) (portion, error) {
	if !w.feed.Planned {
		return w.plan(ctx, t)
	}
	w.cancel = false
	err := workflow.Await(ctx, func() bool { return w.feed.Closing || w.feed.Wanted > 0 || w.cancel })
	switch {
	case err != nil:
		return portion{}, err
	case w.feed.Closing:
		return portion{planned: w.c.state.Report.Planned, last: true}, nil
	case w.feed.Wanted == 0:
		return portion{}, errRenew
	}
	w.feed.Wanted--
	return portion{planned: w.c.state.Report.Planned, segment: true, batches: job.MaxWindow}, nil
}

// plan claims the output, and finds what earlier runs have left.
func (w *feedWork) plan(ctx workflow.Context, t terms) (portion, error) {
	in := wire.PlanFeedInput{
		Ref: t.ref, Spec: t.spec, Resume: t.resume, From: w.state.Cursor, Batches: pageSize(t),
		Accepted: max(w.feed.Accepted, w.c.in.Accepted),
	}
	page, err := execute.IO(ctx, wire.ActivityPlanFeed, in)
	if err != nil {
		return portion{}, err
	}
	batches, err := wire.DecodePage(page.Page)
	if err != nil {
		return portion{}, err
	}
	w.state.Cursor = page.Next
	if page.Sources != "" {
		w.feed.Earlier.Items, w.feed.Lost = page.Unfinished, page.Lost
	}
	w.feed.Planned, w.feed.Accepted = page.Done, max(w.feed.Accepted, page.Accepted)
	w.feed.Closing = w.feed.Closing || page.Closed
	if page.Session > 0 {
		w.feed.Session = page.Session + 1
		w.feed.Began = w.feed.Session
	}
	found := portion{
		page: page.Page, planned: page.Accepted, batches: int64(len(batches)),
		sources: page.Sources, perm: page.Perm, resumed: page.Resumed, discarded: page.Discarded, heads: page.Heads, firstError: page.FirstError,
		worker: wire.PoolWorker{Name: page.Worker, Capacity: page.Capacity},
	}
	for _, b := range batches {
		found.items += b.Count
	}
	return found, nil
}

// resized is that of [work]: the legs make their batches themselves.
func (w *feedWork) resized(items int64) {
	w.feed.Resized++
	w.eachLeg(func(leg *feedHandle) { leg.signal(signalResize, wire.FeedResize{Number: w.feed.Resized, Items: items}) })
}

func (w *feedWork) renew() { w.cancel = true }

func (w *feedWork) open(p portion) {
	if !p.segment {
		w.c.openPage(p)
		return
	}
	w.c.startFeedLeg(w.feed)
	if w.legs++; w.legs >= legsARun {
		w.c.renewSoon()
	}
}

func (w *feedWork) window(v pool.View) int { return v.FeedWindow() }

func (w *feedWork) salvage(ctx workflow.Context, in wire.Salvaged) ([]string, error) {
	if in.Workflow == "" {
		in.Entries = slices.DeleteFunc(in.Entries, func(e wire.FeedEntry) bool { return e.Verify() != nil }) // PlanFeed finds their items
		committed, err := execute.IO(ctx, wire.ActivityCommitFeed, in.CommitFeedInput)
		return []string{committed.Manifest}, err
	}
	done, err := salvageLeg(ctx, in)
	if done.Gone {
		w.noteGone(in.Workflow)
	}
	return done.Manifests, err
}

// salvageLeg has a leg of a job whose spec is a feed's asked for what it had accepted, and that recorded.
func salvageLeg(ctx workflow.Context, in wire.Salvaged) (wire.SalvageFeedResult, error) {
	if in.Gone {
		return wire.SalvageFeedResult{Gone: true}, nil
	}
	return execute.IO(ctx, wire.ActivitySalvageFeed, in.SalvageFeedInput)
}

// noteGone notes a leg whose history is gone: what it had not committed is known by its gaps in the books only.
func (w *feedWork) noteGone(leg string) {
	workflow.GetLogger(w.c.ctx).Warn("the history of a leg of the feed is gone: items that it had accepted, and that are not in the store, are lost", "leg", leg)
	if len(w.feed.Gone) < job.MaxGone {
		w.feed.Gone = append(w.feed.Gone, leg)
	}
}

func (w *feedWork) carry(legs []*openLeg) ([]wire.CarriedLeg, bool) {
	var all []wire.CarriedLeg
	for _, l := range legs {
		leg, ok := l.legHandle.(*feedHandle)
		if !ok || !leg.settled() {
			return nil, false
		}
		all = append(all, wire.CarriedLeg{Number: l.number, Reported: l.reported, Places: l.places, Dry: l.dry, Told: l.told, Freed: leg.freed, Sofar: leg.sofar})
	}
	return all, true
}

func (w *feedWork) finish(ctx workflow.Context, t terms, r *job.Report) error {
	if err := w.pager.finish(ctx, t, r); err != nil {
		return err
	}
	w.amend(r)
	return nil
}

// amend adds what the job itself knows of the feed; the legs that run know more.
func (w *feedWork) amend(r *job.Report) {
	spec := w.c.spec()
	r.Feed = &job.FeedReport{
		Session: w.feed.Session, Accepted: r.Planned, Capacity: spec.Capacity, CapacityBytes: spec.CapacityBytes, Segments: w.feed.Segments,
		StalledSince: w.feed.Stalled, Earlier: w.earlierLeft(), Lost: w.feed.Lost, Gone: w.feed.Gone,
	}
}

// needsSpeed is false: a feed's batches are cut when they leave.
func (w *feedWork) needsSpeed(job.Spec) bool { return false }

func (w *feedWork) boundsFailures() bool { return true }

// listFailures does nothing: a feed's clients have been given the errors.
func (w *feedWork) listFailures(workflow.Context, terms) (string, error) { return "", nil }
