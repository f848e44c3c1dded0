package dispatch

import (
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// KillLimit is what a worker may take, after the grace period, to end a call by TERM and KILL.
const KillLimit = 20 * time.Second

// Halt stops everything in flight, as the signal of that name does.
func (d *Dispatcher) Halt(notice protocol.StopNotice) {
	d.stop(notice)
	d.Wake()
}

// Abandon has Run return at once, whatever is in flight: nobody waits for it any more.
func (d *Dispatcher) Abandon() {
	d.overdue = true
	d.Wake()
}

// stop ends everything in flight, and waits no longer than the notice and the kill limit allow.
func (d *Dispatcher) stop(notice protocol.StopNotice) {
	if d.notice != nil {
		return
	}
	d.notice = &notice
	// Process finds the notice there: a cancellation carries nothing.
	if err := workflow.UpsertMemo(d.ctx, map[string]any{protocol.MemoStop: notice}); err != nil {
		workflow.GetLogger(d.ctx).Error("writing the stop's deadline", "error", err)
	}
	d.cancel()
	wait := max(0, notice.Deadline.Sub(workflow.Now(d.ctx))) + KillLimit
	d.selector.AddFuture(workflow.NewTimer(d.ctx, wait), func(workflow.Future) { d.overdue = true })
}

// ForcedEnds are the processes that a stop has ended by signals: at most job.MaxForced, and a count of the others.
type ForcedEnds struct {
	Forced        []job.ForcedEnd `json:"forced,omitempty"`
	ForcedOmitted int             `json:"forced_omitted,omitempty"`
}

// Add adds others, as far as there is room for them.
func (f *ForcedEnds) Add(other ForcedEnds) {
	all := append(f.Forced, other.Forced...)
	f.Forced = all[:min(len(all), job.MaxForced)]
	f.ForcedOmitted += other.ForcedOmitted + len(all) - len(f.Forced)
}

// noteForced notes which processes of a batch were ended by signals.
func (d *Dispatcher) noteForced(t Task, ends []job.ForcedEnd) {
	for i := range ends {
		ends[i].Batch = t.summary()
	}
	d.sofar.ForcedEnds.Add(ForcedEnds{Forced: ends})
}

// NoteStragglers names the batches that are still running although Run has returned, and counts them as not done but for what Recover makes of
// their last heartbeats. It blocks for some seconds if there are any.
func (d *Dispatcher) NoteStragglers() {
	if len(d.flying) == 0 {
		return
	}
	places := d.locate()
	now := workflow.Now(d.ctx)
	for _, t := range d.flying {
		s := job.Straggler{Batch: t.summary(), Leg: d.report.leg, Since: t.started, Noted: now}
		var hint *protocol.Hint
		for _, p := range places {
			if p.Activity == t.activityID() {
				s.Worker, s.Slot, s.PID = p.Worker, p.Slot, p.PID
				hint = &protocol.Hint{Place: p.Place, Clock: p.Clock}
			}
		}
		left, known := d.recoveredBy(*t, hint)
		if d.recover != nil && !known {
			s.Batch += " · what it has done is not known"
			d.doubt(t.started, now)
		}
		d.sofar.Stragglers = append(d.sofar.Stragglers, s)
		d.returned = append(d.returned, left)
	}
	d.flying = nil
}

// locate asks where the batches in flight run. If nobody knows, they are named without a place.
func (d *Dispatcher) locate() []protocol.ActivityPlace {
	ctx, _ := workflow.NewDisconnectedContext(d.ctx)
	info := workflow.GetInfo(ctx)
	in := activities.LocateInput{Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
	var found activities.LocateResult
	// A local activity, by its name: the worker that coordinates has it. All workers of the pool may hang.
	err := workflow.ExecuteLocalActivity(execute.LocateOptions(ctx), protocol.ActivityLocate, in).Get(ctx, &found)
	if err != nil {
		workflow.GetLogger(ctx).Warn("finding out where stragglers run", "error", err)
	}
	return found.Places
}
