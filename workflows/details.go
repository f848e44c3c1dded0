package workflows

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// describe keeps the job's report where people who look at the workflow find it.
func (j *jobRun) describe() {
	r, err := j.report()
	if err != nil {
		return
	}
	workflow.SetCurrentDetails(j.ctx, jobDetails(r, workflow.Now(j.ctx)))
}

// jobDetails is a report in Markdown, of the time now. It tells times as they were, so that it stays
// true unrefreshed.
func jobDetails(r job.Report, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** · pool `%s`", r.State, r.Pool)
	if r.Reason != "" {
		fmt.Fprintf(&b, " · %s", r.Reason)
	}
	if r.Unserved {
		fmt.Fprintf(&b, "\n\n**no worker serves pool %s**: start one with `stint worker --pool %s --exec COMMAND`; the job goes on then", r.Pool, r.Pool)
	}
	planned := job.Thousands(r.Planned)
	if !r.PlanDone {
		planned += " found so far"
	}
	fmt.Fprintf(&b, "\n\n- **items** %s of %s ok · %s failed · %s dropped\n", job.Thousands(r.OK), planned, job.Thousands(r.Failed), job.Thousands(r.Dropped))
	fmt.Fprintf(&b, "- **batches** %s done · %d in flight · %d waiting · %d legs\n", job.Thousands(r.Batches), r.InFlight, r.Waiting, r.Legs)
	fmt.Fprintf(&b, "- **trouble** %s retries · %s crashes · %s expiries · %s isolations\n",
		job.Thousands(r.Retries), job.Thousands(r.Crashes), job.Thousands(r.Expiries), job.Thousands(r.Isolations))
	describeSpeed(&b, r, now)
	if t := r.Throttle; t != nil {
		fmt.Fprintf(&b, "- **slowed down** %s (%s wishes of the handler); it comes back by itself\n", t, job.Thousands(r.SlowDowns))
	}
	if r.Error != nil {
		fmt.Fprintf(&b, "\n**Error** %s\n", r.Error.Message)
	}
	if e := r.FirstError; e != nil {
		fmt.Fprintf(&b, "\n**First failed item** %s (%s): %s\n", job.Thousands(e.Item), e.Kind, e.Error.Message)
	}
	if r.Oldest != "" {
		fmt.Fprintf(&b, "\nOldest in flight: %s\n", r.Oldest)
	}
	if len(r.OpenLegs) > 0 {
		fmt.Fprintf(&b, "\nRunning legs: %s\n", strings.Join(r.OpenLegs, ", "))
	}
	describeEnds(&b, r)
	listWorkers(&b, r.Workers)
	if o := r.Output; o != nil {
		fmt.Fprintf(&b, "\n**Output** %s · %s bytes · %s\n", cmp.Or(o.Location, "parts in "+r.Store), job.Thousands(o.Bytes), o.Checksum)
		if o.Errors != "" {
			fmt.Fprintf(&b, "\n**Errors** %s\n", o.Errors)
		}
	}
	return cutTo(b.String(), maxDetails)
}

// describeEnds tells what has not ended well.
func describeEnds(b *strings.Builder, r job.Report) {
	for _, s := range r.Stragglers[:min(len(r.Stragglers), shownWorkers)] {
		fmt.Fprintf(b, "\nStill running: %s\n", s)
	}
	if n := len(r.Stragglers) - shownWorkers; n > 0 {
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
	// maxDetails, in bytes, is just less than what Temporal takes.
	maxDetails = 19_900
)

func listWorkers(b *strings.Builder, workers []job.WorkerShare) {
	if len(workers) == 0 {
		return
	}
	b.WriteString("\n**Workers**\n\n")
	for _, w := range workers[:min(len(workers), shownWorkers)] {
		fmt.Fprintf(b, "- `%s` %s items in %s batches, busy for %v, the last one until %s\n", w.Worker, job.Thousands(w.Items),
			job.Thousands(w.Batches), w.Busy.Round(time.Second), w.Last.UTC().Format(time.TimeOnly))
	}
	if n := len(workers) - shownWorkers; n > 0 {
		fmt.Fprintf(b, "- and %d more\n", n)
	}
}

// describeSpeed tells how fast the job has been by now, and how long the rest would take so.
func describeSpeed(b *strings.Builder, r job.Report, now time.Time) {
	took, done := now.Sub(r.Started), r.Done()-r.Resumed
	if r.State != job.Running || took < time.Second || done <= 0 {
		return
	}
	fmt.Fprintf(b, "- **speed** %s items a second on average until %s", job.Per(done, took), now.UTC().Format(time.TimeOnly))
	if r.PlanDone {
		left := time.Duration(float64(took) / float64(done) * float64(r.Planned-r.Done()))
		fmt.Fprintf(b, ", with about %v left", left.Round(time.Second))
	}
	b.WriteString("\n")
}

// oldest tells which batch has been given out for longest.
func (l *leg) oldest() string {
	if len(l.flying) == 0 {
		return ""
	}
	first := l.flying[0]
	for _, t := range l.flying {
		if t.started.Before(first.started) {
			first = t
		}
	}
	return fmt.Sprintf("%s, given out at %s", first.summary(), first.started.UTC().Format("15:04:05"))
}

// details tells people how a leg stands.
func (l *leg) details() string {
	t := l.result.Totals
	s := fmt.Sprintf("%s items ok · %s failed · %s batches done · %d in flight · %d waiting",
		job.Thousands(t.OK), job.Thousands(t.Failed), job.Thousands(t.Batches), len(l.flying), len(l.waiting)+l.delayed)
	if oldest := l.oldest(); oldest != "" {
		s += "\n\nOldest in flight: " + oldest
	}
	if l.lastError != "" {
		s += "\n\nLast retry: " + l.lastError
	}
	return s
}
