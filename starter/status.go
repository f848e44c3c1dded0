package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

func newStatus(p *Program) *cobra.Command {
	o := &asking{}
	cmd := &cobra.Command{
		Use:   "status JOB",
		Short: "Show the state of a job",
		Args:  jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.connection.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				report, silent := reportOf(ctx, p, client, args[0])
				if silent != nil && (report.Job == "" || !wraps[*unansweredError](silent)) {
					return silent
				}
				var running []jobs.RunningBatch
				if !report.State.Final() {
					var err error
					if running, err = client.Get(args[0]).Running(ctx); err != nil {
						return errors.Join(err, silent)
					}
				}
				if o.json {
					return errors.Join(printJSON(p.Stdout, page.Status{Report: report, Running: running}), silent)
				}
				if !report.State.Final() && silent == nil {
					pools := poolsOf(ctx, client, report.Job, report.Pool)
					notes := newProgress(p.Stderr, false, false)
					noteUnserved(ctx, p, client, notes, pools...)
					notePin(ctx, client, notes, report, running)
				}
				// Of a job that does not answer these are the last numbers that are known.
				return errors.Join(printReport(p, report, running), silent)
			})
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

const (
	// shownRunning is how many of the batches in hand are shown, the oldest ones.
	shownRunning = 20
	// shownWorkers is how many workers are shown, the busiest ones.
	shownWorkers = 20
)

// printHow prints a job's speed, its time left and its settings.
func printHow(row rows, r job.Report) {
	if speed := r.Speed(time.Now()); speed.Items > 0 {
		text := fmt.Sprintf("%s items/s on average", text.Rate(speed.Items))
		if left, ok := r.TimeLeft(speed); ok {
			text += fmt.Sprintf(", about %v left", left.Round(time.Second))
		}
		row("speed", "%s", text)
	}
	if r.PausedFor > 0 {
		row("paused", "for %v before", roundTime(r.PausedFor))
	}
	if t := r.Throttle; t != nil {
		row("slowed down", "%s, as the handler has asked %s times; it recovers automatically", t, text.Thousands(r.SlowDowns))
	}
	if new(refusals).see(r, time.Now()) {
		row("warning", "%s", onlyRefusals)
	}
	if o := r.Outage; o != nil {
		row("waiting", "%s", o)
	}
	if r.StopDeadline != nil {
		row("grace", "until %s", r.StopDeadline.Local().Format(time.DateTime))
	}
	if r.Attempts == 0 {
		return // it has not answered
	}
	row("limits", "grace %v, expiry %v, %s", r.Grace.Truncate(time.Millisecond), r.Expiry, text.Count(r.Attempts, "attempt"))
	for _, s := range page.SettingRows(r.Settings) {
		if s[0] == "window" {
			s[1] = limits.DescribeWindow(*r.Settings.Window, r.Window)
		}
		row(s[0], "%s", s[1])
	}
}

func describeHook(h job.HookRun) string {
	switch {
	case h.Skipped != "":
		return fmt.Sprintf("%s %s: not run, because %s", h.Stage, h.Hook, h.Skipped)
	case h.Error != nil:
		return fmt.Sprintf("%s %s: %s", h.Stage, h.Hook, firstLine(h.Error.Message))
	}
	return fmt.Sprintf("%s %s: ok", h.Stage, h.Hook)
}

// rows writes a line of a table.
type rows func(name, format string, args ...any)

// text writes a line with a text, unless that is empty.
func (row rows) text(name, text string) {
	if text != "" {
		row(name, "%s", text)
	}
}

// count writes a line that begins with a number of things, unless there are none.
func (row rows) count(name string, n int64, noun, more string) {
	if n > 0 {
		row(name, "%s%s", text.Count(n, noun), more)
	}
}

func tableRows(w io.Writer) rows {
	return func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
}

// indentedRows writes rows that stand below a line of their own.
func indentedRows(w io.Writer) rows {
	return func(name, format string, args ...any) { fmt.Fprintf(w, "  "+name+": "+format+"\n", args...) }
}

