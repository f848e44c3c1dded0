// Package details describes a job in Markdown, for people who look at its workflow.
package details

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// unserved says that a pool has no workers.
func unserved(b *strings.Builder, pool string) {
	fmt.Fprintf(b, "\n\n**no worker serves pool %s**: start one with `stint worker --pool %s --allow ROOT --exec COMMAND`; the job continues then", pool, pool)
}

// Job returns a report in Markdown, at the time now, with numbers that were counted then, or at its AsOf. It gives
// times of day, not times since, so that it stays true when it is not refreshed.
func Job(r job.Report, now time.Time) string {
	var b strings.Builder
	summarize(&b, r, now)
	if r.Unserved {
		unserved(&b, r.Pool)
	}
	for _, pool := range r.UnservedPools {
		unserved(&b, pool)
	}
	fmt.Fprintf(&b, "\n\n- **items** %s of %s ok · %s failed · %s dropped\n", text.Thousands(r.OK), planned(r), text.Thousands(r.Failed), text.Thousands(r.Dropped))
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "- **skipped** %s whose file was there\n", text.Count(r.Skipped, "item"))
	}
	describeReuse(&b, r)
	if r.OldFiles > 0 {
		fmt.Fprintf(&b, "- **old files** %s left out, because earlier runs have completed them\n", text.Count(r.OldFiles, "file"))
	}
	fmt.Fprintf(&b, "- **batches** %s done%s · %s%s\n", text.Thousands(r.Batches), underWay(r), text.Count(r.Legs, "leg"), window(r))
	describeFeed(&b, r)
	describeLoop(&b, r)
	fmt.Fprintf(&b, "- **trouble** %s · %s · %s · %s\n",
		text.Count(r.Retries, "retry"), text.Count(r.Crashes, "crash"), text.Count(r.Expiries, "expiry"), text.Count(r.Isolations, "isolation"))
	describeSpeed(&b, r, now)
	if r.Pinned != "" {
		fmt.Fprintf(&b, "- **pinned** to version %s of the handler\n", r.Pinned)
	}
	if r.Mixed() > 0 {
		fmt.Fprintf(&b, "- **versions** of the handler: %s\n", r.DescribeVersions())
	}
	if spent := r.Spent(); !spent.IsZero() {
		fmt.Fprintf(&b, "- **used** %s\n", spent)
	}
	if t := r.Throttle; t != nil {
		fmt.Fprintf(&b, "- **slowed down** %s (%s requests of the handler); it recovers automatically\n", t, text.Thousands(r.SlowDowns))
	}
	if o := r.Outage; o != nil {
		fmt.Fprintf(&b, "- **waiting** %s\n", o)
	}
	if r.Error != nil {
		fmt.Fprintf(&b, "\n**Error** %s\n", r.Error.Message)
	}
	if e := r.FirstError; e != nil {
		fmt.Fprintf(&b, "\n**First failed item** %s%s: %s\n", text.Thousands(e.Item), e.Label(), e.Error.Message)
	}
	if r.Oldest != "" {
		fmt.Fprintf(&b, "\nOldest in flight: %s\n", r.Oldest)
	}
	describeStages(&b, r, now)
	if len(r.OpenLegs) > 0 {
		fmt.Fprintf(&b, "\nRunning legs: %s\n", strings.Join(r.OpenLegs, ", "))
	}
	describeEnds(&b, r)
	listWorkers(&b, r)
	if o := r.Output; o != nil {
		if o.HasResults() {
			fmt.Fprintf(&b, "\n**Output** %s · %s bytes · %s\n", cmp.Or(o.Location, "parts in "+r.Store), text.Thousands(o.Bytes), o.Checksum)
		}
		if o.Errors != "" {
			fmt.Fprintf(&b, "\n**Errors** %s\n", o.Errors)
		}
	}
	listFailures(&b, r)
	return text.Fit(b.String(), maxDetails)
}

