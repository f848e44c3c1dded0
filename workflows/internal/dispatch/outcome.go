package dispatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// succeeded takes the result of an execution: accepted items, and perhaps a rest.
func (d *Dispatcher) succeeded(t task, r wire.ProcessResult) {
	d.noteForced(t, r.Forced)
	d.noteLeft(t, r.Left)
	d.noteTurns(t, r)
	if r.Entry.Count > 0 {
		d.sofar.Outage = nil
		d.rate.effort.Add(r.Entry.Count, r.Totals.Busy-r.Paced)
		d.Recorder.Accept(t.Task, r)
		d.sofar.Totals.Add(r.Totals)
		d.sofar.Speed.Add(r.Entry.Count, r.Totals.Busy)
		d.sofar.FirstError = d.sofar.FirstError.First(r.FirstError)
		d.credit(t, r)
		d.countStage(t, r)
	} else {
		d.sofar.Totals.Alone += r.Totals.Alone
		d.sofar.Totals.Usage.Add(r.Totals.Usage)
		d.stageUsed(t, r.Totals.Usage)
	}
	d.learn(t, r)
	if r.Rest != nil {
		t.resize(r.Entry.Count, r.SlowDown)
		t.Batch, t.Trials = *r.Rest, r.Trials
		if t.suspicion().Suspected() {
			t.suspicion().Survived(r.Entry.Count, t.Count)
		}
		if r.Entry.Count > 0 {
			t.Tries, t.Orphaned, t.Outages, t.Returns, t.expired = 0, 0, 0, 0, nil // it has made progress
		}
		t.Rests++
		if r.Unbegun != "" {
			d.lastError = fmt.Sprintf("batch %s (%s): %s could not begin anything: %s", text.Thousands(t.Number), t.Batch, r.Worker, r.Unbegun)
		}
		d.again(t)
	}
	if r.SlowDown > 0 {
		d.slowDown(t, r.SlowDown)
	}
	if r.FirstError != nil && d.Spec.OnError == job.OnErrorStop {
		d.itemFailed(r.FirstError)
	}
	d.reportCounts()
}

// credit counts what a worker has done, and the version of its handler.
func (d *Dispatcher) credit(t task, r wire.ProcessResult) {
	share := job.WorkerShare{Batches: 1, Items: r.Entry.Count, Busy: r.Totals.Busy, Last: workflow.Now(d.ctx)}
	if of := share; r.Entry.Version != "" {
		of.Version, of.Stage = r.Entry.Version, t.Stage
		d.sofar.Add(job.Outcomes{Versions: []job.WorkerShare{of}})
	}
	if share.Worker = r.Worker; r.Worker == "" {
		return
	}
	share.Concurrency = r.Capacity.Present()
	d.sofar.Add(job.Outcomes{Workers: []job.WorkerShare{share}})
}

// again puts a task first in the queue: old tasks go before new ones.
func (d *Dispatcher) again(t task) { d.returned = append([]task{t}, d.returned...) }

// failed decides what an execution's error means. While stopping, whatever it is, the range is a rest.
func (d *Dispatcher) failed(t task, err error) {
	d.lost(err)
	timedOut := execute.RanOut(err)
	if timedOut && !t.excused {
		d.sofar.Totals.Expiries++
	}
	t, idle := d.recovered(t, err)
	if timedOut && !t.excused {
		t.expired = &expired{t.activityID(), t.Suspicion}
	}
	switch {
	case d.Halted(), idle, t.withdrawn:
		if d.Halted() && timedOut && !t.excused { // one that was lost in a loop before a stop goes on elsewhere
			d.silent = append(d.silent, silence{t, lastHint(err)})
		}
		d.again(t)
		return
	case execute.IsType(err, wire.ErrorOrphaned), timedOut && t.excused:
		d.orphaned(t, err)
		return
	case execute.IsPermanent(err):
		d.again(t)
		d.fail(execute.JobError(err))
		return
	case execute.IsType(err, job.ErrorOutage):
		d.waitOut(t, execute.JobError(err))
		return
	}
	cause := execute.JobError(err)
	d.lastError = t.blame(cause)
	if execute.IsTimeout(err) {
		d.died(t, err)
		return
	}
	if t.Tries++; t.Tries >= d.Spec.Attempts {
		d.again(t)
		d.fail(exhausted(t, t.Tries, cause.Message))
		return
	}
	d.retryLater(t)
}

