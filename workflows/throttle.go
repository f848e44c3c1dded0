package workflows

import (
	"slices"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/stagewindow"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// A job's rate is limited by its settings, and for a while by its handler, if that asks to slow down.
// The legs keep to it (package dispatch). While there is a limit, a leg starts only after the one before it has ended;
// two that are open already share it.

// limits are those of the open legs.
func (c *coordinator) limits() wire.LegLimits {
	return wire.LegLimits{Rate: c.spec().JobRate, Slowed: c.state.Slowed, Legs: max(1, c.busyLegs()), Report: c.reportThresholds()}
}

// limited reports whether the job's rate is limited.
func (c *coordinator) limited() bool { return dispatch.LimitAt(c.limits(), workflow.Now(c.ctx)) > 0 }

// slowDown applies a leg's request.
func (c *coordinator) slowDown(r wire.SlowDownRequest) {
	throttle.Of(&c.state.Slowed).SlowDown(workflow.Now(c.ctx), r.Began, r.Delay, r.OfAll(len(c.legs)))
	c.sendLimits()
}

// sendLimits sends every leg its limits.
func (c *coordinator) sendLimits() {
	now := c.limits()
	for i, l := range c.legs {
		l.bounds = c.nextBounds(c.legs[:i])
		l.restrict(now)
	}
}

// restrict sends the leg limits, with its own shares of the windows of stages.
func (l *openLeg) restrict(limits wire.LegLimits) {
	l.told++
	limits.Number, limits.Stages = l.told, l.bounds
	l.limit(limits)
}

// nextBounds are the shares of the windows of stages that a leg has which was opened after these.
func (c *coordinator) nextBounds(older []*openLeg) []wire.StageBound {
	var windows []wire.StageBound
	for _, stage := range c.spec().StagePools() {
		if stage.Window > 0 {
			windows = append(windows, wire.StageBound{Stage: stage.Stage, Window: stage.Window})
		}
	}
	if len(windows) == 0 {
		return nil
	}
	held := make([]stagewindow.Held, 0, len(older))
	for _, l := range older {
		held = append(held, stagewindow.Held{Places: l.places, Bounds: l.bounds})
	}
	return stagewindow.Share(windows, held)
}

// rebound gives the legs what has become free of the windows of stages.
func (c *coordinator) rebound() {
	if c.ending() {
		return // nobody dispatches any more
	}
	for i, l := range c.legs {
		if bounds := c.nextBounds(c.legs[:i]); !slices.Equal(bounds, l.bounds) {
			l.bounds = bounds
			l.restrict(c.limits())
		}
	}
}

// throttled describes a lowered rate, or a pause, for the report; nil if there is neither.
func (c *coordinator) throttled() *job.Throttle {
	now, s := workflow.Now(c.ctx), throttle.Of(&c.state.Slowed)
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
