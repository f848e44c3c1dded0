package dispatch

import (
	"errors"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/suspicion"
	"go.temporal.io/sdk/temporal"
)

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