// recovered returns what an execution that has failed has left of its task, by its error or its last heartbeat. idle
// says that it was lost, and had nothing in hand then, so that its loss says nothing of the items.
func (d *Dispatcher) recovered(t task, err error) (left task, idle bool) {
	hint := lastHint(err)
	lost := execute.IsTimeout(err) || execute.IsType(err, wire.ErrorOrphaned)
	if lost && hint != nil && hint.Waiting && t.Returns < maxReturns { // a later heartbeat may not have arrived
		t.Returns++
		return t, true
	}
	left, known := d.recoveredBy(t, hint)
	if !known {
		return t, false
	}
	d.reportCounts()
	return left, lost && hint.Count == 0
}

// recoveredBy accepts what an execution that has failed had done by then, and returns what it has left of its task. It
// returns false if that is not known.
func (d *Dispatcher) recoveredBy(t task, hint *wire.Hint) (left task, known bool) {
	if d.Recover == nil || hint == nil {
		return t, false
	}
	r, ok := d.Recover(*hint)
	if !ok || r.Rest == nil || t.answers(&r) != nil {
		return t, false
	}
	if r.Entry.Count > 0 {
		d.sofar.Outage = nil
		d.Recorder.Accept(t.Task, r)
		d.sofar.Totals.Add(r.Totals)
		d.credit(t, r)
		t.Batch, t.Trials = *r.Rest, r.Trials
		t.Suspicion, t.Tries, t.Orphaned, t.Outages, t.Returns = wire.Suspicion{}, 0, 0, 0, 0 // it has made progress
		t.expired = nil
	}
	return t, true
}

// retryLater has a task tried again after a delay, in which it holds no place.
func (d *Dispatcher) retryLater(t task) {
	d.sofar.Totals.Retries++
	d.delayed = append(d.delayed, &t)
	delay := retryDelay(d.Spec.Backoff, t.failures())
	due, timer := workflow.Now(d.ctx).Add(delay), workflow.NewTimer(d.batches, delay)
	d.selector.AddFuture(timer, func(f workflow.Future) {
		if f.Get(d.ctx, nil) != nil { // a stop and a pause cancel it: it ends at once
			t.After = due
		}
		d.delayed = slices.DeleteFunc(d.delayed, func(other *task) bool { return other == &t })
		d.again(t)
	})
}

// maxOutageText bounds what is kept of an outage's message, in bytes.
const maxOutageText = 500

// outageDelay is the wait of a task that has met an outage. It doubles up to limits.MaxBackoff.
const outageDelay = time.Second

// waitOut has a task wait until the outage that it has met is over: that costs it no attempt. Another batch
// may depend on another host, so one is tried at once; the waits after that double as well.
func (d *Dispatcher) waitOut(t task, cause *job.Error) {
	now, o := workflow.Now(d.ctx), d.sofar.Outage
	t.Outages++
	t.After = now.Add(retryDelay(outageDelay, t.Outages))
	d.lastError = t.blame(cause)
	d.returned = append(d.returned, t)
	d.sofar.Totals.Retries++
	if o != nil && t.started.Before(o.Next) {
		return // it was in flight when the outage began
	}
	if o == nil {
		o = &job.Outage{Since: now, Next: now}
		d.sofar.Outage = o
	}
	if o.Tries++; o.Tries > 1 {
		o.Next = now.Add(retryDelay(outageDelay, o.Tries-1))
	}
	o.Message = text.Fit(d.lastError, maxOutageText)
	if o.Tries >= execute.MaxAttempts {
		d.fail(&job.Error{Type: job.ErrorOutage, Message: fmt.Sprintf("given up after %d tries since %s; resume when this works again: %s",
			o.Tries, o.Since.UTC().Format(time.RFC3339), o.Message)})
	}
}

// outOfReach reports whether the next batch has to wait for the end of an outage. One batch at a time finds out
// whether it has ended, so that an outage of a day is some thousand events, whatever the window.
func (d *Dispatcher) outOfReach() bool {
	o := d.sofar.Outage
	switch {
	case o == nil:
		return false
	case workflow.Now(d.ctx).Before(o.Next):
		d.wakeAt(o.Next)
		return true
	}
	return slices.ContainsFunc(d.flying, func(t *task) bool { return !t.started.Before(o.Next) })
}

// exhausted is the error of a job that has a batch which cannot be done.
func exhausted(t task, tries int, cause string) *job.Error {
	return &job.Error{Type: job.ErrorExhausted, Message: fmt.Sprintf("%s was tried %d times; the last time: %s", t.Batch, tries, cause)}
}
