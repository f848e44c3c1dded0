package dispatch

import (
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

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
	// leastReport is the time between two reports of a leg's progress, and reportParts how many of its batches, one of so many, are
	// done between two of them: each costs the job four events.
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

// CountsOf are the counts of outcomes.
func CountsOf(o wire.Outcomes) wire.Counts {
	t := o.Totals
	barren := slices.ContainsFunc(o.Stages, func(s job.StageReport) bool { return s.Failed > 0 && s.Failed == s.Done })
	return wire.Counts{OK: t.OK, Failed: t.Failed, Alone: t.Alone, Between: t.Between, Barren: barren}
}

// counts are those that the job hears of, now.
func (d *Dispatcher) counts() wire.Counts {
	c := d.ownCounts()
	c.Leg, c.Sofar = d.State.Number, d.counted()
	d.report.at, d.report.batches = c.Sofar.At, c.Sofar.Batches
	return c
}

// ownCounts are those that decide whether too many items fail.
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

// hopeless is how many items of one execution may fail alone until it returns its rest; 0: any number.
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
