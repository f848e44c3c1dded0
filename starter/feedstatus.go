package starter

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// printFeed prints what a feed has beside what every job has.
func printFeed(row rows, r job.Report) {
	f := r.Feed
	if f == nil {
		return
	}
	if r.Discarded > 0 {
		row("discarded", "%s items, by resets, before they were run", text.Thousands(r.Discarded))
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
		row("batch size", "%s items on average", rate(float64(r.Done()-r.Resumed)/float64(r.Batches)))
	}
	if f.Unclaimed > 0 {
		row("unclaimed", "%s results that their clients have not taken in time; they are in the output", text.Thousands(int64(f.Unclaimed)))
	}
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