// printReport writes a report as a table of names and values.
func printReport(p *Program, r job.Report, running []jobs.RunningBatch) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	row := tableRows(w)
	row("job", "%s", r.Job)
	row("pool", "%s", r.Pool)
	row("state", "%s%s", r.State, pausedFor(r))
	row.text("reason", r.Reason)
	row.text("page", p.pageOf(r))
	if !r.AsOf.IsZero() {
		row("numbers of", "%s, %s ago, the last that are known", r.AsOf.Local().Format(time.DateTime), since(r.AsOf))
	}
	printCounts(row, r)
	printErrors(row, r)
	if !r.State.Final() {
		printHow(row, r)
	}
	for _, h := range r.Hooks {
		row("hook", "%s", describeHook(h))
	}
	printWhere(row, r, running)
	printLife(row, r)
	row("started", "%s", r.Started.Local().Format(time.DateTime))
	if r.Ended != nil {
		row("ended", "%s, after %v", r.Ended.Local().Format(time.DateTime), roundTime(r.Ended.Sub(r.Started)))
	}
	if o := r.Output; o != nil {
		if o.HasResults() {
			row("output", "%s%s, %s bytes, %s", cmp.Or(o.Location, "parts in "+r.Store), splitFiles(*o), text.Thousands(o.Bytes), o.Checksum)
		}
		row.text("errors", o.Errors)
		row.text("dropped", o.Dropped)
	}
	return w.Flush()
}

// rateColumns is how many columns the rate over time takes.
const rateColumns = 40

// printLife prints the rate over the whole life of the job, and its slowest batch.
func printLife(row rows, r job.Report) {
	if rates := r.Rates(rateColumns); text.Spark(rates) != "" {
		row("rate over time", "%s at most %s items/s", text.Spark(rates), text.Rate(slices.Max(rates)))
	}
	if len(r.Slowest) > 0 {
		s := r.Slowest[0]
		on := ""
		if s.Worker != "" {
			on = ", on " + s.Worker
		}
		row("slowest batch", "%s (%s from %s on): %v%s", text.Thousands(s.Number), text.Count(s.Items, "item"), text.Thousands(s.First), roundTime(s.Took), on)
	}
}

func printCounts(row rows, r job.Report) {
	found := "planned"
	if r.Feed != nil {
		found = "accepted"
	}
	planned := text.Thousands(r.Planned) + " " + found
	if !r.PlanDone {
		planned = text.Thousands(r.Planned) + " " + found + " so far"
	}
	if r.Loop != nil {
		planned = text.Thousands(r.Loop.Ticks) + " ticks run"
	}
	row("items", "%s, %s ok, %s failed, %s dropped", planned, text.Thousands(r.OK), text.Thousands(r.Failed), text.Thousands(r.Dropped))
	row.count("skipped", r.Skipped, "item", " whose file was there")
	if r.ReusedFrom != "" {
		row("reused", "%s", describeReuse(r))
	}
	row.count("equal", r.Equal, "item", " with the outcome of an equal one")
	if r.Lines > 0 {
		row("results", "%s, in the lists of the items", text.Thousands(r.Lines))
	}
	if r.InHand > 0 {
		row("in hand", "%s of the items done are in batches that run", text.Thousands(r.InHand))
	}
	row.count("left out", int64(r.LeftOut), "file", " among the inputs, because stint wrote them")
	row.count("old files", int64(r.OldFiles), "file", " among the inputs left out, because earlier runs have completed them")
	row.count("blank", r.Noticed.Blank, "line", " passed over: of jsonl and csv these are no items")
	for _, note := range r.Noticed.Notes {
		row("note", "%s", note)
	}
	if pct, ok := r.Percent(); ok {
		row("done", "%d%%", pct)
	}
	printFeed(row, r)
	printLoop(row, r)
	for _, stage := range r.Stages {
		row("stage "+stage.Stage, "%s", describeStage(r, stage))
	}
	row("batches", "%s done, %d in flight, %d waiting, %s", text.Thousands(r.Batches), r.InFlight, r.Waiting, text.Count(r.Legs, "leg"))
	switch {
	case r.Calls > 0 && r.CallMin == r.CallMax:
		row("calls", "%s, of %s each", text.Thousands(r.Calls), text.Count(r.CallMax, "item"))
	case r.Calls > 0:
		row("calls", "%s, of %s to %s items, %s on average", text.Thousands(r.Calls), text.Thousands(r.CallMin), text.Thousands(r.CallMax), text.Thousands(r.CallItems/r.Calls))
	}
	if r.CallTimes != "" {
		row("calls took", "%s", callTimes(r))
	}
	row("trouble", "%s, %s, %s, %s, %s", text.Count(r.Retries, "retry"), text.Count(r.Crashes, "crash"), text.Count(r.Expiries, "expiry"),
		text.Count(r.Isolations, "isolation"), text.Count(r.SlowDowns, "slow-down"))
	printUsage(row, r)
	row.count("repeated", r.Repeated, "item", " done when their batch had to end before an item in front of them")
}

// usedForNothing says what lost usage is.
const usedForNothing = "%s, at least: by batches that were lost with their worker, and have run again"

