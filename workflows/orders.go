package workflows

import (
	"fmt"
	"slices"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// controls are the ways in which a leg is told something while it runs.
type controls struct {
	halt, grant, next, restarted, limits workflow.ReceiveChannel
}

func signalControls(ctx workflow.Context) controls {
	return controls{
		halt:      workflow.GetSignalChannel(ctx, signalHalt),
		grant:     workflow.GetSignalChannel(ctx, signalGrant),
		next:      workflow.GetSignalChannel(ctx, signalNext),
		restarted: workflow.GetSignalChannel(ctx, job.SignalRestarted),
		limits:    workflow.GetSignalChannel(ctx, signalLimits),
	}
}

func (l *leg) listen() {
	l.selector.AddReceive(l.control.halt, func(c workflow.ReceiveChannel, _ bool) {
		var notice job.StopNotice
		if c.ReceiveAsync(&notice) {
			l.stop(notice)
		}
	})
	l.selector.AddReceive(l.control.grant, func(c workflow.ReceiveChannel, _ bool) { l.receiveGrants() })
	l.selector.AddReceive(l.control.next, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(&l.nextLeg) })
	l.selector.AddReceive(l.control.restarted, func(c workflow.ReceiveChannel, _ bool) { l.receiveRestart() })
	l.selector.AddReceive(l.control.limits, func(c workflow.ReceiveChannel, _ bool) { l.receiveLimits() })
	l.selector.AddReceive(l.wake, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
}

func (l *leg) receiveGrants() {
	var places int
	for l.control.grant.ReceiveAsync(&places) {
		l.granted(places)
	}
}

// granted takes places; less than none where the window has become smaller.
func (l *leg) granted(places int) {
	l.window += places
	l.indebted = places < 0 || l.indebted && l.window < 1
}

// receiveRestart excuses whatever was in flight when the process that held it was replaced.
func (l *leg) receiveRestart() {
	for l.control.restarted.ReceiveAsync(nil) {
		for _, t := range l.flying {
			t.excused = true
		}
	}
}

// drainControls takes in what has arrived, so that nothing is lost over continue-as-new.
func (l *leg) drainControls() {
	l.receiveGrants()
	l.receiveRestart()
	l.receiveLimits()
	for l.control.next.ReceiveAsync(&l.nextLeg) {
	}
	var notice job.StopNotice
	if l.control.halt.ReceiveAsync(&notice) && l.notice == nil {
		l.notice = &notice // nothing is in flight that would have to be told
	}
}

// fail ends the leg with an error: the first one counts. What is in flight gets the job's grace.
func (l *leg) fail(err *job.Error) {
	if l.result.Error != nil {
		return
	}
	l.result.Error = err
	l.onFail(err)
	l.stop(job.StopNotice{Deadline: workflow.Now(l.ctx).Add(max(0, l.in.Spec.Grace)), Reason: err.Message})
}

// stop tells everything in flight to end and waits no longer than the notice and the kill limit allow.
func (l *leg) stop(notice job.StopNotice) {
	if l.notice != nil {
		return
	}
	l.notice = &notice
	// Process finds the notice there: a cancellation carries nothing.
	if err := workflow.UpsertMemo(l.ctx, map[string]any{job.MemoStop: notice}); err != nil {
		workflow.GetLogger(l.ctx).Error("writing the stop's deadline", "error", err)
	}
	l.cancel()
	wait := max(0, notice.Deadline.Sub(workflow.Now(l.ctx))) + killLimit
	l.selector.AddFuture(workflow.NewTimer(l.ctx, wait), func(workflow.Future) { l.overdue = true })
}

// itemFailed stops the job because an item has failed, where its spec says so: as failed, unless the
// type of error is one that only stops it.
func (l *leg) itemFailed(first *job.FirstError) {
	if l.halted() {
		return
	}
	err := &job.Error{Type: first.Error.Type, Message: fmt.Sprintf("item %s failed (%s): %s", job.Thousands(first.Item), first.Kind, first.Error.Message)}
	if !slices.Contains(l.in.Spec.CleanStop, err.Type) {
		l.fail(err)
		return
	}
	l.onFail(err)
	l.stop(job.StopNotice{Deadline: workflow.Now(l.ctx).Add(max(0, l.in.Spec.Grace)), Reason: err.Message})
}

// noteStragglers names what is still running, and takes it for not done.
func (l *leg) noteStragglers() {
	if len(l.flying) == 0 {
		return
	}
	places := l.locate()
	now := workflow.Now(l.ctx)
	for _, t := range l.flying {
		s := job.Straggler{Batch: t.summary(), Leg: l.in.Number, Since: t.started, Noted: now}
		for _, p := range places {
			if p.Activity == t.activityID() {
				s.Worker, s.Slot, s.PID = p.Worker, p.Slot, p.PID
			}
		}
		l.result.Stragglers = append(l.result.Stragglers, s)
		l.waiting = append(l.waiting, *t)
	}
	l.flying = nil
}

// locate asks where the batches in flight run. Where nobody can tell, they stay without a place.
func (l *leg) locate() []job.ActivityPlace {
	if l.in.Version < 1 {
		return nil
	}
	ctx, _ := workflow.NewDisconnectedContext(l.ctx)
	info := workflow.GetInfo(ctx)
	in := activities.LocateInput{Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
	var found activities.LocateResult
	// By name: the worker that coordinates has it, whose pool may have nobody left who is not stuck.
	err := workflow.ExecuteLocalActivity(locateOptions(ctx), job.ActivityLocate, in).Get(ctx, &found)
	if err != nil {
		workflow.GetLogger(ctx).Warn("finding out where stragglers run", "error", err)
	}
	return found.Places
}
