package feed

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// stallAfter is how long nothing may finish of a feed that has unfinished items, before it is reported as stalled.
const stallAfter = 30 * time.Second

// stalled notes that nothing finishes, or that something does again.
func (w *feedWork) stalled(n wire.StalledNotice) {
	if n.Leg != w.feed.Open || n.At.Before(w.feed.StallSeen) {
		return // another leg watches by now, or the notice was overtaken
	}
	w.feed.Stalled, w.feed.StallSeen = n.Since, n.At
	if n.Feed != nil {
		w.warn(*n.Feed)
	}
	w.C.WakeUp()
}

// warn writes to the log of the worker that coordinates how a stalled feed stands.
func (w *feedWork) warn(f job.FeedReport) {
	workflow.GetLogger(w.C.Ctx).Warn("the feed is stalled: none of its unfinished items has finished for a while",
		"job", w.C.Spec().Name, "since", f.StalledSince, "report", f)
}

// watchStalls reports to the job when nothing finishes for stallAfter although items are unfinished (F10), and when something does
// again. The leg that has taken items last watches over all legs, because it knows what the others free. It has one timer at a time, which
// is as long as the feed may be without an outcome: five events in 30 s at most.
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

// unfinishedSince is since when unfinished items have waited in vain for an outcome of any of them; zero: there are none, or another
// leg watches over them.
func (l *feedLeg) unfinishedSince() time.Time {
	if !l.intake.Latest() || l.over() {
		return time.Time{}
	}
	return l.intake.Since()
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
