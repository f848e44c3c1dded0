package dispatch

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
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
		d.Link.Counted(d.counts()) // nobody may hear more for as long as the grace
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
	d.sofar.Add(job.Outcomes{Forced: ends})
}

// fail ends the leg with an error: the first one counts. What is in flight gets the job's grace.
func (d *Dispatcher) fail(err *job.Error) {
	if d.sofar.Error != nil {
		return
	}
	d.sofar.Error = err
	d.Link.Failed(err)
	d.stop(wire.StopNotice{Deadline: workflow.Now(d.ctx).Add(d.Spec.Grace), Reason: err.Message})
}

// itemFailed stops the job because an item has failed, if its spec says so: as failed, unless the type of
// the error is one that only stops it.
func (d *Dispatcher) itemFailed(first *job.FirstError) {
	if d.Halted() {
		return
	}
	err := &job.Error{Type: first.Error.Type, Message: fmt.Sprintf("item %s failed%s: %s", text.Thousands(first.Item), first.Label(), first.Error.Message)}
	if !d.Spec.StopsCleanly(err.Type) {
		d.fail(err)
		return
	}
	d.sofar.Error = err
	d.Link.Failed(err)
	d.stop(wire.StopNotice{Deadline: workflow.Now(d.ctx).Add(d.Spec.Grace), Reason: err.Message})
}

// silence is an execution that has expired after a stop: its worker may be frozen or cut off, and what it has started
// may still run.
type silence struct {
	task task
	hint *wire.Hint // nil: nothing was ever heard of it
}

// Why an execution that has expired is named. What the server gives a worker is lost if either dies at that moment, or
// their connection breaks: the server takes it to run.
const (
	silentWorker = "its worker no longer reports: it hangs, is frozen, cut off or dead"
	neverHeard   = "nothing was ever heard of it: it was lost on its way to the worker, or the worker hangs, is frozen, cut off or dead"
)

// why returns why it is named.
func (s silence) why() string {
	if s.hint == nil {
		return neverHeard
	}
	return silentWorker
}

// NoteStragglers names what is still running although Run has returned: batches without an end, and those whose workers
// have fallen silent since a stop. It counts the former as not done but for what Recover makes of their last
// heartbeats. Batches of workers whose processes are known to have ended are not named. It blocks for some seconds if
// there are any.
func (d *Dispatcher) NoteStragglers() {
	d.receiveReturns()
	if len(d.flying) == 0 && len(d.silent) == 0 {
		return
	}
	found := d.locate()
	now := workflow.Now(d.ctx)
	for _, t := range d.flying {
		s := job.Straggler{Batch: t.summary(), Leg: d.State.Number, Since: t.started, Noted: now}
		var hint *wire.Hint
		for _, p := range found.Places {
			if p.Activity == t.activityID() {
				hint = &wire.Hint{SlotRef: p.SlotRef, Clock: p.Clock}
			}
		}
		left, known := d.recoveredBy(*t, hint)
		if d.Recover != nil && !known {
			s.Batch += " · what it has done is not known"
			d.Doubt(t.started, now)
		}
		d.name(s, hint, found.Ended)
		d.returned = append(d.returned, left)
	}
	for _, silent := range d.silent {
		t := silent.task
		s := job.Straggler{Batch: t.summary(), Leg: d.State.Number, Since: t.started, Noted: now, Why: silent.why()}
		hint := silent.hint
		for _, p := range found.Places {
			if p.Activity == t.activityID() && (hint == nil || hint.Process == "") {
				hint = &wire.Hint{SlotRef: p.SlotRef}
			}
		}
		d.name(s, hint, found.Ended)
	}
	d.flying, d.silent = nil, nil
}

// name adds a straggler that is where hint says, unless its worker's process is one of those that have ended.
func (d *Dispatcher) name(s job.Straggler, hint *wire.Hint, ended []string) {
	if hint != nil {
		if hint.Process != "" && slices.Contains(ended, hint.Process) {
			return
		}
		s.Worker, s.Slot, s.PID = hint.Worker, hint.Slot, hint.PID
	}
	d.straggles(s)
}

// MaxStraggler bounds each text of a straggler, in bytes as JSON: a report has a thousand of them.
const MaxStraggler = 200

// straggles adds a straggler to the list, or to the number of those that are not in it.
func (d *Dispatcher) straggles(s job.Straggler) {
	for _, field := range []*string{&s.Batch, &s.Worker, &s.Why} {
		*field = text.Fit(*field, MaxStraggler)
	}
	d.sofar.Add(job.Outcomes{Stragglers: []job.Straggler{s}})
}

// noteLeft names the Go calls that have not ended with a batch.
func (d *Dispatcher) noteLeft(t task, left []job.Straggler) {
	for _, s := range left {
		if s.Batch == t.Batch.String() {
			s.Batch = t.summary()
		}
		s.Leg, s.Noted = d.State.Number, workflow.Now(d.ctx)
		d.straggles(s)
	}
}

// locate asks where the batches in flight run, and which of the silent workers have ended. If nobody knows, they are
// named without a place.
func (d *Dispatcher) locate() wire.LocateResult {
	ctx, _ := workflow.NewDisconnectedContext(d.ctx)
	info := workflow.GetInfo(ctx)
	in := wire.LocateInput{Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
	for _, silent := range d.silent {
		if hint := silent.hint; hint == nil || hint.Process == "" {
			in.Silent = append(in.Silent, silent.task.activityID())
		} else if !slices.Contains(in.Processes, hint.Process) {
			in.Processes = append(in.Processes, hint.Process)
		}
	}
	var found wire.LocateResult
	// A local activity, by its name: the worker that coordinates has it. All workers of the pool may hang.
	err := workflow.ExecuteLocalActivity(execute.LocateOptions(ctx), string(wire.ActivityLocate), in).Get(ctx, &found)
	if err != nil {
		workflow.GetLogger(ctx).Warn("finding out where stragglers run", "error", err)
	}
	return found
}
