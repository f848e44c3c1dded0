package dispatch

import (
	"errors"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/suspicion"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// A batch whose workers keep dying probably holds an item that kills them. The leg halves the batch until
// that item is alone (package suspicion has the arithmetic; activities.ProcessInput.Take has only the first
// items done).
//
// A worker that dies takes other batches with it, and two bad ones at a time could make a third, good one
// look bad. So a leg has one suspected batch in flight at a time, and the last item that is suspected runs
// alone, with nothing else of the leg in flight.

// OrphanTries is how many processes may end with the same items in hand before these are suspected: people
// kill processes, too.
const OrphanTries = 3

// orphaned decides what follows the end of the process that had the task in hand, which another one has
// replaced. It is no failed attempt, but an item that kills its process must not do so for ever.
func (d *Dispatcher) orphaned(t Task, err error) {
	if t.Orphaned++; t.Suspected() || t.Orphaned >= OrphanTries {
		d.lost(t, err)
		return
	}
	t.Deaths++
	d.again(t)
}

// lost decides what follows the death of the worker that had the task in hand.
func (d *Dispatcher) lost(t Task, err error) {
	t.Deaths++
	t.Kind, t.Cause = job.KindCrash, execute.JobError(err).Message
	if execute.IsTimeout(err) && !execute.RanOut(err) {
		t.Kind = job.KindExpired
	}
	if t.Suspected() {
		t.Died()
	} else {
		d.sofar.Totals.Isolations++
		t.Begin(t.Batch, lastHint(err))
	}
	if t.Condemned && t.Single >= suspicion.SingleTries+d.spec.Attempts {
		// Not even the verdict can be recorded: it is not the item.
		d.again(t)
		d.fail(exhausted(t, t.Deaths, t.Cause))
		return
	}
	d.sofar.Totals.Retries++
	d.again(t)
}

// lastHint is where an execution that has failed with err was: what the last heartbeat of a lost worker said, or the error's
// detail, which those of orphans have, and of slots of loops. Nil: that is not known.
func lastHint(err error) *protocol.Hint {
	var hint protocol.Hint
	var timeout *temporal.TimeoutError
	var failed *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&hint) == nil:
		return &hint
	case errors.As(err, &failed) && failed.HasDetails() && failed.Details(&hint) == nil:
		return &hint
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&hint) == nil:
		return &hint
	}
	return nil
}

// nextReturned takes out the first returned task that may run beside what is in flight. blocked reports
// that nothing else may start either.
func (d *Dispatcher) nextReturned() (t Task, ok, blocked bool) {
	suspect, single := false, false // in flight
	for _, t := range d.flying {
		suspect = suspect || t.Suspected()
		single = single || t.Alone()
	}
	if single {
		return Task{}, false, true
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
		case d.held(&t), t.Suspected() && suspect:
			continue
		case t.Alone() && len(d.flying) > 0:
			return Task{}, false, true // until it is alone
		}
		d.returned = append(d.returned[:i:i], d.returned[i+1:]...)
		return t, true, false
	}
	if !soonest.IsZero() {
		d.wakeAt(soonest)
	}
	return Task{}, false, false
}
