package workflows

import (
	"errors"
	"slices"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// window is a leg's share of the job's window: how many batches it may have in flight.
type window struct {
	places   int
	indebted bool   // the job's window has become smaller, and this leg owes places
	next     string // workflow ID of the leg that gets the places which this one does not need; "" if none
	handed   int    // how often places were handed over
	share    int    // least number of places worth a hand-over
	underWay int    // hand-overs that have not been answered
}

// maxHandOvers is how often at most a leg hands places over to the next.
const maxHandOvers = 4

// granted adds places; a negative number means that the job's window has shrunk.
func (w *window) granted(places int) {
	w.places += places
	w.indebted = places < 0 || w.indebted && w.places < 1
}

// handOn gives places that this leg has no more batches for to the next leg, in at most maxHandOvers
// portions: first what is free when the batches run out, then a quarter of what is in flight at a
// time. Places that the leg holds at its end are passed on with its result.
func (d *dispatcher) handOn() {
	w := &d.window
	if w.next == "" || d.halted() {
		return
	}
	if owed := d.owed(); owed < 0 {
		d.handOver(owed, func() {})
		return
	}
	free := w.places - len(d.flying)
	if d.waiting() > 0 || d.delayed > 0 || len(d.flying) == 0 || w.handed == maxHandOvers {
		return
	}
	if w.share == 0 {
		w.share = max(1, (len(d.flying)+maxHandOvers-2)/(maxHandOvers-1))
	}
	if free < 1 || w.handed > 0 && free < w.share {
		return
	}
	w.handed++
	d.handOver(free, func() { w.handed-- })
}

// owed is how many places the next leg has to give up; negative if the job's window has shrunk by more
// than this leg can give back: it keeps the places in use, or one if batches wait.
func (d *dispatcher) owed() int {
	if d.waiting()+d.delayed == 0 {
		return min(0, d.window.places-len(d.flying))
	}
	if !d.window.indebted {
		return 0
	}
	return min(0, d.window.places-1)
}

// handOver gives places to the next leg; refused is called if that has ended.
func (d *dispatcher) handOver(places int, refused func()) {
	w := &d.window
	to := w.next
	w.places -= places
	w.underWay++
	d.selector.AddFuture(d.job.handOver(to, places), func(f workflow.Future) {
		w.underWay--
		if f.Get(d.ctx, nil) == nil {
			return
		}
		// They wait for the leg after it.
		refused()
		w.places += places
		if w.next == to {
			w.next = ""
		}
	})
}

// takePlaces takes places that the leg inside the job does not need any more. Negative ones need a later
// leg that gives them up.
func (c *coordinator) takePlaces(from, places int) error {
	if places < 0 && c.legs[len(c.legs)-1].number <= from {
		return errNoLaterLeg
	}
	c.places += places
	c.grantPlaces(from)
	return nil
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
	if before != 0 {
		c.resized = true
		c.grantPlaces(-1)
		c.wakeUp()
	}
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

var errNoLaterLeg = errors.New("no later leg is open")

// grantPlaces gives the places that no leg holds to the leg that was started last, if it was started after
// the leg that had them: an older one has no use for them. Otherwise the next leg begins with them. If the
// window has shrunk, the number is negative, and goes to the oldest later leg: it has the most places, and
// hands on what it cannot give back.
func (c *coordinator) grantPlaces(from int) {
	if c.places == 0 || len(c.legs) == 0 {
		return
	}
	to := c.legs[len(c.legs)-1]
	if c.places < 0 {
		to = c.legs[max(0, slices.IndexFunc(c.legs, func(l *openLeg) bool { return l.number > from }))]
	}
	if to.number <= from {
		return
	}
	places := c.places
	c.places = 0
	to.grant(places, func() {
		c.places += places
		c.grantPlaces(to.number)
	})
}

// grantLast gives places to an older leg, too, if no further leg will come for them.
func (c *coordinator) grantLast() {
	if c.resized && c.allPlanned() {
		c.grantPlaces(-1)
	}
}
