package starter

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// shownGroups is how many groups of failures the end of a job shows.
const shownGroups = 10

// printFailures prints a job's failures by type and message, with one example each.
func printFailures(w io.Writer, r job.Report) {
	if r.Failed < 2 || len(r.Failures) == 0 {
		return
	}
	fmt.Fprintln(w, "  failures by type and message, each with its first item:")
	printGroups(w, "    ", r.Failures)
}

// printGroups prints the largest groups, and how many failures are in none of these.
func printGroups(w io.Writer, indent string, groups []job.FailureGroup) {
	width := len(text.Thousands(groups[0].Count))
	others := int64(0)
	for i, g := range groups {
		if i >= shownGroups || g.Kind == "" {
			others += g.Count
			continue
		}
		fmt.Fprintf(w, "%s%*s × %s\n", indent, width, text.Thousands(g.Count), g)
	}
	if others > 0 {
		fmt.Fprintf(w, "%s%*s × others\n", indent, width, text.Thousands(others))
	}
}

// callTimes says how long the calls of the handler took: "p50 12ms, p95 40ms, max 1.34s"; or, of one call, "1.34s".
func callTimes(r job.Report) string {
	t := r.CallTimes
	if r.Calls == 1 {
		return shortTime(t.Longest(), 1000).String()
	}
	return fmt.Sprintf("p50 %s, p95 %s, max %s", shortTime(t.Percentile(50), 100), shortTime(t.Percentile(95), 100), shortTime(t.Longest(), 1000))
}

// shortTime rounds a duration to as many digits as most has zeros.
func shortTime(d, most time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= most {
		unit *= 10
	}
	return d.Round(unit)
}

// errorsWhere says where the error records are if a job has no errors file. Only a server can be asked for those of a
// failed job: `stint run` has none once it has ended.
func errorsWhere(r job.Report, server bool) string {
	switch {
	case r.State == job.Completed:
		return "not kept (--on-error drop)"
	case r.State == job.Failed && server:
		return "in the store: 'stint errors " + r.Job + "' prints them"
	}
	return "in the store: the file is written when the job has completed"
}

// printNoticed prints what reading the inputs has shown.
func printNoticed(w io.Writer, indent string, n job.Noticed) {
	if n.Blank > 0 {
		fmt.Fprintf(w, "%s%s passed over: of jsonl and csv these are no items\n", indent, text.Count(n.Blank, "blank line"))
	}
	for _, note := range n.Notes {
		fmt.Fprintf(w, "%s%s\n", indent, note)
	}
}

// summary describes in a few lines how a job has ended. Files below dir are named relative to it.
func summary(w io.Writer, dir string, r job.Report, took time.Duration, server bool) {
	speed := ""
	if fresh := cmp.Or(r.Redriven, r.Done()) - r.Resumed; fresh > 0 && took > 0 {
		speed = fmt.Sprintf(", %s items/s", text.Rate(float64(fresh)/took.Seconds()))
	}
	fmt.Fprintf(w, "%s: %s: %s ok, %s in %s%s\n", r.Job, r.State, text.Count(r.OK, "item"), counts(r), roundTime(took), speed)
	if r.OnlySums() {
		fmt.Fprintf(w, "  %s\n", onlySums)
	}
	count := func(n int64, noun, what string) {
		if n > 0 {
			fmt.Fprintf(w, "  %s %s\n", text.Count(n, noun), what)
		}
	}
	count(r.Dropped, "item", "without a result")
	count(r.Skipped, "item", "skipped, because the file was there")
	if r.ReusedFrom != "" {
		fmt.Fprintf(w, "  reused %s\n", describeReuse(r))
	}
	count(r.Equal, "item", "with the outcome of an equal one")
	if r.Lines > 0 {
		fmt.Fprintf(w, "  %s\n", text.Count(r.Lines, "result line"))
	}
	count(int64(r.LeftOut), "file", "among the inputs left out, because stint wrote them")
	count(int64(r.OldFiles), "file", "among the inputs left out, because earlier runs have completed them"+noNewFiles(r))
	printNoticed(w, "  ", r.Noticed)
	count(r.Redriven, "failed item", "run again")
	count(r.Resumed, "item", "done by earlier runs")
	if n := r.Mixed(); n > 0 {
		fmt.Fprintf(w, "  %s done by another version of the handler than the others: %s\n", text.Count(n, "item"), r.DescribeVersions())
	}
	row := indentedRows(w)
	if r.CallTimes != "" {
		row(text.Count(r.Calls, "call"), "%s", callTimes(r))
	}
	printFirstError(row, r)
	printFailures(w, r)
	if r.State == job.Stopped {
		row.text("reason", r.Reason)
	}
	if !r.LostUsage.IsZero() {
		row("used for nothing", usedForNothing, r.LostUsage)
	}
	if r.Error != nil {
		row("error", "%s", r.Error.Message)
	}
	for _, h := range r.Hooks {
		if h.Error != nil || h.Skipped != "" {
			row("hook", "%s", describeHook(h))
		}
	}
	if n := len(r.LaterErrors) + r.LaterErrorsOmitted; n > 0 {
		row("later errors", "%d, the first: %s", n, firstLine(r.LaterErrors[0].Message))
	}
	printLeft(row, r)
	printMany(row, "ended by the stop", r.Forced, r.ForcedOmitted)
	if o := r.Output; o != nil {
		if o.Location != "" {
			row("output", "%s%s", below(dir, o.Location), splitFiles(*o))
		}
		row.text("dropped", below(dir, o.Dropped))
	}
	switch {
	case r.Output != nil && r.Output.Errors != "":
		row("errors", "%s", below(dir, r.Output.Errors))
	case r.Failed > 0:
		row("errors", "%s", errorsWhere(r, server))
	}
}

// splitFiles says into how many files the results are split; "" if they are not.
func splitFiles(o job.Output) string {
	if o.Split == "" {
		return ""
	}
	return fmt.Sprintf(", %s by %s", text.Count(o.Files, "file"), o.Split)
}

// noNewFiles says that a job had nothing to run, because no file is new.
func noNewFiles(r job.Report) string {
	if r.PlanDone && r.Planned == 0 {
		return ": nothing is new"
	}
	return ""
}
