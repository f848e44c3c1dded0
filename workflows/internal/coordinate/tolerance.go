package coordinate

import (
	"fmt"
	"math"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
)

// A job must notice in time that too many of its items fail, but a signal for every failure would be too
// many: legs report their counts once so many more have failed that it matters. The counts of the leg
// inside the job are read directly.

const (
	// HopelessItems outcomes without a success show that nothing works. If there are fewer items, all of
	// them show it, from hopelessAll on.
	HopelessItems = 1000
	hopelessAll   = 10
	// HopelessAlone items without a success, each of which made a call of itself alone fail, show it as well: the
	// handler has answered for none of them. A feed's items are whatever its clients put, so for feeds that does not
	// count.
	HopelessAlone = 20
	// leastStep is which part of what is tolerated a step is at least, however near to it a job is.
	leastStep = 64
)

// receiveCounts takes what a leg reports.
func (c *Coordinator) receiveCounts(received wire.Counts) {
	for _, l := range c.Legs {
		if l.Number == received.Leg {
			l.Hear(received)
		}
	}
	if received.Short {
		c.ShortLeg(received.Leg)
	}
	c.CheckOutcomes(false)
}

// Hear takes counts that the leg has sent. Temporal may deliver them in another order.
func (l *OpenLeg) Hear(received wire.Counts) {
	if !l.final && !received.Sofar.At.Before(l.Reported.Sofar.At) {
		l.Reported = received
	}
	l.Answered = l.Answered || received.Answer
	l.final = l.final || received.Final
}

// counted reports whether the successes of every leg are known. Legs in child workflows report failures
// only, so they are asked if their successes matter; this is checked again with each answer, and with each
// leg that ends without one.
func (c *Coordinator) counted() bool {
	if !c.Asking {
		c.Asking = true
		question := c.Limits()
		question.Ask = true
		for _, l := range c.Legs {
			if l.Answered = l.final || l.Exact(); !l.Answered {
				c.restrict(l, question)
			}
		}
	}
	for _, l := range c.Legs {
		if !l.Answered {
			return false
		}
	}
	c.Asking = false
	return true
}

// outcomes returns the counts of the whole job, and of this run's items alone, as far as they are known.
func (c *Coordinator) outcomes() (ok, failed int64, fresh wire.Counts) {
	r := &c.State.Report
	ok, failed, fresh = r.OK-r.Equal, r.Failed, c.State.Fresh
	for _, l := range c.Legs {
		n := l.Counts(l.Reported)
		ok, failed = ok+n.Passed(), failed+n.Failed
		fresh.Add(n)
	}
	return ok, failed, fresh
}

// reportThresholds returns those of the open legs.
func (c *Coordinator) reportThresholds() wire.ReportThresholds {
	ok, failed, fresh := c.traits.Outcomes()
	var t wire.ReportThresholds
	if allowed, limited := c.Spec().MaxFailed.Allowed(max(ok+failed, limits.ToleranceItems), false); limited {
		t.Step = max(1, allowed/leastStep, (allowed-failed)/dispatch.ReportsPerStep/int64(max(1, len(c.Legs)/2)))
	}
	if fresh.Passed() == 0 && fresh.Failed < HopelessItems {
		t.Hopeless = HopelessItems - fresh.Failed
	}
	if fresh.Passed() == 0 && fresh.Alone < HopelessAlone && c.traits.CountsAlone {
		t.Alone = HopelessAlone - fresh.Alone
	}
	return t
}

// CheckOutcomes ends the job if too many items have failed. final says that there are no others.
func (c *Coordinator) CheckOutcomes(final bool) {
	if c.Ending() || !c.traits.BoundsFailures {
		return
	}
	ok, failed, fresh := c.traits.Outcomes()
	none := fresh.Passed() == 0 && (fresh.Failed >= HopelessItems || fresh.Alone >= HopelessAlone && c.traits.CountsAlone) || final && ok == 0 && fresh.Failed > 0 && failed >= hopelessAll
	many := c.Spec().MaxFailed.Exceeded(ok+failed, failed, final)
	certain := !none && c.Spec().MaxFailed.Exceeded(math.MaxInt64, failed, final) // however many have succeeded
	switch {
	case !none && !many:
		c.Asking = false
	case !certain && !c.counted():
	case none:
		c.Fail(c.hopeless(failed))
	default:
		c.Fail(&job.Error{Type: job.ErrorTooMany, Message: fmt.Sprintf(
			"%s of %s items done%s have failed, more than max-failed %s allows; resume the job with a higher max-failed%s",
			text.Thousands(failed), text.Thousands(ok+failed), c.traits.Counted(), c.Spec().MaxFailed, c.firstFailure())})
	}
}

func (c *Coordinator) hopeless(failed int64) *job.Error {
	return &job.Error{Type: job.ErrorHopeless, Message: fmt.Sprintf(
		"nothing works: all of the first %s items%s have failed; fix the handler and resume the job%s%s",
		text.Thousands(failed), c.traits.Counted(), c.firstFailure(), c.hint())}
}

// hint says what handlers that cannot work often have in common, by how the first item has failed.
func (c *Coordinator) hint() string {
	first := c.report().FirstError
	if first == nil || !limits.FailureKindOf(first.Kind).Misused {
		return ""
	}
	return "; a filter answers n lines with n lines and ends with status 0, and {} in its command is not replaced"
}

// firstFailure describes the failure with the lowest ordinal that is known.
func (c *Coordinator) firstFailure() string {
	first := c.report().FirstError
	if first == nil {
		return ""
	}
	return fmt.Sprintf("; the first: item %s%s: %s", text.Thousands(first.Item), first.Label(), first.Error.Message)
}
