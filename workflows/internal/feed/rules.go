package feed

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/coordinate"
)

// What a feed's job knows beside its legs: which session's outcomes count, and what of the capacity items of earlier
// runs take.

// sessionBegun begins a session that a leg has been asked for, in all others. The rules that count failures begin anew.
func (w *feedWork) sessionBegun(session int64) {
	w.eachLeg(func(leg *feedHandle) { leg.Signal(wire.SignalSession, session) })
	if session <= w.feed.Session {
		return
	}
	w.feed.Session, w.feed.Counted = session, wire.Counts{}
	w.C.Asking = false
	w.C.SendLimits()
}

// outcomes returns those of the present session. Items that an earlier run has left count for the session that this one
// has begun with.
func (w *feedWork) outcomes() (ok, failed int64, fresh wire.Counts) {
	fresh = wire.Counts{OK: w.feed.Counted.OK, Failed: w.feed.Counted.Failed}
	for _, l := range w.C.Legs {
		if n := l.Counts(l.Reported); w.Counts(l, n) {
			fresh.OK, fresh.Failed = fresh.OK+n.Passed(), fresh.Failed+n.Failed
		}
	}
	return fresh.OK, fresh.Failed, fresh
}

// ofSession names the session whose items the rules count, of a feed that has had several.
func (w *feedWork) ofSession() string {
	if w.feed.Session > 1 {
		return fmt.Sprintf(" of session %d", w.feed.Session)
	}
	return ""
}

// Counts reports whether a leg's outcomes are of the present session.
func (w *feedWork) Counts(l *coordinate.OpenLeg, n wire.Counts) bool {
	if w.handles[l.Number] != nil {
		return n.Session == w.feed.Session
	}
	return w.feed.Session == w.feed.Began
}

// ended takes the outcomes of a leg that has ended.
func (w *feedWork) ended(l *coordinate.OpenLeg, r wire.LegResult) {
	n := r.Counted
	if leg := w.handles[l.Number]; leg != nil {
		w.free(leg, r.Freed)
	} else {
		n = wire.Counts{OK: r.Totals.OK, Failed: r.Totals.Failed}
		w.feed.Earlier.Done += n.OK + n.Failed
	}
	if w.Counts(l, n) {
		w.feed.Counted.OK += n.OK
		w.feed.Counted.Failed += n.Failed
	}
	delete(w.handles, l.Number)
}

// earlierDone returns how many items of earlier runs are done, as far as is known: batch by batch of the leg inside the
// job, and of the others when they end.
func (w *feedWork) earlierDone() int64 {
	done := w.feed.Earlier.Done
	if w.Inside != nil {
		done += w.Inside.Sofar().Totals.Done()
	}
	return min(done, w.feed.Earlier.Items)
}

func (w *feedWork) earlierLeft() int { return int(w.feed.Earlier.Items - w.earlierDone()) }

// progressed has the leg that takes items know of those of earlier runs that are done.
func (w *feedWork) progressed() {
	n := w.earlierDone() - w.feed.Earlier.Freed
	if n <= 0 || w.feed.Open == 0 || w.C.Ending() {
		return
	}
	w.feed.Earlier.Freed += n
	w.feed.Freed.Items += int(n)
	w.sendFreed()
}

// legFreed takes note of what a sealed leg has freed.
func (w *feedWork) legFreed(n wire.FreedNotice) {
	if leg := w.handles[n.Leg]; leg != nil {
		w.free(leg, n.Total)
	}
}

// free counts what a sealed leg has freed. Its reports may come late, or in any order: the last one comes with its end.
func (w *feedWork) free(leg *feedHandle, total wire.Freed) {
	if more := leg.freed.Grow(total); more != (wire.Freed{}) {
		w.feed.Freed.Add(more)
		w.sendFreed()
	}
}

// sendFreed sends the leg that takes items what has been freed. When the next leg takes items, opened sends it there.
func (w *feedWork) sendFreed() {
	if leg := w.handles[w.feed.Open]; leg != nil && w.feed.Freed != (wire.Freed{}) {
		leg.Signal(wire.SignalAllFreed, w.feed.Freed)
	}
}

// beginSession begins a session that a reset has begun, the next one if it is 0. It returns how many items it has
// discarded. The rules that count failures begin anew.
func (l *feedLeg) beginSession(session int64) int64 {
	before := l.intake.Session()
	discarded := l.intake.Reset(session, workflow.Now(l.ctx))
	if l.intake.Session() != before {
		l.Recount(coordinate.HopelessItems)
	}
	return discarded
}

// Count counts the outcomes of items, for the rules that count them by session.
func (l *feedLeg) Count(session, ok, failed int64) {
	l.counted = l.tally()
	if session == l.counted.Session {
		l.counted.OK += ok
		l.counted.Failed += failed
	}
}

// tally returns how many items of the present session have succeeded and failed in this leg.
func (l *feedLeg) tally() wire.Counts {
	if session := l.intake.Session(); l.counted.Session != session {
		return wire.Counts{Leg: l.in.Number, Session: session}
	}
	return l.counted
}

// stallAfter is how long nothing may finish of a feed that has unfinished items, before it is reported as stalled.
const stallAfter = 30 * time.Second

// stalled notes that nothing finishes, or that something does again.
func (w *feedWork) stalled(n wire.StalledNotice) {
	if n.Leg != w.feed.Open || n.At.Before(w.feed.StallSeen) {
		return // another leg watches by now, or the notice was overtaken
	}
	w.feed.Stalled, w.feed.StallSeen = n.Since, n.At
	if n.Feed != nil {
		workflow.GetLogger(w.C.Ctx).Warn("the feed is stalled: none of its unfinished items has finished for a while",
			"job", w.C.Spec().Name, "since", n.Feed.StalledSince, "report", *n.Feed)
	}
	w.C.WakeUp()
}

// watchStalls reports to the job when nothing finishes for stallAfter although items are unfinished (F10), and when
// something does again. The leg that has taken items last watches over all legs, because it knows what the others free.
// It has one timer at a time, which is as long as the feed may be without an outcome: five events in 30 s at most.
func (l *feedLeg) watchStalls(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return !l.unfinishedSince().IsZero() })
		since := l.unfinishedSince()
		if left := since.Add(stallAfter).Sub(workflow.Now(ctx)); left > 0 {
			_ = workflow.NewTimer(ctx, left).Get(ctx, nil)
			continue
		}
		l.noteStall(since)
		_ = workflow.Await(ctx, func() bool { return !l.unfinishedSince().Equal(since) })
		l.noteStall(time.Time{})
	}
}

// unfinishedSince is since when unfinished items have waited in vain for an outcome of any of them; zero: there are
// none, another leg watches over them, or the feed is paused.
func (l *feedLeg) unfinishedSince() time.Time {
	since := l.intake.Since()
	switch {
	case !l.intake.Latest() || l.over() || since.IsZero() || l.Paused():
		return time.Time{}
	case since.Before(l.WentOn()):
		return l.WentOn()
	}
	return since
}

// noteStall reports that nothing has finished since then; zero: something has, or nothing is left.
func (l *feedLeg) noteStall(since time.Time) {
	l.stalled = since
	notice := wire.StalledNotice{Leg: l.in.Number, Since: since, At: workflow.Now(l.ctx)}
	if !since.IsZero() {
		notice.Feed = l.progress().Feed
	}
	l.link.Signal(wire.SignalStalled, notice)
	l.describe()
}
