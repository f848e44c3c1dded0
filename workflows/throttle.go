package workflows

import (
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"go.temporal.io/sdk/workflow"
)

// A job's rate is limited by its settings, and for a while by its handler, if that asks to slow down.
// The legs keep to it (package dispatch). While there is a limit, a leg starts only after the one before it has ended;
// two that are open already share it.

// limits are those of the open legs.
func (c *coordinator) limits() dispatch.Limits {
	return dispatch.Limits{Rate: c.spec().JobRate, Slowed: c.state.Slowed, Legs: max(1, c.busyLegs()), Report: c.reportThresholds()}
}

// limited reports whether the job's rate is limited.
func (c *coordinator) limited() bool { return c.limits().At(workflow.Now(c.ctx)) > 0 }

// slowDown applies a leg's request.
func (c *coordinator) slowDown(r dispatch.SlowDownRequest) {
	c.state.Slowed.SlowDown(workflow.Now(c.ctx), r.Delay, r.OfAll(len(c.legs)))
	c.sendLimits()
}

// sendLimits sends every leg its limits.
func (c *coordinator) sendLimits() {
	now := c.limits()
	for _, l := range c.legs {
		l.limit(now)
	}
}

// throttled describes a lowered rate, or a pause, for the report; nil if there is neither.
func (c *coordinator) throttled() *job.Throttle {
	now, s := workflow.Now(c.ctx), c.state.Slowed
	rate := s.Rate(now)
	if rate == 0 && !now.Before(s.From) {
		return nil
	}
	return &job.Throttle{Rate: rate, Until: s.From}
}

// busyLegs is how many legs share the rate.
func (c *coordinator) busyLegs() int {
	n := 0
	for _, l := range c.legs {
		if !l.standsBy {
			n++
		}
	}
	return n
}
