package dispatch

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Sofar returns the outcomes of the leg, those of its earlier runs included, without its life (see Result).
func (d *Dispatcher) Sofar() wire.LegOutcomes { return d.sofar }

// Progress returns what the queries and the report show.
func (d *Dispatcher) Progress() job.Progress {
	p := job.Progress{
		Outcomes: d.sofar.Outcomes, Waiting: d.waiting() + len(d.delayed), InFlight: len(d.flying),
		LastFailure: d.lastError, Oldest: d.oldest(), Outage: d.sofar.Outage,
	}
	p.Stages = d.stageReports()
	return p
}

// Flying returns those of the executions that are in flight: the others have ended here, or are not the dispatcher's.
func (d *Dispatcher) Flying(executions []string) []string {
	var flying []string
	for _, t := range d.flying {
		if id := t.activityID(); slices.Contains(executions, id) {
			flying = append(flying, id)
		}
	}
	return flying
}

// ProgressWith is Progress with the leg's life, and which of the executions are in flight.
func (d *Dispatcher) ProgressWith(executions []string) job.Progress {
	p := d.Progress()
	p.Life = d.Life()
	p.Flying = d.Flying(executions)
	return p
}

// oldest describes the batch that has been in flight for longest; "" if none is.
func (d *Dispatcher) oldest() string {
	if len(d.flying) == 0 {
		return ""
	}
	first := d.flying[0]
	for _, t := range d.flying {
		if t.started.Before(first.started) {
			first = t
		}
	}
	return fmt.Sprintf("%s, dispatched at %s", first.summary(), first.started.UTC().Format("15:04:05"))
}

// Details describes a leg for people.
func (d *Dispatcher) Details() string {
	t := d.sofar.Totals
	s := fmt.Sprintf("%s items ok · %s failed · %s batches done · %d in flight · %d waiting",
		text.Thousands(t.OK), text.Thousands(t.Failed), text.Thousands(t.Batches), len(d.flying), d.waiting()+len(d.delayed))
	for _, stage := range d.stageReports() {
		s += "\n\n" + stage.String()
	}
	if oldest := d.oldest(); oldest != "" {
		s += "\n\nOldest in flight: " + oldest
	}
	if d.Paused() {
		s += "\n\n**Paused**: nothing is dispatched"
	}
	if d.sofar.Outage != nil {
		s += "\n\nWaiting " + d.sofar.Outage.String()
	}
	if d.lastError != "" {
		s += "\n\nLast retry: " + d.lastError
	}
	return s
}

// step returns the index of the step of a pipeline that the task is for.
func (t *task) step() int {
	if t.From == nil {
		return 0
	}
	return t.From.Step
}

// look has the gate know what is under way.
func (d *Dispatcher) look() {
	if d.Gate == nil {
		return
	}
	d.Gate.Begin(d.window.places, d.rate.limits.Stages)
	for _, t := range d.flying {
		d.Gate.Flies(t.step())
	}
	for i := range d.returned {
		d.Gate.Returned(d.returned[i].step())
	}
	for _, t := range d.delayed {
		d.Gate.Returned(t.step())
	}
}

// held reports whether a task has to wait for others of its pipeline.
func (d *Dispatcher) held(t *task) bool { return d.Gate != nil && !d.Gate.Free(t.step()) }

// countStage counts what an execution has done in its stage.
func (d *Dispatcher) countStage(t task, r wire.ProcessResult) {
	if t.Stage == "" || r.Carried.Items == r.Entry.Count { // of a gathering step, which belongs to no stage
		return
	}
	i := slices.IndexFunc(d.sofar.Stages, func(s job.StageReport) bool { return s.Stage == t.Stage })
	if i < 0 {
		return
	}
	d.sofar.Stages = slices.Clone(d.sofar.Stages) // the result of an earlier run has it, too
	s := &d.sofar.Stages[i]
	s.Batches++
	s.Done += r.Entry.Count - r.Carried.Items
	s.Failed += r.Entry.Failed - r.Carried.Failed
	s.Busy += r.Totals.Busy
	s.Usage.Add(r.Totals.Usage)
}

// stageUsed counts what an execution without outcomes has used in its stage.
func (d *Dispatcher) stageUsed(t task, used job.Usage) {
	i := slices.IndexFunc(d.sofar.Stages, func(s job.StageReport) bool { return s.Stage == t.Stage })
	if i < 0 || used.IsZero() {
		return
	}
	d.sofar.Stages = slices.Clone(d.sofar.Stages) // the result of an earlier run has it, too
	d.sofar.Stages[i].Usage.Add(used)
}

