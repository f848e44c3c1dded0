package workflows

import (
	"fmt"
	"math"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// A job must notice in time that too many of its items fail, but a signal for every failure would be too
// many: legs report their counts once so many more have failed that it matters. The counts of the leg
// inside the job are read directly.

// reportThresholds says when a leg reports to the job how many of its items have failed.
type reportThresholds struct {
	Step int64 `json:"step,omitempty"` // after so many further failures; 0: never
	// Hopeless is how many further outcomes decide that nothing works, as long as not one item of the job
	// has succeeded; 0: one has.
	Hopeless int64 `json:"hopeless,omitempty"`
}

const (
	// hopelessItems outcomes without a success show that nothing works. If there are fewer items, all of
	// them show it, from hopelessAll on.
	hopelessItems = 1000
	hopelessAll   = 10
	// reportsPerStep is how often a leg reports failures before its step doubles, and in how many steps
	// it approaches what is tolerated.
	reportsPerStep = 8
	// leastStep is which part of what is tolerated a step is at least, however near to it a job is.
	leastStep = 64
)

// counts are what a leg reports of its items.
type counts struct {
	Leg    int   `json:"leg"`
	OK     int64 `json:"ok"`
	Failed int64 `json:"failed"`
	// Answer says that the job has asked for them, Final that they do not change any more.
	Answer bool `json:"answer,omitempty"`
	Final  bool `json:"final,omitempty"`
}

// reporting is what a dispatcher knows of the reports that it has to send.
type reporting struct {
	reportThresholds
	leg      int
	left     int   // reports until the step doubles
	reported int64 // failed items that the job has heard of
}

func newReporting(in LegInput) reporting {
	r := reporting{leg: in.Number, reported: in.Sofar.Totals.Failed}
	r.set(in.Limits.Report)
	return r
}

func (r *reporting) set(t reportThresholds) { r.reportThresholds, r.left = t, reportsPerStep }

// due reports whether the counts matter to the job, and notes that they are reported.
func (r *reporting) due(t job.Totals) bool {
	news := t.Failed - r.reported
	hopeless := r.Hopeless > 0 && t.OK == 0 && t.Failed >= r.Hopeless
	if news == 0 || !hopeless && (r.Step == 0 || news < r.Step) {
		return false
	}
	r.reported = t.Failed
	if r.left--; r.left <= 0 {
		r.left, r.Step = reportsPerStep, 2*r.Step
	}
	if hopeless {
		r.Hopeless = 0
	}
	return true
}

// reportCounts reports the counts to the job if they matter.
func (d *dispatcher) reportCounts() {
	t := d.sofar.Totals
	if d.report.due(t) {
		d.job.counted(counts{Leg: d.report.leg, OK: t.OK, Failed: t.Failed})
	}
}

// answerCounts reports the counts because the job has asked.
func (d *dispatcher) answerCounts() {
	t := d.sofar.Totals
	d.report.reported = t.Failed
	d.job.counted(counts{Leg: d.report.leg, OK: t.OK, Failed: t.Failed, Answer: true})
}

// reportFinal reports the counts to a job that tolerates only so many failures, before the leg commits: until that has
// ended it does not answer.
func (d *dispatcher) reportFinal() {
	if t := d.sofar.Totals; d.report.Step > 0 {
		d.job.counted(counts{Leg: d.report.leg, OK: t.OK, Failed: t.Failed, Answer: true, Final: true})
	}
}

// receiveCounts takes what a leg reports.
func (c *coordinator) receiveCounts(received counts) {
	for _, l := range c.legs {
		if l.number == received.Leg {
			l.reported = received
			l.answered = l.answered || received.Answer
			l.final = l.final || received.Final
		}
	}
	c.checkOutcomes(false)
}

// counted reports whether the successes of every leg are known. Legs in child workflows report failures
// only, so they are asked if their successes matter; this is checked again with each answer, and with each
// leg that ends without one.
func (c *coordinator) counted() bool {
	if !c.asking {
		c.asking = true
		question := c.limits()
		question.Ask = true
		for _, l := range c.legs {
			if l.answered = l.final || l.exact(); !l.answered {
				l.limit(question)
			}
		}
	}
	for _, l := range c.legs {
		if !l.answered {
			return false
		}
	}
	c.asking = false
	return true
}

// outcomes are the counts of the whole job, and of this run's items alone, as far as they are known.
func (c *coordinator) outcomes() (ok, failed int64, fresh counts) {
	r := &c.state.Report
	ok, failed, fresh = r.OK, r.Failed, c.state.Fresh
	for _, l := range c.legs {
		n := l.counts(l.reported)
		ok, failed = ok+n.OK, failed+n.Failed
		fresh.OK, fresh.Failed = fresh.OK+n.OK, fresh.Failed+n.Failed
	}
	return ok, failed, fresh
}

// reportThresholds are those of the open legs.
func (c *coordinator) reportThresholds() reportThresholds {
	ok, failed, fresh := c.outcomes()
	var t reportThresholds
	if allowed, limited := c.spec().MaxFailed.Allowed(max(ok+failed, job.ToleranceItems), false); limited {
		t.Step = max(1, allowed/leastStep, (allowed-failed)/reportsPerStep/int64(max(1, len(c.legs)/2)))
	}
	if fresh.OK == 0 && fresh.Failed < hopelessItems {
		t.Hopeless = hopelessItems - fresh.Failed
	}
	return t
}

// checkOutcomes ends the job if too many items have failed. final says that there are no others.
func (c *coordinator) checkOutcomes(final bool) {
	if c.ending() || !c.work.boundsFailures() {
		return
	}
	ok, failed, fresh := c.outcomes()
	none := fresh.OK == 0 && fresh.Failed >= hopelessItems || final && ok == 0 && fresh.Failed > 0 && failed >= hopelessAll
	many := c.spec().MaxFailed.Exceeded(ok+failed, failed, final)
	certain := !none && c.spec().MaxFailed.Exceeded(math.MaxInt64, failed, final) // however many have succeeded
	switch {
	case !none && !many:
		c.asking = false
	case !certain && !c.counted():
	case none:
		c.fail(c.hopeless(failed))
	default:
		c.fail(&job.Error{Type: job.ErrorTooMany, Message: fmt.Sprintf(
			"%s of %s items done have failed, more than max-failed %s allows; resume the job with a higher max-failed%s",
			text.Thousands(failed), text.Thousands(ok+failed), c.spec().MaxFailed, c.firstFailure())})
	}
}

func (c *coordinator) hopeless(failed int64) *job.Error {
	return &job.Error{Type: job.ErrorHopeless, Message: fmt.Sprintf(
		"nothing works: all of the first %s items have failed; fix the handler and resume the job%s",
		text.Thousands(failed), c.firstFailure())}
}

// firstFailure describes the failure with the lowest ordinal that is known.
func (c *coordinator) firstFailure() string {
	first := c.report().FirstError
	if first == nil {
		return ""
	}
	return fmt.Sprintf("; the first: item %s (%s): %s", text.Thousands(first.Item), first.Kind, first.Error.Message)
}
