package dispatch

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// KillLimit is what a worker may take, after the grace period, to end a call by TERM and KILL.
const KillLimit = 20 * time.Second

// Halt stops everything in flight, as the signal of that name does.
func (d *Dispatcher) Halt(notice wire.StopNotice) {
	d.stop(notice)
	d.Wake()
}

// Abandon has Run return at once, whatever is in flight: nobody waits for it any more.
func (d *Dispatcher) Abandon() {
	d.overdue = true
	d.Wake()
}

// stop ends everything in flight, and waits no longer than the notice and the kill limit allow.
func (d *Dispatcher) stop(notice wire.StopNotice) {
	if d.notice != nil {
		return
	}
	d.notice = &notice
	// Process finds the notice there: a cancellation carries nothing.
	if err := workflow.UpsertMemo(d.ctx, map[string]any{wire.MemoStop: notice}); err != nil {
		workflow.GetLogger(d.ctx).Error("writing the stop's deadline", "error", err)
	}
	if d.sofar.Totals.Batches != d.report.batches {
		d.link.Counted(d.counts()) // nobody may hear more for as long as the grace
	}
	d.cancel()
	wait := max(0, notice.Deadline.Sub(workflow.Now(d.ctx))) + KillLimit
	d.selector.AddFuture(workflow.NewTimer(d.ctx, wait), func(workflow.Future) { d.overdue = true })
}

// noteForced notes which processes of a batch were ended by signals.
func (d *Dispatcher) noteForced(t task, ends []job.ForcedEnd) {
	for i := range ends {
		ends[i].Batch = t.summary()
	}
	d.sofar.ForcedEnds.Add(wire.ForcedEnds{Forced: ends})
}
