package dispatch

import (
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

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
