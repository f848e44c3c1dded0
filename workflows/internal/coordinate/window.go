package coordinate

import (
	"slices"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// The places of the window belong to the job. It grants them to its legs, which hand back those that they have no more
// batches for. So the sum of all is the window, whatever is under way.

// TakeBack takes the places that a leg has no batches for.
func (c *Coordinator) TakeBack(b wire.PlacesBack) {
	c.Places += b.Places
	if i := slices.IndexFunc(c.Legs, func(l *OpenLeg) bool { return l.Number == b.Leg }); i >= 0 {
		c.Legs[i].Places -= b.Places
		c.Legs[i].Dry = true
	}
	c.Share()
	c.rebound()
}

// Share grants places that no leg holds to the oldest legs that have batches for them; what is left is for the next leg.
// If the window has shrunk, it takes places from the latest legs.
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

// Grant gives places to a leg, or takes some. If it has ended, its result does not have them.
func (c *Coordinator) Grant(l *OpenLeg, places int) {
	if places == 0 || l.gone {
		return
	}
	c.Places -= places
	l.Places += places
	l.Handle.Grant(places, func() {
		c.Places += places
		l.Places -= places
		l.gone = true
		c.Share()
	})
}

// resize sets the window: as the settings say, or as large as what is known of the pool makes it.
func (c *Coordinator) resize() {
	window := c.Spec().Window
	if window == 0 {
		window = c.work.Window(pool.View(c.State.Pool))
	}
	before := c.window
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
func (c *Coordinator) Hear(n wire.PoolNews) {
	pool.Of(&c.State.Pool).Hear(n.Workers...)
	if !n.Since.IsZero() && c.Spec().Window == 0 {
		pool.Of(&c.State.Pool).Waited(n.Since)
	}
	if n.Speed.Items > 0 {
		c.State.Speed, c.Planning.RateKnown = n.Speed, true
	}
	c.resize()
}
