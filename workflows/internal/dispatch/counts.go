package dispatch

import "github.com/stint-run/stint/job"

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
	// Session is that of a feed whose items they are; 0: all items.
	Session int64 `json:"session,omitempty"`
	Alone   int64 `json:"alone,omitempty"` // of those that failed, in calls of themselves alone
	// Answer says that the job has asked for them, Final that they do not change any more.
	Answer bool `json:"answer,omitempty"`
	Final  bool `json:"final,omitempty"`
}

// reporting is what a dispatcher knows of the reports that it has to send.
type reporting struct {
	ReportThresholds
	leg      int
	left     int   // reports until the step doubles
	reported int64 // failed items that the job has heard of
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
	hopeless := c.OK == 0 && (r.Hopeless > 0 && c.Failed >= r.Hopeless || r.Alone > 0 && c.Alone >= r.Alone)
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

// CountsOf are the counts of totals. An item that has passed a stage of a pipeline shows that something works.
func CountsOf(t job.Totals) Counts {
	return Counts{OK: t.OK + t.Between, Failed: t.Failed, Alone: t.Alone}
}

// counts are those that the job hears of.
func (d *Dispatcher) counts() Counts {
	c := CountsOf(d.sofar.Totals)
	if d.tally != nil {
		c = d.tally()
	}
	c.Leg = d.report.leg
	return c
}

// Recount has the counts begin anew, as Config.Tally does: so many failures without a success show that nothing works.
func (d *Dispatcher) Recount(hopeless int64) {
	d.report.reported = 0
	d.report.set(ReportThresholds{Step: d.report.Step, Hopeless: hopeless})
}

// hopeless is how many items of one execution may fail alone until it returns its rest; 0: any number.
func (d *Dispatcher) hopeless() int64 {
	t := CountsOf(d.sofar.Totals)
	if d.report.Alone == 0 || t.OK > 0 {
		return 0
	}
	return max(1, d.report.Alone-t.Alone)
}

// reportCounts reports the counts to the job if they matter.
func (d *Dispatcher) reportCounts() {
	if c := d.counts(); d.report.due(c) {
		d.link.Counted(c)
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
