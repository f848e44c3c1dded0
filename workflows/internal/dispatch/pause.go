package dispatch

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
)

// A leg of a job that is paused dispatches nothing, and has no timer. Its batches that wait in queues come back, and
// those that run return their rest after the calls in hand, as at the end of their slice: neither costs an attempt. The
// job says so with its limits, which a leg carries over its runs.

// pause is what a dispatcher knows of pauses of its job.
type pause struct {
	noted bool      // in the memo: one has withdrawn executions of this run
	since time.Time // when the last one began; zero: before the leg's run
	over  time.Time // when the last one ended; zero: there was none
}

// Paused reports that nothing is dispatched because the job is paused.
func (d *Dispatcher) Paused() bool { return d.rate.limits.Paused }

// WentOn returns when the last pause ended; zero: there was none.
func (d *Dispatcher) WentOn() time.Time { return d.pause.over }

// pauseOrGoOn applies the beginning of a pause, or its end.
func (d *Dispatcher) pauseOrGoOn() {
	now := workflow.Now(d.ctx)
	if !d.Paused() {
		d.pause.over = now
		if d.rate.began.After(d.pause.since) {
			d.pause.since = d.rate.began
		}
		d.rate.began = d.rate.began.Add(now.Sub(d.pause.since)) // a rate counts no time in which nothing was done
		return
	}
	d.pause.since = now
	if !d.Halted() {
		d.withdraw()
	}
}

// withdraw takes back what is in flight, and what waits to be repeated.
func (d *Dispatcher) withdraw() {
	if len(d.flying) > 0 && !d.pause.noted {
		d.pause.noted = true
		// Process finds it there: a cancellation carries nothing.
		if err := workflow.UpsertMemo(d.ctx, map[string]any{wire.MemoWithdrawn: true}); err != nil {
			workflow.GetLogger(d.ctx).Error("writing that batches are withdrawn", "error", err)
		}
	}
	for _, t := range d.flying {
		t.withdrawn = true
	}
	d.cancel()
	d.batches, d.cancel = workflow.WithCancel(d.ctx)
	d.rate.wakes = time.Time{} // its timer has been cancelled
}