// printUsage prints what the job has used of services that are paid for.
func printUsage(row rows, r job.Report) {
	if !r.Usage.IsZero() {
		row("used", "%s", r.Usage)
	}
	if !r.LostUsage.IsZero() {
		row("used for nothing", usedForNothing, r.LostUsage)
	}
}

// describeStage describes the state of a stage of a pipeline.
func describeStage(r job.Report, s job.StageReport) string {
	t := fmt.Sprintf("%d batches waiting, %d in flight, %s items done, %s failed", s.Waiting, s.InFlight, text.Thousands(s.Done), text.Thousands(s.Failed))
	if items, share := r.StageSpeed(s, time.Now()); s.Done > 0 {
		t += fmt.Sprintf(", %s items/s, %.0f%% of the time", text.Rate(items), 100*share)
	}
	if !s.Usage.IsZero() {
		t += ", used " + s.Usage.String()
	}
	return t + ", pool " + s.Pool
}

func printFirstError(row rows, r job.Report) {
	if e := r.FirstError; e != nil {
		row("first failed item", "%s%s: %s", text.Thousands(e.Item), e.Label(), firstLine(e.Error.Message))
	}
}

func printErrors(row rows, r job.Report) {
	row.text("last retry", r.LastFailure)
	printFirstError(row, r)
	if r.Error != nil {
		row("error", "%s", r.Error.Message)
	}
	for _, e := range r.LaterErrors {
		row("later error", "%s", firstLine(e.Message))
	}
	if n := r.LaterErrorsOmitted; n > 0 {
		row("later errors", "and %d more", n)
	}
}

// slotCalls describes how many calls a slot makes at once, if that is known and more than one.
func slotCalls(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(", %s calls at once in a slot", text.Thousands(int64(n)))
}

// printWhere prints what each worker has done, what runs where, and what was still running.
func printWhere(row rows, r job.Report, running []jobs.RunningBatch) {
	row.text("pinned", describePin(r))
	if len(r.Versions) > 0 {
		row("versions", "%s", r.DescribeVersions())
	}
	for _, s := range r.Workers[:min(len(r.Workers), shownWorkers)] {
		row("worker", "%s: %s in %s, the last %s ago%s", s.Worker, text.Count(s.Items, "item"), text.Count(s.Batches, "batch"), since(s.Last), slotCalls(s.Concurrency))
	}
	for i, b := range running[:min(len(running), shownRunning)] {
		name := "running"
		if i == 0 {
			name = "oldest running"
		}
		row(name, "%s", describeRunning(b))
	}
	printLeft(row, r)
	printMany(row, "ended by the stop", r.Forced, r.ForcedOmitted)
}

// describePin says to which version of the handler a job is pinned.
func describePin(r job.Report) string {
	if r.Pinned == "" {
		return ""
	}
	return "to version " + r.Pinned + " of the handler"
}

// printLeft prints what a stop has left behind.
func printLeft(row rows, r job.Report) {
	printMany(row, "still running", r.Stragglers, r.StragglersOmitted)
}

// printMany prints a row for each of many, and how many others there are.
func printMany[T fmt.Stringer](row rows, name string, many []T, omitted int) {
	for _, one := range many {
		row(name, "%s", one)
	}
	if omitted > 0 {
		row(name, "%d more", omitted)
	}
}

// printFeed prints the part of a report that only feeds have.
func printFeed(row rows, r job.Report) {
	f := r.Feed
	if f == nil {
		return
	}
	row.count("discarded", r.Discarded, "item", ", by resets, before they were run")
	if f.Lost > 0 || len(f.Gone) > 0 {
		lost := text.Count(f.Lost, "item")
		if len(f.Gone) > 0 {
			lost += ", and what was put last to legs whose history was gone: " + strings.Join(f.Gone, ", ")
		}
		row("lost", "%s", lost)
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
	row.count("unclaimed", int64(f.Unclaimed), "result", " not taken by their clients; they are in the output")
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
		if l.Skips() {
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
	row.count("repeated", l.Repeated, "tick", ", which workers that were lost may have run before")
	row.text("waiting", l.Warning(r.Pool))
}

// loopLine returns the state of a loop in a line.
func loopLine(r job.Report) string {
	l := r.Loop
	s := text.Count(l.Ticks, "tick")
	if l.Every > 0 {
		s += fmt.Sprintf(", late %v at the median, %v at most, %s missed", l.LateMedian, l.LateMax.Round(queueUnit), text.Thousands(l.Missed))
		if l.Skips() {
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
