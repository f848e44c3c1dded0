package workflows

import (
	"slices"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// The places of the window belong to the job. It grants them to its legs, which hand back those that they have no more
// batches for. So the sum of all is the window, whatever is under way.

// takeBack takes the places that a leg has no batches for.
func (c *coordinator) takeBack(b wire.PlacesBack) {
	c.places += b.Places
	if i := slices.IndexFunc(c.legs, func(l *openLeg) bool { return l.number == b.Leg }); i >= 0 {
		c.legs[i].places -= b.Places
		c.legs[i].dry = true
	}
	c.share()
	c.rebound()
}

// share grants places that no leg holds to the oldest legs that have batches for them; what is left is for the next leg.
// If the window has shrunk, it takes places from the latest legs.
func (c *coordinator) share() {
	if c.ending() {
		return // nobody dispatches any more
	}
	for _, l := range c.legs {
		if l.places < 0 { // it has handed back places while others were taken from it
			c.grant(l, -l.places)
		}
		if !l.dry {
			c.grant(l, max(0, min(c.places, l.batches-l.places)))
		}
	}
	for _, l := range slices.Backward(c.legs) {
		if c.places < 0 && l.places > 0 {
			c.grant(l, max(c.places, -l.places))
			l.dry = false // it may need them again
		}
	}
}

// grant gives places to a leg, or takes some. If it has ended, its result does not have them.
func (c *coordinator) grant(l *openLeg, places int) {
	if places == 0 || l.gone {
		return
	}
	c.places -= places
	l.places += places
	l.legHandle.grant(places, func() {
		c.places += places
		l.places -= places
		l.gone = true
		c.share()
	})
}

// resize sets the window: as the settings say, or as large as what is known of the pool makes it.
func (c *coordinator) resize() {
	window := c.spec().Window
	if window == 0 {
		window = c.work.window(pool.View(c.state.Pool))
	}
	before := c.window
	if window == before {
		return
	}
	c.window, c.state.Report.Window, c.state.Pool.Changed = window, window, workflow.Now(c.ctx)
	c.places += window - before
	c.share()
	c.rebound()
	c.wakeUp()
}

// hear takes what a leg reports of the pool.
func (c *coordinator) hear(n wire.PoolNews) {
	pool.Of(&c.state.Pool).Hear(n.Workers...)
	if !n.Since.IsZero() && c.spec().Window == 0 {
		pool.Of(&c.state.Pool).Waited(n.Since)
	}
	if n.Speed.Items > 0 {
		c.state.Speed, c.planning.rateKnown = n.Speed, true
	}
	c.resize()
}
