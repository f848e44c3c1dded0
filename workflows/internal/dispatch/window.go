package dispatch

import "go.temporal.io/sdk/workflow"

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
	if w.last || d.Halted() || !d.supply.Ended() || d.waiting() > 0 || d.delayed > 0 || len(d.flying) == 0 || w.handed == MaxHandBacks {
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
	d.selector.AddFuture(d.link.HandBack(free), func(f workflow.Future) {
		w.underWay--
		if f.Get(d.ctx, nil) != nil { // the job has ended
			w.places += free
		}
	})
}
