package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
)

// ProcessInput is one batch to run.
type ProcessInput struct {
	Ref   Ref           `json:"ref"`
	Batch job.Batch     `json:"batch"`
	Calls CallLimits    `json:"calls"`
	Grace time.Duration `json:"grace"`           // of a stop that does not tell its own
	Slice time.Duration `json:"slice,omitempty"` // after which the batch returns its rest; 0: never
	// Take is how many of the batch's items are done; the others are its rest. 0: all.
	Take int64 `json:"take,omitempty"`
	// OnError is the job's: see [job.Spec].
	OnError string `json:"on_error,omitempty"`
	// Pace is the most items begun in a time; 0: no limit.
	Pace job.Rate `json:"pace,omitempty"`
	// Verdict, where there is one, is what those items have failed with: the handler is not called.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Verdict is why items are recorded as failed without being tried again: every worker that had them
// in hand has died.
type Verdict struct {
	Kind     string    `json:"kind"` // one of job.Kind…
	Error    job.Error `json:"error"`
	Attempts int       `json:"attempts"`
}

// ProcessResult is an execution's answer. Only when the workflow has accepted it does its part count.
type ProcessResult struct {
	// Entry is what has been done: the first items of the batch, perhaps none.
	Entry Entry `json:"entry"`
	// Rest is what has not been done: the other items of the batch; nil where there are none.
	Rest       *job.Batch      `json:"rest,omitempty"`
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Started is when the worker took the batch from the pool's queue, in Unix milliseconds of the
	// server's clock.
	Started int64 `json:"at,omitempty"`
	// Worker is who has done it.
	Worker string `json:"worker,omitempty"`
	// Paced is the time spent waiting for the pace; part of Totals.Busy.
	Paced time.Duration `json:"paced,omitempty"`
	// SlowDown is how long the handler wants nothing to be begun; 0: it is content.
	SlowDown time.Duration `json:"slow_down,omitempty"`
}

// Process runs the handler over one batch: it reads the range, calls the handler, and writes the
// results and errors to a part of its own. It ends before the last item, with a rest, when the job
// stops, when its worker drains and when it has run for its slice of time.
func (a *Activities) Process(ctx context.Context, in ProcessInput) (result ProcessResult, err error) {
	e := &execution{acts: a, in: in, ctx: ctx, began: time.Now()}
	e.slot, err = a.opts.Slots.Take(ctx, Occupant{Job: in.Ref.Job, Batch: in.Batch.String()})
	if errors.Is(err, ErrNoSlot) {
		return ProcessResult{Rest: &in.Batch}, nil // for another worker: this one ends
	}
	if err != nil {
		return ProcessResult{}, fmt.Errorf("taking a slot: %w", err)
	}
	defer e.slot.Leave()
	a.opts.Observer.BatchBegan(in.Ref.Job)
	defer func() { a.opts.Observer.BatchEnded(in.Ref.Job, err) }()
	if err := e.open(); err != nil {
		return ProcessResult{}, err
	}
	defer e.close()
	if err := e.run(); err != nil {
		return ProcessResult{}, err
	}
	e.slot.Leave()
	result, err = e.commit()
	if err == nil {
		e.early.offer(result.Entry, e.takeHeld())
	}
	return result, err
}

// run does chunk after chunk until the batch's end, or until it should end.
func (e *execution) run() error {
	e.chunkBuffers = e.acts.buffers.Get().(*chunkBuffers)
	defer func() {
		if !e.caller.tainted {
			e.acts.buffers.Put(e.chunkBuffers)
		}
	}()
	e.caller.answer = &e.answer
	e.stride.pace = e.in.Pace
	for !e.minder.ending.Load() && e.left() > 0 {
		size := e.acts.opts.Handler.CallSize()
		size.Items = e.acts.opts.Limiter.portion(e.stride.portion(size.Items))
		e.reserve(size)
		err := e.reader.Read(&e.chunk, int(min(int64(size.Items), e.left())), size.Bytes)
		if err == io.EOF {
			return e.checkComplete()
		}
		if err != nil {
			return storeError(job.ErrorInput, fmt.Errorf("reading %s: %w", e.source.URL, err))
		}
		e.prepare()
		waited, ok := e.acts.opts.Limiter.take(e.minder, len(e.items))
		e.stride.waited += waited
		if !ok {
			return nil
		}
		e.hint.Store(&job.Hint{First: e.in.Batch.First + e.entry.Count, Count: int64(len(e.chunk.Items))})
		err = e.settle()
		recorded := e.record()
		e.tell()
		if recorded != nil {
			return recorded
		}
		if errors.Is(err, errEnding) || e.in.OnError == job.OnErrorStop && e.firstError != nil {
			return nil
		}
		e.stride.pass(e.minder, len(e.chunk.Items))
		if e.caller.tainted {
			e.chunkBuffers = &chunkBuffers{}
			e.caller.answer, e.caller.tainted = &e.answer, false
		}
	}
	return nil
}

// left is how many items are still to be done. At the end of a whole batch it is one more: that the
// range holds nothing else is seen by reading on.
func (e *execution) left() int64 {
	if e.in.Take > 0 && e.in.Take < e.in.Batch.Count {
		return e.in.Take - e.entry.Count
	}
	return e.in.Batch.Count - e.entry.Count + 1
}

// settle gives each of the chunk's items its outcome, up to where the batch ends early.
func (e *execution) settle() error {
	v := e.in.Verdict
	if v == nil {
		return e.caller.run(e.items)
	}
	for range e.items {
		e.answer.Fail(&Fault{Kind: v.Kind, Err: v.Error}, v.Attempts)
	}
	return nil
}

// reserve makes room for a chunk of the size, or for what the batch has left.
func (e *execution) reserve(size CallSize) {
	items := int(min(int64(size.Items), e.in.Batch.Count-e.entry.Count))
	e.chunk.Reserve(items, int(min(int64(size.Bytes), e.in.Batch.Length-e.length))+1)
	if items > cap(e.chunkBuffers.items) {
		e.chunkBuffers.items = make([]Item, 0, items)
	}
}

// checkComplete fails where the range did not hold what was planned.
func (e *execution) checkComplete() error {
	if e.entry.Count == e.in.Batch.Count {
		return nil
	}
	return permanent(job.ErrorChanged, fmt.Errorf(
		"input %s changed while the job ran: %d bytes from offset %d held %d items when they were planned, and now hold %d; start anew with --fresh",
		e.source.URL, e.in.Batch.Length, e.in.Batch.Offset, e.in.Batch.Count, e.entry.Count))
}

// commit makes the part durable and answers.
func (e *execution) commit() (ProcessResult, error) {
	if e.source.Spool == "" {
		if err := e.acts.unchanged(context.WithoutCancel(e.ctx), e.source); err != nil {
			return ProcessResult{}, err
		}
	}
	if err := errors.Join(e.results.commit(), e.errors.commit()); err != nil {
		return ProcessResult{}, err
	}
	var result ProcessResult
	if e.entry.Count == e.in.Batch.Count {
		e.length = e.in.Batch.Length // blank lines at the end included
	}
	if e.entry.Count < e.in.Batch.Count {
		rest := e.in.Batch.After(e.entry.Count, e.length)
		result.Rest = &rest
	}
	e.entry.Length = e.length
	e.entry.Bytes, e.entry.Sum = e.results.bytes, e.results.sum
	e.entry.ErrBytes, e.entry.ErrSum = e.errors.bytes, e.errors.sum
	result.Entry, result.FirstError = e.entry, e.firstError
	if activity.IsActivity(e.ctx) {
		result.Started = activity.GetInfo(e.ctx).StartedTime.UnixMilli()
	}
	result.Worker, result.Paced, result.SlowDown = e.acts.opts.Worker, e.stride.waited, e.minder.slowedDown()
	c := e.caller
	result.Totals = job.Totals{
		OK: e.entry.OK, Failed: e.entry.Failed, Dropped: e.entry.Dropped,
		Batches: 1, Retries: c.retries, Crashes: c.crashes, Expiries: c.expiries, Isolations: c.isolations,
		Calls: c.calls, CallItems: c.callItems, CallMin: c.callMin, CallMax: c.callMax,
		InputBytes: e.length, Busy: time.Since(e.began),
	}
	return result, nil
}