// summarize says in one line how the job stands.
func summarize(b *strings.Builder, r job.Report, now time.Time) {
	fmt.Fprintf(b, "**%s** · %s of %s", r.State, text.Thousands(r.Done()), wholeOf(r))
	if percent, ok := r.Percent(); ok {
		fmt.Fprintf(b, " (%d%%)", percent)
	}
	fmt.Fprintf(b, " · %s failed", text.Thousands(r.Failed))
	if left, ok := r.TimeLeft(r.Speed(now)); ok && r.State == job.Running {
		fmt.Fprintf(b, " · about %v left", left.Round(time.Second))
	}
	if len(r.Stages) == 0 {
		fmt.Fprintf(b, " · pool `%s`", r.Pool)
	}
	if r.Reason != "" {
		fmt.Fprintf(b, " · %s", r.Reason)
	}
	if r.PausedSince != nil {
		fmt.Fprintf(b, " · **paused** since %s UTC", r.PausedSince.UTC().Format(time.DateTime))
	}
	if !r.State.Final() {
		fmt.Fprintf(b, "\n\nCounted at %s UTC. Items of batches that run are not counted yet; 'stint status' counts them.", cmp.Or(r.AsOf, now).UTC().Format(time.TimeOnly))
	}
}

// wholeOf says of how many items.
func wholeOf(r job.Report) string {
	if n, so, found := strings.Cut(planned(r), " "); found && r.Loop == nil {
		return n + " items " + so
	}
	if r.Loop != nil {
		return planned(r)
	}
	return planned(r) + " items"
}

// planned says how many items there are.
func planned(r job.Report) string {
	n := text.Thousands(r.Planned)
	switch {
	case r.PlanDone:
		return n
	case r.Feed != nil:
		return n + " accepted so far"
	case r.Loop != nil:
		return text.Thousands(r.Loop.Ticks) + " ticks"
	}
	return n + " found so far"
}

// describeFeed adds what the job itself knows of a feed. What waits and what runs is in the details of its legs.
func describeFeed(b *strings.Builder, r job.Report) {
	f := r.Feed
	if f == nil {
		return
	}
	fmt.Fprintf(b, "- **feed** session %d · %s items discarded · capacity %s items and %s bytes · %d segments; what waits and runs is in the details of the running legs\n",
		f.Session, text.Thousands(r.Discarded), text.Thousands(int64(f.Capacity)), text.Thousands(f.CapacityBytes), f.Segments)
	if !f.StalledSince.IsZero() {
		fmt.Fprintf(b, "- **stalled** items are unfinished, and none has finished since %s UTC\n", f.StalledSince.UTC().Format(time.TimeOnly))
	}
	if f.Earlier > 0 {
		fmt.Fprintf(b, "- **from before** %s items that were accepted before the feed was resumed are unfinished\n", text.Thousands(int64(f.Earlier)))
	}
}

// describeLoop adds what the job itself knows of a loop: where its slots stood when their last executions ended, up to
// an hour ago.
func describeLoop(b *strings.Builder, r job.Report) {
	l := r.Loop
	if l == nil {
		return
	}
	pace := "back to back"
	if l.Every > 0 {
		pace = "every " + l.Every.String()
	}
	fmt.Fprintf(b, "- **loop** %d slots %s · %s ticks · %s missed · %s skipped · %s repeated · late %v at the median, %v at most; what runs now is in the heartbeats of the running legs\n",
		l.Slots, pace, text.Thousands(l.Ticks), text.Thousands(l.Missed), text.Thousands(l.Skipped), text.Thousands(l.Repeated), l.LateMedian, l.LateMax.Round(time.Microsecond))
}

// describeStages lists what the job itself knows of the stages of a pipeline: legs that run are counted when they end.
func describeStages(b *strings.Builder, r job.Report, now time.Time) {
	if len(r.Stages) == 0 {
		return
	}
	b.WriteString("\n**Stages**\n\n")
	for _, s := range r.Stages {
		fmt.Fprintf(b, "- **%s**%s %s items done · %s failed", s.Stage, otherPool(s), text.Thousands(s.Done), text.Thousands(s.Failed))
		if s.Waiting+s.InFlight > 0 {
			fmt.Fprintf(b, " · %d batches waiting · %d in flight", s.Waiting, s.InFlight)
		}
		if s.Window > 0 {
			fmt.Fprintf(b, " · window %d", s.Window)
		}
		if items, share := r.StageSpeed(s, now); s.Done > 0 {
			fmt.Fprintf(b, " · %s a second · %.0f%% of the time", text.Rate(items), 100*share)
		}
		b.WriteString("\n")
	}
	if len(r.OpenLegs) > 0 {
		b.WriteString("- the stages of the running legs are in their own details\n")
	}
}

