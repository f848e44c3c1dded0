package dispatch

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// A batch whose workers keep dying probably holds an item that kills them. The leg halves the batch until
// that item is alone (package suspicion has the arithmetic; activities.ProcessInput.Take has only the first
// items done).
//
// A worker that dies takes other batches with it, and two bad ones at a time could make a third, good one
// look bad. So a leg has one suspected batch in flight at a time, and the last item that is suspected runs
// alone, with nothing else of the leg in flight.

// nextReturned takes out the first returned task that may run beside what is in flight. blocked reports
// that nothing else may start either.
func (d *Dispatcher) nextReturned() (t task, ok, blocked bool) {
	suspect, single := false, false // in flight
	for _, t := range d.flying {
		suspect = suspect || t.suspicion().Suspected()
		single = single || t.suspicion().Alone()
	}
	if single {
		return task{}, false, true
	}
	now := workflow.Now(d.ctx)
	var soonest time.Time
	for i, t := range d.returned {
		switch {
		case now.Before(t.After):
			if soonest.IsZero() || t.After.Before(soonest) {
				soonest = t.After
			}
			continue
		case d.held(&t), t.suspicion().Suspected() && suspect:
			continue
		case t.suspicion().Alone() && len(d.flying) > 0:
			return task{}, false, true // until it is alone
		}
		d.returned = append(d.returned[:i:i], d.returned[i+1:]...)
		return t, true, false
	}
	if !soonest.IsZero() {
		d.wakeAt(soonest)
	}
	return task{}, false, false
}
