package workflows

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

func (l *leg) succeeded(t task, r activities.ProcessResult) {
	l.pace.landed(r.Started, r.Totals.Busy)
	if r.Entry.Count > 0 {
		l.effort.add(r.Entry.Count, r.Totals.Busy-r.Paced)
		l.accepted = append(l.accepted, r.Entry)
		l.result.Totals.Add(r.Totals)
		l.result.Speed.add(r.Entry.Count, r.Totals.Busy)
		l.result.FirstError = l.result.FirstError.First(r.FirstError)
		l.credit(r)
	}
	if r.Rest != nil {
		t.portion(r.Entry.Count, r.SlowDown)
		t.Batch = *r.Rest
		if t.suspected() {
			t.survived(r.Entry.Count, t.Count)
		}
		if r.Entry.Count > 0 {
			t.Tries = 0 // it got on
		}
		t.Rests++
		l.again(t)
	}
	if r.SlowDown > 0 {
		l.slowDown(r.SlowDown)
	}
	if r.FirstError != nil && l.in.Spec.OnError == job.OnErrorStop {
		l.itemFailed(r.FirstError)
	}
	l.tell()
}

// credit counts what a worker has done.
func (l *leg) credit(r activities.ProcessResult) {
	if r.Worker == "" {
		return
	}
	l.result.Workers = job.AddWorkers(l.result.Workers, []job.WorkerShare{{
		Worker: r.Worker, Batches: 1, Items: r.Entry.Count, Busy: r.Totals.Busy, Last: workflow.Now(l.ctx),
	}})
}

// again puts a task first in the queue: what is old goes before what is new.
func (l *leg) again(t task) { l.waiting = append([]task{t}, l.waiting...) }

// failed decides what an execution's error means. While stopping, whatever it is, the range is a rest.
func (l *leg) failed(t task, err error) {
	timedOut := ranOut(err)
	if timedOut && !t.excused {
		l.result.Totals.Expiries++
	}
	switch {
	case l.halted(), isType(err, job.ErrorOrphaned), timedOut && t.excused:
		l.again(t)
		return
	case isPermanent(err):
		l.again(t)
		l.fail(jobError(err))
		return
	}
	t.Tries++
	cause := jobError(err)
	if isTimeout(err) && (t.suspected() || t.Tries >= l.in.Spec.Attempts) && l.narrows() {
		l.lastError = l.blame(t, cause)
		l.lost(t, err)
		return
	}
	if isTimeout(err) {
		t.Deaths++
	}
	l.lastError = l.blame(t, cause)
	if t.Tries >= l.in.Spec.Attempts {
		l.again(t)
		l.fail(exhausted(t, t.Tries, cause.Message))
		return
	}
	l.result.Totals.Retries++
	l.delayed++
	timer := workflow.NewTimer(l.batches, retryDelay(l.in.Spec.Backoff, t.Tries))
	l.selector.AddFuture(timer, func(workflow.Future) { // ended by a stop, it comes at once
		l.delayed--
		l.again(t)
	})
}

// blame tells people why a batch is tried again.
func (l *leg) blame(t task, cause *job.Error) string {
	return fmt.Sprintf("batch %s (%s): %s", job.Thousands(t.Number), t.Batch, cause.Message)
}

func isTimeout(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout)
}

func isPermanent(err error) bool {
	for _, kind := range job.PermanentErrors() {
		if isType(err, kind) {
			return true
		}
	}
	return false
}

func retryDelay(first time.Duration, tries int) time.Duration {
	d := first
	for i := 1; i < tries && d < job.MaxBackoff; i++ {
		d *= 2
	}
	return min(d, job.MaxBackoff)
}
