package workflows

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// describe keeps the job's report where people who look at the workflow find it.
func (j *jobRun) describe() {
	r, err := j.report()
	if err != nil {
		return
	}
	workflow.SetCurrentDetails(j.ctx, jobDetails(r))
}

// jobDetails is a report in Markdown. It tells times as they were, so that it stays true unrefreshed.
func jobDetails(r job.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** · pool `%s`", r.State, r.Pool)
	if r.Reason != "" {
		fmt.Fprintf(&b, " · %s", r.Reason)
	}
	planned := job.Thousands(r.Planned)
	if !r.PlanDone {
		planned += " found so far"
	}
	fmt.Fprintf(&b, "\n\n- **items** %s of %s ok · %s failed · %s dropped\n", job.Thousands(r.OK), planned, job.Thousands(r.Failed), job.Thousands(r.Dropped))
	fmt.Fprintf(&b, "- **batches** %s done · %d in flight · %d waiting · %d legs\n", job.Thousands(r.Batches), r.InFlight, r.Waiting, r.Legs)
	fmt.Fprintf(&b, "- **trouble** %s retries · %s crashes · %s expiries · %s isolations\n",
		job.Thousands(r.Retries), job.Thousands(r.Crashes), job.Thousands(r.Expiries), job.Thousands(r.Isolations))
	if r.Error != nil {
		fmt.Fprintf(&b, "\n**Error** %s\n", r.Error.Message)
	}
	if e := r.FirstError; e != nil {
		fmt.Fprintf(&b, "\n**First failed item** %s (%s): %s\n", job.Thousands(e.Item), e.Kind, e.Error.Message)
	}
	if len(r.OpenLegs) > 0 {
		fmt.Fprintf(&b, "\nRunning legs: %s\n", strings.Join(r.OpenLegs, ", "))
	}
	for _, s := range r.Stragglers {
		fmt.Fprintf(&b, "\nStill running: %s, since %s\n", s.Batch, s.Since.UTC().Format("15:04:05"))
	}
	if o := r.Output; o != nil {
		fmt.Fprintf(&b, "\n**Output** %s · %s bytes · %s\n", cmp.Or(o.Location, "parts in "+r.Store), job.Thousands(o.Bytes), o.Checksum)
		if o.Errors != "" {
			fmt.Fprintf(&b, "\n**Errors** %s\n", o.Errors)
		}
	}
	return b.String()
}

// details tells people how a leg stands.
func (l *leg) details() string {
	t := l.result.Totals
	s := fmt.Sprintf("%s items ok · %s failed · %s batches done · %d in flight · %d waiting",
		job.Thousands(t.OK), job.Thousands(t.Failed), job.Thousands(t.Batches), len(l.flying), len(l.waiting)+l.delayed)
	if l.lastError != "" {
		s += "\n\nLast retry: " + l.lastError
	}
	return s
}
