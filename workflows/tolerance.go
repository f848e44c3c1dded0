package workflows

import (
	"fmt"
	"math"

	"github.com/stint-run/stint/job"
)

// A job must notice in time that too many of its items fail, and must not hear of every failure:
// legs tell it of their counts when so many more have failed that it matters. The leg inside the job
// is looked at directly.

// watchword says when a leg tells the job how many of its items have failed.
type watchword struct {
	Step int64 `json:"step,omitempty"` // after so many further failures; 0: never
	// Hopeless, where not one item of the job has succeeded, is how many further outcomes decide
	// that nothing works; 0: it is no question.
	Hopeless int64 `json:"hopeless,omitempty"`
}

const (
	// hopelessItems outcomes without a success show that nothing works; where there are fewer items,
	// all of them, from hopelessAll on.
	hopelessItems = 1000
	hopelessAll   = 10
	// tells is how often a leg tells of its failures before it takes twice as many for once, and in
	// how many steps it comes near what is tolerated.
	tells = 8
)

// watch is a watchword with what has been told already.
type watch struct {
	watchword
	left int // how often to tell before the step doubles
}

func (w watchword) watch() watch { return watch{watchword: w, left: tells} }

// counts are what a leg tells of its items.
type counts struct {
	Leg    int   `json:"leg"`
	OK     int64 `json:"ok"`
	Failed int64 `json:"failed"`
	// Answer says that the job has asked for them.
	Answer bool `json:"answer,omitempty"`
}

// tell tells the job of the leg's counts where they matter.
func (l *leg) tell() {
	t := l.result.Totals
	news := t.Failed - l.told
	hopeless := l.watch.Hopeless > 0 && t.OK == 0 && t.Failed >= l.watch.Hopeless
	if news == 0 || !hopeless && (l.watch.Step == 0 || news < l.watch.Step) {
		return
	}
	l.told = t.Failed
	if l.watch.left--; l.watch.left <= 0 {
		l.watch.left, l.watch.Step = tells, 2*l.watch.Step
	}
	if hopeless {
		l.watch.Hopeless = 0
	}
	l.onCounts(counts{Leg: l.in.Number, OK: t.OK, Failed: t.Failed})
}

// answer tells the job of the leg's counts because it has asked.
func (l *leg) answer() {
	t := l.result.Totals
	l.told = t.Failed
	l.onCounts(counts{Leg: l.in.Number, OK: t.OK, Failed: t.Failed, Answer: true})
}

// receiveCounts takes in what a leg tells.
func (j *jobRun) receiveCounts(told counts) {
	for _, l := range j.legs {
		if l.number == told.Leg && l.inline == nil {
			l.counts = told
			l.answered = l.answered || told.Answer
		}
	}
	j.checkOutcomes(false)
}

// counted reports whether the successes of every leg are known. Legs in child workflows tell of
// failures only, so where their successes matter they are asked; the question comes up again with
// each answer, and with each leg that ends without one.
func (j *jobRun) counted() bool {
	if !j.asking {
		j.asking = true
		question := j.limits()
		question.Ask = true
		for _, l := range j.legs {
			if l.answered = l.inline != nil; !l.answered {
				j.signal(l, signalLimits, question, func() {})
			}
		}
	}
	for _, l := range j.legs {
		if !l.answered {
			return false
		}
	}
	j.asking = false
	return true
}

// outcomes are the counts of the whole job, and of this run's items alone, as far as is known.
func (j *jobRun) outcomes() (ok, failed int64, fresh counts) {
	r := &j.state.Report
	ok, failed, fresh = r.OK, r.Failed, j.state.Fresh
	for _, l := range j.legs {
		c := l.counts
		if l.inline != nil {
			t := l.inline.result.Totals
			c = counts{OK: t.OK, Failed: t.Failed}
		}
		ok, failed = ok+c.OK, failed+c.Failed
		fresh.OK, fresh.Failed = fresh.OK+c.OK, fresh.Failed+c.Failed
	}
	return ok, failed, fresh
}

// watchword is what legs are told to look for.
func (j *jobRun) watchword() watchword {
	if j.in.Version < 1 {
		return watchword{}
	}
	ok, failed, fresh := j.outcomes()
	var w watchword
	if allowed, limited := j.spec().MaxFailed.Allowed(max(ok+failed, job.ToleranceItems), false); limited {
		w.Step = max(1, (allowed-failed)/tells)
	}
	if fresh.OK == 0 && fresh.Failed < hopelessItems {
		w.Hopeless = hopelessItems - fresh.Failed
	}
	return w
}

// checkOutcomes ends the job where too many items have failed. final says that there are no others.
func (j *jobRun) checkOutcomes(final bool) {
	if j.in.Version < 1 || j.ending() || j.in.Redrive != nil { // a redrive cannot make more fail than had
		return
	}
	ok, failed, fresh := j.outcomes()
	none := fresh.OK == 0 && fresh.Failed >= hopelessItems || final && ok == 0 && fresh.Failed > 0 && failed >= hopelessAll
	many := j.spec().MaxFailed.Exceeded(ok+failed, failed, final)
	certain := !none && j.spec().MaxFailed.Exceeded(math.MaxInt64, failed, final) // however many have succeeded
	switch {
	case !none && !many:
		j.asking = false
	case !certain && !j.counted():
	case none:
		j.fail(j.hopeless(failed))
	default:
		j.fail(&job.Error{Type: job.ErrorTooMany, Message: fmt.Sprintf(
			"%s of %s items done have failed, more than max-failed %s allows; go on with 'stint resume %s max-failed=…'%s",
			job.Thousands(failed), job.Thousands(ok+failed), j.spec().MaxFailed, j.spec().Name, j.firstFailure())})
	}
}

func (j *jobRun) hopeless(failed int64) *job.Error {
	return &job.Error{Type: job.ErrorHopeless, Message: fmt.Sprintf(
		"nothing works: all of the first %s items have failed; mend the handler and go on with 'stint resume %s'%s",
		job.Thousands(failed), j.spec().Name, j.firstFailure())}
}

// firstFailure tells of the failure with the lowest ordinal.
func (j *jobRun) firstFailure() string {
	first := j.state.Report.FirstError
	for _, l := range j.legs {
		if l.inline != nil {
			first = first.First(l.inline.result.FirstError)
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("; the first: item %s (%s): %s", job.Thousands(first.Item), first.Kind, first.Error.Message)
}