// otherPool names the pool of a stage that is not called after it.
func otherPool(s job.StageReport) string {
	if s.Stage == s.Pool || strings.HasSuffix(s.Stage, "."+s.Pool) {
		return ""
	}
	return fmt.Sprintf(" (pool `%s`)", s.Pool)
}

// underWay says how many batches have not ended. The job itself knows that only if no leg of another workflow runs.
func underWay(r job.Report) string {
	if len(r.OpenLegs) > 0 {
		return ""
	}
	return fmt.Sprintf(" · %d in flight · %d waiting", r.InFlight, r.Waiting)
}

// window describes the window in force.
func window(r job.Report) string {
	if r.Settings.Window == nil {
		return ""
	}
	return " · window " + limits.DescribeWindow(*r.Settings.Window, r.Window)
}

// listFailures lists the groups of failed items.
func listFailures(b *strings.Builder, r job.Report) {
	if len(r.Failures) == 0 {
		return
	}
	b.WriteString("\n**Failures** by type and message, each with its first item\n\n")
	for _, g := range r.Failures {
		fmt.Fprintf(b, "- %s × %s\n", text.Thousands(g.Count), g)
	}
}

// describeEnds lists what has not ended well.
func describeEnds(b *strings.Builder, r job.Report) {
	for _, s := range r.Stragglers[:min(len(r.Stragglers), shownWorkers)] {
		fmt.Fprintf(b, "\nStill running: %s\n", s)
	}
	if n := len(r.Stragglers) - shownWorkers + r.StragglersOmitted; n > 0 {
		fmt.Fprintf(b, "\nand %d more\n", n)
	}
	for _, f := range r.Forced[:min(len(r.Forced), shownWorkers)] {
		fmt.Fprintf(b, "\nEnded by the stop: %s\n", f)
	}
	if n := len(r.Forced) + r.ForcedOmitted - shownWorkers; n > 0 {
		fmt.Fprintf(b, "\nand %d more\n", n)
	}
	for _, h := range r.Hooks {
		switch {
		case h.Error != nil:
			fmt.Fprintf(b, "\n%s hook %s failed: %s\n", h.Stage, h.Hook, h.Error.Message)
		case h.Skipped != "":
			fmt.Fprintf(b, "\n%s hook %s was not run: %s\n", h.Stage, h.Hook, h.Skipped)
		}
	}
	if n := len(r.LaterErrors) + r.LaterErrorsOmitted; n > 0 {
		fmt.Fprintf(b, "\n%d later errors, the first: %s\n", n, r.LaterErrors[0].Message)
	}
}

const (
	// shownWorkers is how many workers are shown, the busiest ones, and how many stragglers.
	shownWorkers = 10
	// maxDetails, in bytes, is just below Temporal's limit.
	maxDetails = 19_900
)

// listWorkers lists what workers have done, as far as the job knows: legs that run say it when they end.
func listWorkers(b *strings.Builder, r job.Report) {
	workers := r.Workers
	if len(workers) == 0 {
		return
	}
	b.WriteString("\n**Workers**")
	if len(r.OpenLegs) > 0 {
		b.WriteString(", without what they have done in the running legs")
	}
	b.WriteString("\n\n")
	for _, w := range workers[:min(len(workers), shownWorkers)] {
		fmt.Fprintf(b, "- `%s` %s items in %s batches, busy for %v, the last one until %s\n", w.Worker, text.Thousands(w.Items),
			text.Thousands(w.Batches), w.Busy.Round(time.Second), w.Last.UTC().Format(time.TimeOnly))
	}
	if n := len(workers) - shownWorkers; n > 0 {
		fmt.Fprintf(b, "- and %d more\n", n)
	}
}

// describeSpeed says how fast the job has been so far, and how long the rest takes at that speed.
func describeSpeed(b *strings.Builder, r job.Report, now time.Time) {
	took, speed := now.Sub(r.Started), r.Speed(now)
	if r.State != job.Running || took < time.Second || speed.Items == 0 {
		return
	}
	fmt.Fprintf(b, "- **speed** %s items a second on average until %s", text.Rate(speed.Items), now.UTC().Format(time.TimeOnly))
	if left, ok := r.TimeLeft(speed); ok {
		fmt.Fprintf(b, ", with about %v left", left.Round(time.Second))
	}
	b.WriteString("\n")
}
