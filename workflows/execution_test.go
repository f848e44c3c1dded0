package workflows

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// execution is one Process.
type execution struct {
	w        *world
	id       string
	workflow string // that has dispatched it
	in       wire.ProcessInput
	options  workflow.ActivityOptions
	number   int // among all executions, from 1
	at       time.Time
	token    []byte

	// What will happen: after took it ends with result or err; 0: it never does.
	took   time.Duration
	result wire.ProcessResult
	err    error
	// onCancel is called when the execution is cancelled; by default it returns the rest.
	onCancel  func()
	cancelled bool
	ended     bool
	beside    int // executions in flight, itself included, when it was dispatched
	ends      int // how often it has been said when it ends: the last time counts
}

// paces is the sum of the paces of what is in flight.
func (w *world) paces() job.Rate {
	var sum job.Rate
	for _, x := range w.waiting {
		sum += x.in.Pace
	}
	return sum
}

// dispatch decides, in the order of the workflow's commands, how a batch will end.
func (w *world) dispatch(ctx workflow.Context, in wire.ProcessInput, options workflow.ActivityOptions) *execution {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &execution{
		w: w, in: in, options: options, number: len(w.all) + 1, at: workflow.Now(ctx),
		workflow: workflow.GetInfo(ctx).WorkflowExecution.ID, took: w.took,
	}
	x.id = fmt.Sprintf("process-%d-%d", w.runs, x.number)
	x.result = x.done(x.takes())
	x.onCancel = func() { x.endAfter(w.settle, x.done(0), nil) }
	if in.Clock == nil && len(in.Items) == 0 {
		assert.Equal(w.t, batch(in.Batch.First, in.Batch.Count).With(in.Batch.From), in.Batch, "a batch is what it was when it was cut, wherever it has been")
	}
	w.all = append(w.all, x)
	w.waiting[x.id] = x
	w.flying++
	x.beside = w.flying
	w.most = max(w.most, w.flying)
	if w.process != nil {
		w.process(x)
	}
	return x
}

// done is the answer of an execution that did its first n items.
func (x *execution) done(n int64) wire.ProcessResult {
	var r wire.ProcessResult
	b := x.in.Batch
	r.Entry = wire.Entry{Batch: batch(b.First, n), Part: x.id, OK: n}
	r.Totals = job.Totals{OK: n, Batches: 1, Calls: 1, CallItems: n, CallMin: n, CallMax: n, InputBytes: n * itemBytes, Busy: time.Second}
	if n < b.Count {
		rest := b.After(n, n*itemBytes)
		r.Rest = &rest
	}
	return r
}

// takes is how many items the execution does.
func (x *execution) takes() int64 {
	if x.in.Take > 0 {
		return min(x.in.Take, x.in.Batch.Count)
	}
	return x.in.Batch.Count
}

// records makes the execution record its items as failed, as its input says.
func (x *execution) records() {
	n := x.takes()
	x.result = x.done(n)
	x.result.Totals.OK, x.result.Totals.Failed = 0, n
	x.result.Entry.OK, x.result.Entry.Failed = 0, n
	x.result.FirstError = &job.FirstError{Item: x.in.Batch.First, Kind: x.in.Verdict.Kind, Error: x.in.Verdict.Error}
}

// fails makes the execution end with an error.
func (x *execution) fails(err error) { x.err = err }

// rests makes the execution end after its first n items.
func (x *execution) rests(n int64) { x.result = x.done(n) }

func (w *world) doProcess(ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
	info := activity.GetInfo(ctx)
	env := w.env
	env.RegisterDelayedCallback(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		x := w.waiting[info.ActivityID]
		assert.Equal(w.t, x.in, in, "what a batch is given survives its journey")
		x.token = info.TaskToken
		if x.cancelled {
			x.onCancel()
		} else if x.took > 0 {
			x.endAfter(x.took, x.result, x.err)
		}
	}, 0)
	return wire.ProcessResult{}, activity.ErrResultPending
}

// endAfter ends the execution after some time, unless it has ended before, or is to end otherwise.
func (x *execution) endAfter(d time.Duration, result wire.ProcessResult, err error) {
	env := x.w.env
	x.ends++
	ends := x.ends
	env.RegisterDelayedCallback(func() {
		x.w.mu.Lock()
		defer x.w.mu.Unlock()
		if x.ended || x.ends != ends {
			return
		}
		x.end(env, result, err)
	}, max(d, time.Nanosecond))
}

// endNow ends the execution with an error, from within something that later calls.
func (x *execution) endNow(err error) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	x.end(x.w.env, wire.ProcessResult{}, err)
}

func (x *execution) end(env *testsuite.TestWorkflowEnvironment, result wire.ProcessResult, err error) {
	x.ended = true
	x.w.flying--
	delete(x.w.waiting, x.id)
	if err == nil {
		assert.NoError(x.w.t, env.CompleteActivity(x.token, result, nil))
	} else {
		assert.NoError(x.w.t, env.CompleteActivity(x.token, nil, err))
	}
	x.w.wake(x.workflow)
}

func (x *execution) cancel() {
	if x.ended || x.cancelled {
		return
	}
	x.cancelled = true
	if x.token != nil {
		x.onCancel()
	}
}

// seconds is when, after the beginning, an execution was dispatched.
func (x *execution) seconds() float64 { return x.at.Sub(x.w.all[0].at).Seconds() }

// tries are the executions of batches that begin with an item.
func (w *world) tries(first int64) []*execution {
	var found []*execution
	for _, x := range w.all {
		if x.in.Batch.First == first {
			found = append(found, x)
		}
	}
	return found
}
