package starter

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// printFeed prints the part of a report that only feeds have.
func printFeed(row rows, r job.Report) {
	f := r.Feed
	if f == nil {
		return
	}
	if r.Discarded > 0 {
		row("discarded", "%s, by resets, before they were run", text.Count(r.Discarded, "item"))
	}
	if f.Lost > 0 || len(f.Gone) > 0 {
		row("lost", "%s", lost(f))
	}
	if r.State.Final() {
		row("feed", "%d sessions, %d segments", f.Session, f.Segments)
		return
	}
	row("feed", "session %d, %s, %d segments", f.Session, fill(f), f.Segments)
	if !f.StalledSince.IsZero() {
		row("stalled", "no item has finished for %s", since(f.StalledSince))
	}
	backlog := fmt.Sprintf("%s of %s items and %s of %s bytes are unfinished", text.Thousands(int64(f.Backlog)), text.Thousands(int64(f.Capacity)),
		text.Thousands(f.BacklogBytes), text.Thousands(f.CapacityBytes))
	if f.Backlog > 0 {
		backlog += fmt.Sprintf(", %s of them wait for a batch", text.Thousands(int64(f.Waiting)))
	}
	if f.Earlier > 0 {
		backlog += fmt.Sprintf(", %s of them were accepted before the feed was resumed", text.Thousands(int64(f.Earlier)))
	}
	if !f.OldestSince.IsZero() {
		backlog += fmt.Sprintf(", the oldest one was accepted %s ago", since(f.OldestSince))
	}
	row("backlog", "%s", backlog)
	if f.QueueMax > 0 {
		row("in queue", "%v on average, %v at most, before their batch", f.QueueMean.Round(queueUnit), f.QueueMax.Round(queueUnit))
	}
	if r.Batches > 0 {
		row("batch size", "%s items on average", text.Rate(float64(r.Done()-r.Resumed)/float64(r.Batches)))
	}
	if f.Unclaimed > 0 {
		row("unclaimed", "%s not taken by their clients; they are in the output", text.Count(f.Unclaimed, "result"))
	}
}

// lost says what a resumed feed has lost, and of which legs.
func lost(f *job.FeedReport) string {
	what := text.Count(f.Lost, "item")
	if len(f.Gone) > 0 {
		what += ", and what was put last to legs whose history was gone: " + strings.Join(f.Gone, ", ")
	}
	return what
}

// printLoop prints the part of a report that only loops have.
func printLoop(row rows, r job.Report) {
	l := r.Loop
	if l == nil {
		return
	}
	pace := "back to back"
	if l.Every > 0 {
		pace = fmt.Sprintf("every %v, missed ticks are made up", l.Every)
		if l.CatchUp == job.CatchUpSkip {
			pace = fmt.Sprintf("every %v, missed ticks are skipped", l.Every)
		}
	}
	row("loop", "%s, %s", text.Count(l.Slots, "slot"), pace)
	if !r.State.Final() {
		row("running", "%d of %s", l.Running, text.Count(l.Slots, "slot"))
	}
	if l.Every > 0 && l.Ticks > 0 {
		row("late", "%v at the median, %v on average, %v at most", l.LateMedian, l.LateMean.Round(queueUnit), l.LateMax.Round(queueUnit))
		row("missed", "%s made up, %s skipped", text.Thousands(l.Missed), text.Thousands(l.Skipped))
	}
	if l.Repeated > 0 {
		row("repeated", "%s, which workers that were lost may have run before", text.Count(l.Repeated, "tick"))
	}
	if warning := l.Warning(r.Pool); warning != "" {
		row("waiting", "%s", warning)
	}
}

// loopLine is the state of a loop in a line.
func loopLine(r job.Report) string {
	l := r.Loop
	s := text.Count(l.Ticks, "tick")
	if l.Every > 0 {
		s += fmt.Sprintf(", late %v at the median, %v at most, %s missed", l.LateMedian, l.LateMax.Round(queueUnit), text.Thousands(l.Missed))
		if l.CatchUp == job.CatchUpSkip {
			s += fmt.Sprintf(", %s skipped", text.Thousands(l.Skipped))
		}
	}
	if l.Repeated > 0 {
		s += fmt.Sprintf(", %s repeated", text.Thousands(l.Repeated))
	}
	return s
}

// queueUnit is what times in queue are rounded to.
const queueUnit = 100 * time.Microsecond

// fill says in a word how much of its capacity a feed has taken.
func fill(f *job.FeedReport) string {
	switch {
	case f.Full():
		return "full"
	case f.Idle():
		return "idle"
	}
	return "busy"
}
