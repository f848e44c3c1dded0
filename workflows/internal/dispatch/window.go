package dispatch

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/pool"
)

// window is a leg's share of the job's window: how many batches it may have in flight.
type window struct {
	places   int  // negative: the job's window has become smaller, and what is in flight has to end first
	last     bool // no other leg has a use for places
	handed   int  // how often places were handed back since some were granted
	share    int  // least number of places worth that
	underWay int  // hand-backs that have not been delivered
}

// MaxHandBacks is how often at most a leg hands places back to the job, for each time that it was granted some.
const MaxHandBacks = 4

// granted adds places; a negative number means that the job's window has shrunk.
func (w *window) granted(places int) {
	w.places += places
	if places > 0 {
		w.handed, w.share = 0, 0
	}
}

// Grant adds places; a negative number takes some away, as batches end.
func (d *Dispatcher) Grant(places int) {
	d.window.granted(places)
	d.Wake()
}

// KeepPlaces has the dispatcher hand back no more places: no other leg has a use for them.
func (d *Dispatcher) KeepPlaces() { d.window.last = true }

// Places takes the grants that have arrived, and returns how many places of the window the dispatcher holds.
func (d *Dispatcher) Places() int {
	d.receiveGrants()
	return d.window.places
}

// handBack gives places that this leg has no more batches for to the job, in at most MaxHandBacks portions: first what
// is free when the batches run out, then a quarter of what is in flight at a time. Places that the leg holds at
// its end are in its result.
func (d *Dispatcher) handBack() {
	w := &d.window
	if w.last || d.Halted() || !d.Supply.Ended() || d.waiting() > 0 || len(d.delayed) > 0 || len(d.flying) == 0 || w.handed == MaxHandBacks {
		return
	}
	if w.share == 0 {
		w.share = max(1, (len(d.flying)+MaxHandBacks-2)/(MaxHandBacks-1))
	}
	free := w.places - len(d.flying)
	if free < 1 || w.handed > 0 && free < w.share {
		return
	}
	w.handed++
	w.underWay++
	w.places -= free
	d.selector.AddFuture(d.Link.HandBack(free), func(f workflow.Future) {
		w.underWay--
		if f.Get(d.ctx, nil) != nil { // the job has ended
			w.places += free
		}
	})
}

// RateBatches is how many batches should have ended to show the handler's speed.
const RateBatches = 4

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

// learn notes what the end of a batch shows of the pool, and reports it to the job if that matters to it.
func (d *Dispatcher) learn(t task, r wire.ProcessResult) {
	now := workflow.Now(d.ctx)
	workers, _ := pool.Workers(d.sofar.Pool).With(wire.PoolWorker{Name: r.Worker, Capacity: r.Capacity, Last: now.Unix()})
	d.sofar.Pool = workers
	if t.limited && r.Started > 0 && d.Spec.Window == 0 {
		d.sample.Add(t.started, time.UnixMilli(r.Started), now)
	}
	n := wire.PoolNews{Since: d.sample.Waiting()}
	if d.speedAwaited && d.sofar.Totals.Batches >= RateBatches {
		n.Speed = d.sofar.Speed
	}
	calls := workers.Calls()
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
	d.Link.Heard(n)
}
