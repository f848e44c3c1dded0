package dispatch

import (
	"slices"
	"time"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// ReportsPerStep is how often a leg reports failures before its step doubles, and in how many steps it approaches what
// is tolerated.
const ReportsPerStep = 8

// ReportThresholds says when a leg reports to the job how many of its items have failed.
type ReportThresholds struct {
	Step int64 `json:"step,omitempty"` // after so many further failures; 0: never
	// Hopeless is how many further outcomes decide that nothing works, as long as not one item of the job
	// has succeeded; 0: one has.
	Hopeless int64 `json:"hopeless,omitempty"`
	// Alone is how many further items that fail alone in their calls decide the same; 0: none do.
	Alone int64 `json:"alone,omitempty"`
}

// Counts are what a leg reports of its items: the argument of SignalCounts.
type Counts struct {
	Leg    int   `json:"leg"`
	OK     int64 `json:"ok"`
	Failed int64 `json:"failed"`
	// Between are items that have come through a stage of a pipeline, and not yet through the next. Barren: there is a stage that has
	// failed items and passed none.
	Between int64 `json:"between,omitempty"`
	Barren  bool  `json:"barren,omitempty"`
	// Session is that of a feed whose items they are; 0: all items.
	Session int64 `json:"session,omitempty"`
	Alone   int64 `json:"alone,omitempty"` // of those that failed, in calls of themselves alone
	// Sofar is the leg's progress, for people.
	Sofar job.Counted `json:"sofar,omitzero"`
	// Answer says that the job has asked for them, Final that they do not change any more.
	Answer bool `json:"answer,omitempty"`
	Final  bool `json:"final,omitempty"`
}

// Passed are the items that show that something works: also those between two stages of a pipeline, unless a stage, of whichever leg, has
// only failed items so far. That one may have those of the other legs still before it.
func (c Counts) Passed() int64 {
	if c.Barren {
		return c.OK
	}
	return c.OK + c.Between
}

// Add adds the outcomes of another leg.
func (c *Counts) Add(o Counts) {
	c.OK += o.OK
	c.Failed += o.Failed
	c.Alone += o.Alone
	c.Between += o.Between
	c.Barren = c.Barren || o.Barren
}

// reporting is what a dispatcher knows of the reports that it has to send.
type reporting struct {
	ReportThresholds
	leg      int
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

func newReporting(c Config) reporting {
	r := reporting{leg: c.State.Number, reported: c.Sofar.Totals.Failed}
	r.set(c.State.Limits.Report)
	return r
}

func (r *reporting) set(t ReportThresholds) { r.ReportThresholds, r.left = t, ReportsPerStep }

// due reports whether the counts matter to the job, and notes that they are reported.
func (r *reporting) due(c Counts) bool {
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
func CountsOf(o Outcomes) Counts {
	t := o.Totals
	barren := slices.ContainsFunc(o.Stages, func(s job.StageReport) bool { return s.Failed > 0 && s.Failed == s.Done })
	return Counts{OK: t.OK, Failed: t.Failed, Alone: t.Alone, Between: t.Between, Barren: barren}
}

// counts are those that the job hears of, now.
func (d *Dispatcher) counts() Counts {
	c := d.ownCounts()
	c.Leg, c.Sofar = d.report.leg, d.counted()
	d.report.at, d.report.batches = c.Sofar.At, c.Sofar.Batches
	return c
}

// ownCounts are those that decide whether too many items fail.
func (d *Dispatcher) ownCounts() Counts {
	if d.tally != nil {
		return d.tally()
	}
	return CountsOf(d.sofar)
}

// Recount has the counts begin anew, as Config.Tally does: so many failures without a success show that nothing works.
func (d *Dispatcher) Recount(hopeless int64) {
	d.report.reported = 0
	d.report.set(ReportThresholds{Step: d.report.Step, Hopeless: hopeless})
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
	batches := done + int64(d.waiting()+d.delayed+len(d.flying))
	if d.report.due(d.ownCounts()) || d.report.dueProgress(workflow.Now(d.ctx), done, batches) {
		d.link.Counted(d.counts())
	}
}

// answerCounts reports the counts because the job has asked.
func (d *Dispatcher) answerCounts() {
	c := d.counts()
	c.Answer = true
	d.report.reported = c.Failed
	d.link.Counted(c)
}

// ReportFinal reports the counts to a job that tolerates only so many failures, before the leg commits: until that has
// ended it does not answer.
func (d *Dispatcher) ReportFinal() {
	if d.report.Step > 0 {
		c := d.counts()
		c.Answer, c.Final = true, true
		d.link.Counted(c)
	}
}