// stageReports returns the stages with what waits and runs now.
func (d *Dispatcher) stageReports() []job.StageReport {
	all := slices.Clone(d.sofar.Stages)
	at := map[string]*job.StageReport{}
	for i := range all {
		at[all[i].Stage] = &all[i]
	}
	add := func(stage string, waiting, flying int) {
		if s := at[stage]; s != nil {
			s.Waiting += waiting
			s.InFlight += flying
		}
	}
	for _, t := range d.flying {
		add(t.Stage, 0, 1)
	}
	for i := range d.returned {
		add(d.returned[i].Stage, 1, 0)
	}
	for _, t := range d.delayed {
		add(t.Stage, 1, 0)
	}
	if d.Queued != nil {
		queued := d.Queued()
		for i := range all {
			all[i].Waiting += queued[all[i].Stage]
		}
	}
	return all
}

// ReportsPerStep is how often a leg reports failures before its step doubles, and in how many steps it approaches what
// is tolerated.
const ReportsPerStep = 8

// reporting is what a dispatcher knows of the reports that it has to send.
type reporting struct {
	wire.ReportThresholds
	left     int   // reports until the step doubles
	reported int64 // failed items that the job has heard of

	at      time.Time // when the job heard last of the progress, or the leg began
	batches int64     // that it has heard of
}

const (
	// leastReport is the time between two reports of a leg's progress, and reportParts how many of its batches, one of
	// so many, are done between two of them: each costs the job four events.
	leastReport = 10 * time.Second
	reportParts = 8
)

// dueProgress reports whether the job should hear how far the leg is, which has so many batches.
func (r *reporting) dueProgress(now time.Time, done, batches int64) bool {
	if r.at.IsZero() {
		r.at = now
	}
	return now.Sub(r.at) >= leastReport && done > r.batches && (r.batches == 0 || (done-r.batches)*reportParts >= batches)
}

func (r *reporting) set(t wire.ReportThresholds) { r.ReportThresholds, r.left = t, ReportsPerStep }

// due reports whether the counts matter to the job, and notes that they are reported.
func (r *reporting) due(c wire.Counts) bool {
	news := c.Failed - r.reported
	hopeless := c.Passed() == 0 && (r.Hopeless > 0 && c.Failed >= r.Hopeless || r.Alone > 0 && c.Alone >= r.Alone)
	if !hopeless && (news <= 0 || r.Step == 0 || news < r.Step) {
		return false
	}
	r.reported = c.Failed
	if r.left--; r.left <= 0 {
		r.left, r.Step = ReportsPerStep, 2*r.Step
	}
	if hopeless {
		r.Hopeless, r.Alone = 0, 0
	}
	return true
}

// CountsOf returns the counts of outcomes. Items that wait for the outcome of an equal one have none yet.
func CountsOf(o wire.LegOutcomes) wire.Counts {
	t := o.Totals
	barren := slices.ContainsFunc(o.Stages, func(s job.StageReport) bool { return s.Failed > 0 && s.Failed == s.Done })
	return wire.Counts{OK: t.OK - t.Equal, Failed: t.Failed, Alone: t.Alone, Between: t.Between, Barren: barren}
}

// counts returns those that the job hears of, now.
func (d *Dispatcher) counts() wire.Counts {
	c, t := d.ownCounts(), d.sofar.Totals
	c.Leg = d.State.Number
	c.Sofar = job.Counted{OK: t.OK, Failed: t.Failed, Dropped: t.Dropped, Batches: t.Batches, Bytes: t.InputBytes, Spent: t.Spent(), At: workflow.Now(d.ctx)}
	d.report.at, d.report.batches = c.Sofar.At, c.Sofar.Batches
	return c
}

// ownCounts returns those that decide whether too many items fail.
func (d *Dispatcher) ownCounts() wire.Counts {
	if d.Tally != nil {
		return d.Tally()
	}
	return CountsOf(d.sofar)
}

// Recount has the counts begin anew, as Config.Tally does: so many failures without a success show that nothing works.
func (d *Dispatcher) Recount(hopeless int64) {
	d.report.reported = 0
	d.report.set(wire.ReportThresholds{Step: d.report.Step, Hopeless: hopeless})
}

// hopeless returns how many items of one execution may fail alone until it returns its rest; 0: any number.
func (d *Dispatcher) hopeless() int64 {
	t := CountsOf(d.sofar)
	if d.report.Alone == 0 || t.Passed() > 0 {
		return 0
	}
	return max(1, d.report.Alone-t.Alone)
}

// reportCounts reports the counts to the job if they matter.
func (d *Dispatcher) reportCounts() {
	done := d.sofar.Totals.Batches
	batches := done + int64(d.waiting()+len(d.delayed)+len(d.flying))
	if d.report.due(d.ownCounts()) || d.report.dueProgress(workflow.Now(d.ctx), done, batches) {
		d.Link.Counted(d.counts())
	}
}

// answerCounts reports the counts because the job has asked.
func (d *Dispatcher) answerCounts() {
	c := d.counts()
	c.Answer = true
	d.report.reported = c.Failed
	d.Link.Counted(c)
}

// ReportFinal reports the counts to a job that tolerates only so many failures, before the leg commits: until that has
// ended it does not answer.
func (d *Dispatcher) ReportFinal() {
	if d.report.Step > 0 {
		c := d.counts()
		c.Answer, c.Final = true, true
		d.Link.Counted(c)
	}
}
