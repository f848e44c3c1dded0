package coordinate

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/stagewindow"
	"github.com/stint-run/stint/workflows/internal/throttle"
)

// The places of the window belong to the job. It grants them to its legs, which hand back those that they have no more
// batches for. The job alone counts them: the sum of what it has and of what it counts for its open legs is the window,
// whatever is under way. A leg that has ended has none, so all its places are the job's again: also one that a leg of a
// feed was granted when it had reported its end and only kept results, and one that it has handed back and that is
// still on its way.

// TakeBack takes the places that a leg has no batches for.
func (c *Coordinator) TakeBack(b wire.PlacesBack) {
	i := slices.IndexFunc(c.Legs, func(l *OpenLeg) bool { return l.Number == b.Leg && !l.gone })
	if i < 0 {
		return // it has ended since
	}
	l := c.Legs[i]
	c.Places += b.Places
	l.Places -= b.Places
	l.Dry = true
	c.Share()
	c.rebound()
}

// Share grants places that no leg holds to the oldest legs that have batches for them; what is left is for the next
// leg. If the window has shrunk, it takes places from the latest legs.
func (c *Coordinator) Share() {
	if c.Ending() {
		return // nobody dispatches any more
	}
	for _, l := range c.Legs {
		if l.Places < 0 { // it has handed back places while others were taken from it
			c.Grant(l, -l.Places)
		}
		if !l.Dry {
			c.Grant(l, max(0, min(c.Places, l.Batches-l.Places)))
		}
	}
	for _, l := range slices.Backward(c.Legs) {
		if c.Places < 0 && l.Places > 0 {
			c.Grant(l, max(c.Places, -l.Places))
			l.Dry = false // it may need them again
		}
	}
}

// Grant gives places to a leg, or takes some.
func (c *Coordinator) Grant(l *OpenLeg, places int) {
	if places == 0 || l.gone {
		return
	}
	c.Places -= places
	l.Places += places
	l.Handle.Grant(places, func() {
		c.regain(l)
		c.Share()
	})
}

// regain takes all places of a leg that has ended.
func (c *Coordinator) regain(l *OpenLeg) {
	c.Places += l.Places
	l.Places, l.gone = 0, true
}

// resize sets the window: as the settings say, or as large as what is known of the pool makes it.
func (c *Coordinator) resize() {
	window, before := cmp.Or(c.Spec().Window, c.work.Window(pool.View(c.State.Pool))), c.window
	if window == before {
		return
	}
	c.window, c.State.Report.Window, c.State.Pool.Changed = window, window, workflow.Now(c.Ctx)
	c.Places += window - before
	c.Share()
	c.rebound()
	c.WakeUp()
}

// Hear takes what a leg reports of the pool.
func (c *Coordinator) NotePool(n wire.PoolReport) {
	pool.Of(&c.State.Pool).Hear(n.Workers...)
	if !n.Since.IsZero() && c.Spec().Window == 0 {
		pool.Of(&c.State.Pool).Waited(n.Since)
	}
	if n.Speed.Items > 0 {
		c.State.Speed, c.Planning.RateKnown = n.Speed, true
	}
	c.resize()
}

// A job's rate is limited by its settings, and for a while by its handler, if that asks to slow down.
// The legs keep to it (package dispatch). While there is a limit, a leg starts only after the one before it has ended;
// two that are open already share it.

// Limits returns those of the open legs.
func (c *Coordinator) Limits() wire.LegLimits {
	return wire.LegLimits{
		Rate: c.Spec().JobRate, Requests: c.Spec().RequestRate, Tokens: c.Spec().TokenRate,
		Slowed: c.State.Slowed, Legs: max(1, c.busyLegs()), Report: c.reportThresholds(), Paused: c.State.Held, Priority: c.Spec().Priority,
	}
}

// Limited reports whether the job's legs share limits, or a budget.
func (c *Coordinator) Limited() bool {
	return c.Spec().RequestRate > 0 || c.Spec().TokenRate > 0 || c.hasBudget() || dispatch.LimitAt(c.Limits(), workflow.Now(c.Ctx)) > 0
}

// SlowDown applies a leg's request.
func (c *Coordinator) SlowDown(r wire.SlowDownRequest) {
	throttle.Of(&c.State.Slowed).SlowDown(workflow.Now(c.Ctx), r.Began, r.Delay, r.OfAll(len(c.Legs)))
	c.SendLimits()
}

// SendLimits sends every leg its limits.
func (c *Coordinator) SendLimits() {
	now := c.Limits()
	for i, l := range c.Legs {
		l.bounds = c.nextBounds(c.Legs[:i])
		c.restrict(l, now)
	}
}

// restrict sends the leg limits, with its own shares of the windows of stages and of the budget.
func (c *Coordinator) restrict(l *OpenLeg, limits wire.LegLimits) {
	l.Told++
	limits.Number, limits.Stages, limits.Budget = l.Told, l.bounds, c.budgetOf(l)
	l.Limit(limits)
}

// nextBounds returns the shares of the windows of stages that a leg has which was opened after these.
func (c *Coordinator) nextBounds(older []*OpenLeg) []wire.StageBound {
	var windows []wire.StageBound
	for _, stage := range c.Spec().StagePools() {
		if stage.Window > 0 {
			windows = append(windows, wire.StageBound{Stage: stage.Name, Window: stage.Window})
		}
	}
	if len(windows) == 0 {
		return nil
	}
	held := make([]stagewindow.Held, 0, len(older))
	for _, l := range older {
		held = append(held, stagewindow.Held{Places: l.Places, Bounds: l.bounds})
	}
	return stagewindow.Share(windows, held)
}

// rebound gives the legs what has become free of the windows of stages.
func (c *Coordinator) rebound() {
	if c.Ending() {
		return // nobody dispatches any more
	}
	for i, l := range c.Legs {
		if bounds := c.nextBounds(c.Legs[:i]); !slices.Equal(bounds, l.bounds) {
			l.bounds = bounds
			c.restrict(l, c.Limits())
		}
	}
}

// throttled describes a lowered rate, or a pause, for the report; nil if there is neither.
func (c *Coordinator) throttled() *job.Throttle {
	now, s := workflow.Now(c.Ctx), throttle.Of(&c.State.Slowed)
	rate := s.Rate(now)
	if rate == 0 && !now.Before(s.From) {
		return nil
	}
	return &job.Throttle{Rate: rate, Until: s.From}
}

// busyLegs returns how many legs share the rate.
func (c *Coordinator) busyLegs() int {
	n := 0
	for _, l := range c.Legs {
		if !l.StandsBy {
			n++
		}
	}
	return n
}
