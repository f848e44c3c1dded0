package workflows

import (
	"fmt"
	"math"
	"slices"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
)

// A job must notice in time that too many of its items fail, but a signal for every failure would be too
// many: legs report their counts once so many more have failed that it matters. The counts of the leg
// inside the job are read directly.

const (
	// hopelessItems outcomes without a success show that nothing works. If there are fewer items, all of
	// them show it, from hopelessAll on.
	hopelessItems = 1000
	hopelessAll   = 10
	// hopelessAlone items without a success, each of which made a call of itself alone fail, show it as well: the handler has
	// answered for none of them. A feed's items are whatever its clients put, so for feeds that does not count.
	hopelessAlone = 20
	// leastStep is which part of what is tolerated a step is at least, however near to it a job is.
	leastStep = 64
)

// receiveCounts takes what a leg reports.
func (c *coordinator) receiveCounts(received wire.Counts) {
	for _, l := range c.legs {
		if l.number == received.Leg {
			l.hear(received)
		}
	}
	c.checkOutcomes(false)
}

// hear takes counts that the leg has sent. Temporal may deliver them in another order.
func (l *openLeg) hear(received wire.Counts) {
	if !l.final && !received.Sofar.At.Before(l.reported.Sofar.At) {
		l.reported = received
	}
	l.answered = l.answered || received.Answer
	l.final = l.final || received.Final
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
				l.restrict(question)
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
func (c *coordinator) outcomes() (ok, failed int64, fresh wire.Counts) {
	r := &c.state.Report
	ok, failed, fresh = r.OK, r.Failed, c.state.Fresh
	for _, l := range c.legs {
		n := l.counts(l.reported)
		ok, failed = ok+n.Passed(), failed+n.Failed
		fresh.Add(n)
	}
	return ok, failed, fresh
}

// reportThresholds are those of the open legs.
func (c *coordinator) reportThresholds() wire.ReportThresholds {
	ok, failed, fresh := c.work.outcomes()
	var t wire.ReportThresholds
	if allowed, limited := c.spec().MaxFailed.Allowed(max(ok+failed, job.ToleranceItems), false); limited {
		t.Step = max(1, allowed/leastStep, (allowed-failed)/dispatch.ReportsPerStep/int64(max(1, len(c.legs)/2)))
	}
	if fresh.Passed() == 0 && fresh.Failed < hopelessItems {
		t.Hopeless = hopelessItems - fresh.Failed
	}
	if fresh.Passed() == 0 && fresh.Alone < hopelessAlone && c.countsAlone() {
		t.Alone = hopelessAlone - fresh.Alone
	}
	return t
}

// countsAlone reports whether items that fail alone can show that nothing works.
func (c *coordinator) countsAlone() bool {
	return c.work.boundsFailures() && c.spec().Source != job.SourceFeed
}

// checkOutcomes ends the job if too many items have failed. final says that there are no others.
func (c *coordinator) checkOutcomes(final bool) {
	if c.ending() || !c.work.boundsFailures() {
		return
	}
	ok, failed, fresh := c.work.outcomes()
	none := fresh.Passed() == 0 && (fresh.Failed >= hopelessItems || fresh.Alone >= hopelessAlone && c.countsAlone()) || final && ok == 0 && fresh.Failed > 0 && failed >= hopelessAll
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
			"%s of %s items done%s have failed, more than max-failed %s allows; resume the job with a higher max-failed%s",
			text.Thousands(failed), text.Thousands(ok+failed), c.ofSession(), c.spec().MaxFailed, c.firstFailure())})
	}
}

func (c *coordinator) hopeless(failed int64) *job.Error {
	return &job.Error{Type: job.ErrorHopeless, Message: fmt.Sprintf(
		"nothing works: all of the first %s items%s have failed; fix the handler and resume the job%s%s",
		text.Thousands(failed), c.ofSession(), c.firstFailure(), c.hint())}
}

// ofSession names the session whose items the rules count, of a feed that has had several.
func (c *coordinator) ofSession() string {
	if feed := c.state.Work.Feed; feed != nil && feed.Session > 1 {
		return fmt.Sprintf(" of session %d", feed.Session)
	}
	return ""
}

// hint says what handlers that cannot work often have in common, by how the first item has failed.
func (c *coordinator) hint() string {
	first := c.report().FirstError
	if first == nil || !slices.Contains([]string{job.KindExit, job.KindCrash, job.KindLength}, first.Kind) {
		return ""
	}
	return "; a filter answers n lines with n lines and ends with status 0, and {} in its command is not replaced"
}

// firstFailure describes the failure with the lowest ordinal that is known.
func (c *coordinator) firstFailure() string {
	first := c.report().FirstError
	if first == nil {
		return ""
	}
	return fmt.Sprintf("; the first: item %s%s: %s", text.Thousands(first.Item), first.Label(), first.Error.Message)
}
