package workflows

import (
	"slices"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// The places of the window belong to the job. It grants them to its legs, which hand back those that they have no more
// batches for. So the sum of all is the window, whatever is under way.

// window is a leg's share of the job's window: how many batches it may have in flight.
type window struct {
	places   int  // negative: the job's window has become smaller, and what is in flight has to end first
	last     bool // no other leg has a use for places
	handed   int  // how often places were handed back since some were granted
	share    int  // least number of places worth that
	underWay int  // hand-backs that have not been delivered
}

// maxHandBacks is how often at most a leg hands places back to the job, for each time that it was granted some.
const maxHandBacks = 4

// granted adds places; a negative number means that the job's window has shrunk.
func (w *window) granted(places int) {
	w.places += places
	if places > 0 {
		w.handed, w.share = 0, 0
	}
}

// handBack gives places that this leg has no more batches for to the job, in at most maxHandBacks portions: first what
// is free when the batches run out, then a quarter of what is in flight at a time. Places that the leg holds at
// its end are in its result.
func (d *dispatcher) handBack() {
	w := &d.window
	if w.last || d.halted() || d.waiting() > 0 || d.delayed > 0 || len(d.flying) == 0 || w.handed == maxHandBacks {
		return
	}
	if w.share == 0 {
		w.share = max(1, (len(d.flying)+maxHandBacks-2)/(maxHandBacks-1))
	}
	free := w.places - len(d.flying)
	if free < 1 || w.handed > 0 && free < w.share {
		return
	}
	w.handed++
	w.underWay++
	w.places -= free
	d.selector.AddFuture(d.job.handBack(free), func(f workflow.Future) {
		w.underWay--
		if f.Get(d.ctx, nil) != nil { // the job has ended
			w.places += free
		}
	})
}

// placesBack is what a leg hands back.
type placesBack struct {
	Leg    int `json:"leg"`
	Places int `json:"places"`
}

// takeBack takes the places that a leg has no batches for.
func (c *coordinator) takeBack(b placesBack) {
	c.places += b.Places
	if i := slices.IndexFunc(c.legs, func(l *openLeg) bool { return l.number == b.Leg }); i >= 0 {
		c.legs[i].places -= b.Places
		c.legs[i].dry = true
	}
	c.share()
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
		window = c.state.Pool.Window()
	}
	before := c.window
	if window == before {
		return
	}
	c.window, c.state.Report.Window, c.state.Pool.Changed = window, window, workflow.Now(c.ctx)
	c.places += window - before
	c.share()
	c.wakeUp()
}

// hear takes what a leg reports of the pool.
func (c *coordinator) hear(n poolNews) {
	c.state.Pool.Hear(n.Workers...)
	if !n.Since.IsZero() && c.spec().Window == 0 {
		c.state.Pool.Waited(n.Since)
	}
	if n.Speed.Items > 0 {
		c.state.Speed, c.planning.rateKnown = n.Speed, true
	}
	c.resize()
}

// poolNews is what a leg reports of its pool.
type poolNews struct {
	Workers pool.Workers `json:"workers,omitempty"`
	// Since is from when on slots have waited for batches; zero: they have not.
	Since time.Time      `json:"since,omitzero"`
	Speed throttle.Speed `json:"speed,omitzero"` // of the handler; zero: not asked for
}

// learning is what a dispatcher finds out of its pool. The job hears of it at once, but of news that come one after the
// other ever more rarely: the n-th no sooner than 10·n³ milliseconds after the one before. That is ten in
// half a minute, 77 in a day, 180 in a month.
type learning struct {
	sample       pool.Sample
	known        int64 // calls that the workers make at once that the job has heard of
	speedAwaited bool
	news         int       // that the job has heard
	quietUntil   time.Time // it does not hear of any before
}

func newLearning(in LegInput) learning {
	return learning{known: in.Known, news: in.News, speedAwaited: in.SpeedAwaited}
}

// learn notes what the end of a batch shows of the pool, and reports it to the job if that matters to it.
func (d *dispatcher) learn(t task, r activities.ProcessResult) {
	now := workflow.Now(d.ctx)
	d.sofar.Pool, _ = d.sofar.Pool.With(pool.Worker{Name: r.Worker, Capacity: r.Capacity, Last: now.Unix()})
	if t.limited && r.Started > 0 && d.spec.Window == 0 {
		d.sample.Add(t.started, time.UnixMilli(r.Started), now)
	}
	n := poolNews{Since: d.sample.Waiting()}
	if d.speedAwaited && d.sofar.Totals.Batches >= rateBatches {
		n.Speed = d.sofar.Speed
	}
	calls := d.sofar.Pool.Calls()
	if calls > d.known {
		n.Workers = d.sofar.Pool
	}
	if n.Workers == nil && n.Since.IsZero() && n.Speed.Items == 0 || now.Before(d.quietUntil) {
		return
	}
	d.news++
	d.quietUntil = now.Add(10 * time.Millisecond * time.Duration(d.news*d.news*d.news))
	d.known = max(d.known, calls)
	d.speedAwaited = d.speedAwaited && n.Speed.Items == 0
	if !n.Since.IsZero() {
		d.sample.Reported(now)
	}
	d.job.heard(n)
}
