package dispatch

import (
	"errors"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/suspicion"
	"go.temporal.io/sdk/temporal"
)

// MaxCause bounds what a suspected task carries of its last loss, in bytes as JSON: a leg that continues as new has
// hundreds.
const MaxCause = 200

// OrphanTries is how many processes may end with the same items in hand before these are suspected: people
// kill processes, too.
const OrphanTries = 3

// orphaned decides what follows the end of the process that had the task in hand, which another one has
// replaced. It is no failed attempt, but an item that kills its process must not do so for ever.
func (d *Dispatcher) orphaned(t task, err error) {
	t.Orphaned++
	t.expired = nil // whoever comes back says nothing of what was found out since
	switch {
	case t.suspicion().Suspected():
		t.suspicion().ProcessEnded()
	case t.Orphaned >= OrphanTries:
		d.suspect(&t, err)
	default:
		d.again(t)
		return
	}
	d.narrowed(t, err)
}

// died decides what follows the death of the worker that had the task in hand. Only deaths count here: an error that passes says nothing of
// the items, and neither does a death say anything of what may still be retried.
func (d *Dispatcher) died(t task, err error) {
	t.Deaths++
	switch {
	case t.suspicion().Suspected():
		t.suspicion().Died()
	case t.Deaths >= d.spec.Attempts:
		d.suspect(&t, err)
	default:
		d.retryLater(t)
		return
	}
	if limit := max(d.spec.Attempts, suspicion.VerdictTries); t.Unwritten >= limit {
		// Not even the verdict can be recorded: it is not the item.
		d.again(t)
		d.fail(exhausted(t, t.losses(), execute.JobError(err).Message))
		return
	}
	d.narrowed(t, err)
}

// suspect begins to look for the item that its workers die of.
func (d *Dispatcher) suspect(t *task, err error) {
	d.sofar.Totals.Isolations++
	t.suspicion().Begin(t.Batch, lastHint(err))
}

// narrowed runs a suspected task again at once. Its errors are forgotten, because it gets on: it has fewer suspects, or is nearer to
// a verdict.
func (d *Dispatcher) narrowed(t task, err error) {
	t.Tries = 0
	if t.Unwritten == 0 { // no worker has died of recording a verdict
		t.Kind, t.Cause = job.KindCrash, text.Fit(execute.JobError(err).Message, MaxCause)
		if execute.IsTimeout(err) && !execute.RanOut(err) {
			t.Kind = job.KindExpired
		}
	}
	d.sofar.Totals.Retries++
	d.again(t)
}

// lastHint is where an execution that has failed with err was: what the last heartbeat of a lost worker said, or the error's
// detail, which those of orphans have, and of slots of loops. Nil: that is not known.
func lastHint(err error) *wire.Hint {
	var hint wire.Hint
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
