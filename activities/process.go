package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/internal/stall"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// ProcessInput is one batch to run.
type ProcessInput struct {
	Ref   ledger.Ref       `json:"ref"`
	Batch wire.Batch       `json:"batch"`
	Calls calls.CallLimits `json:"calls"`
	// Trials are what items of the batch have behind them, as an earlier execution has left it: see [calls.Trials].
	Trials []byte `json:"trials,omitempty"`

	Grace time.Duration `json:"grace"`           // of a stop that does not set its own
	Slice time.Duration `json:"slice,omitempty"` // after which the batch returns its rest; 0: never
	// Take is how many of the batch's items are done; the others are its rest. 0: all.
	Take int64 `json:"take,omitempty"`
	// Hopeless is how many items may fail alone in their calls, before one has succeeded, until the batch returns its rest,
	// for the job to decide whether anything works; 0: any number.
	Hopeless int64 `json:"hopeless,omitempty"`
	// OnError is the job's: see [job.Spec].
	OnError string `json:"on_error,omitempty"`
	// Pace is the most items begun in a time; 0: no limit.
	Pace job.Rate `json:"pace,omitempty"`
	// Flatten and KeepDrops are about the job's results: see [job.Spec].Flatten, and Dropped.
	Flatten   bool `json:"flatten,omitempty"`
	KeepDrops bool `json:"keep_drops,omitempty"`
	// Verdict, if it is set, is what all items fail with: the handler is not called.
	Verdict *Verdict `json:"verdict,omitempty"`

	// Items are those of a feed's batch, values in JSON: as many as Batch.Count. Batch has First and Count only then, and
	// so has its rest. Empty: the batch is a range of one of the job's sources.
	Items wire.Items `json:"items,omitempty"`
	// Stored: outcomes are not returned inline, however small they are: they are in a part.
	Stored bool `json:"stored,omitempty"`
	// Inline is how many bytes of what later steps of a pipeline read are returned inline, at most; what has more is in the store. 0: all is.
	Inline int `json:"inline,omitempty"`
	// Format is that of Items, jsonl or text; MaxItem is the job's.
	Format  string `json:"format,omitempty"`
	MaxItem int64  `json:"max_item,omitempty"`

	// Stage is the stage of a pipeline that the execution belongs to. Nil: the job has no stages.
	Stage *wire.Stage `json:"stage,omitempty"`

	// Clock makes the batch a slot of a loop: its items are ticks, its source is the slot's number, and it has no end. Nil: it
	// is none.
	Clock *wire.Clock `json:"clock,omitempty"`
}

// items is how many are to be done.
func (in *ProcessInput) items() int64 {
	if in.Take > 0 {
		return min(in.Take, in.Batch.Count)
	}
	return in.Batch.Count
}

// check returns an error if the input cannot be carried out: its numbers size what an execution holds.
func (in *ProcessInput) check() error {
	switch {
	case in.Take < 0, in.Hopeless < 0, in.MaxItem < 0, in.Slice < 0, in.Grace < 0:
		return errors.New("the number of items to take, to fail or of bytes of an item, or a time, is below 0")
	case in.Batch.From != nil && (in.Stage == nil || in.Stage.Read == nil):
		return errors.New("it has been through a step, and no stage says what to read of that")
	case in.Clock != nil && (in.Clock.Every < 0 || in.Clock.Slot < 0 || in.Clock.Slot >= job.MaxSlots || in.Clock.Next < 0 || in.Clock.Skipped < 0):
		return fmt.Errorf("slot %d of a loop, from tick %d on, every %v", in.Clock.Slot, in.Clock.Next, in.Clock.Every)
	}
	return in.Batch.Valid()
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
	Entry ledger.Entry `json:"entry"`
	// Inline holds the outcomes of a feed's batch, if they are few: the entry then names no part, and has the sizes and
	// checksums that one would have. Nil: they are in the part.
	Inline *ledger.Inline `json:"inline,omitempty"`
	// Rest is what has not been done: the other items of the batch; nil if there are none.
	Rest *wire.Batch `json:"rest,omitempty"`
	// Trials are what items of the rest have behind them, for its execution.
	Trials     []byte          `json:"trials,omitempty"`
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Started is when the worker took the batch from the pool's queue, in Unix milliseconds of the
	// server's clock.
	Started int64 `json:"at,omitempty"`
	// Worker is who has done it.
	Worker string `json:"worker,omitempty"`
	// Unbegun is why the worker could not begin calls for the rest; empty if that is not why there is one.
	Unbegun string `json:"unbegun,omitempty"`
	// Capacity is what that worker runs at once.
	Capacity wire.Capacity `json:"capacity,omitzero"`
	// Paced is the time spent waiting for the pace; part of Totals.Busy.
	Paced time.Duration `json:"paced,omitempty"`
	// SlowDown is how long the handler asked for no new calls; 0: it did not ask.
	SlowDown time.Duration `json:"slow_down,omitempty"`
	// Written is the part, for later steps of a pipeline; nil: the step is the last.
	Written *wire.Part `json:"written,omitempty"`
	// Routed are the cases that a step of a switch has found items of: see [wire.Parcel].
	Routed uint32 `json:"routed,omitempty"`
	// Cuts are places at which later steps of a pipeline can split the batch.
	Cuts []wire.Cut `json:"cuts,omitempty"`
	// Carried are items of the Entry that the step has not had, because another one has settled them.
	Carried Carried `json:"carried,omitzero"`
	// Forced are the processes that a stop had to end by signals.
	Forced []job.ForcedEnd `json:"forced,omitempty"`
	// Left are the job's Go calls that still run on the worker after its stop, each in one result only. Batch is without a number.
	Left []job.Straggler `json:"left,omitempty"`
	// Clock is where the slot of a loop stands after this execution. The entry then names no part: the slot's manifests do.
	Clock *job.LoopSlot `json:"clock,omitempty"`
}

// maxReason is how many bytes ProcessResult.Unbegun may take as JSON.
const maxReason = 300

// Carried counts items that have come through a step of a pipeline without being its own.
type Carried struct {
	Items  int64 `json:"n,omitempty"`
	Failed int64 `json:"f,omitempty"` // of these
}

// Process runs the handler over one batch: it reads the range, calls the handler, and writes the
// results and errors to its own part. It ends before the last item, with a rest, when the job
// stops, when its worker drains and when it has run for its slice of time.
func (a *Activities) Process(ctx context.Context, in ProcessInput) (result ProcessResult, err error) {
	if err := in.Batch.Verify(); err != nil {
		return ProcessResult{}, ledger.Permanent(job.ErrorDamaged, fmt.Errorf("executing %w", err))
	}
	if err := in.check(); err != nil {
		return ProcessResult{}, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("executing %s: %w", in.Batch, err))
	}
	began := time.Now()
	stop := beating(ctx) // it may have to wait
	slot, err := a.opts.Slots.Take(ctx, calls.Occupant{Job: in.Ref.Job, Batch: in.Batch.String(), Items: in.items()})
	stop()
	if errors.Is(err, calls.ErrNoSlot) {
		return ProcessResult{Rest: &in.Batch}, nil // for another worker: this one ends, or has all its calls in hand
	}
	if err != nil {
		return ProcessResult{}, fmt.Errorf("taking a slot: %w", err)
	}
	defer slot.Leave()
	a.opts.Observer.BatchBegan(in.Ref.Job)
	defer func() { a.opts.Observer.BatchEnded(in.Ref.Job, err) }()
	e := &execution{acts: a, in: in, slot: slot, began: began}
	result, err = patiently(ctx, a.opts.Patience, func(ctx context.Context) (ProcessResult, error) {
		e.ctx = ctx
		return e.process()
	})
	e.cameBack()
	if err != nil {
		return result, e.broken(err)
	}
	if in.Items == nil { // callers wait for the results of a feed's batch
		slot.Report(ctx)
	}
	return result, nil
}

// broken returns err, with which the execution has failed. If it is one of a loop's slot, the error's detail is where that stands: the next
// execution begins there.
func (e *execution) broken(err error) error {
	slot := e.slotOfLoop.Load()
	if slot == nil {
		return err
	}
	hint, at := e.whereabouts(nil), slot.Broken()
	hint.Clock = &at
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app):
		return temporal.NewApplicationErrorWithOptions(app.Message(), app.Type(), temporal.ApplicationErrorOptions{
			NonRetryable: app.NonRetryable(), Cause: app.Unwrap(), Details: []any{hint},
		})
	case errors.Is(err, context.Canceled):
		return temporal.NewCanceledErrorWithOptions(temporal.CanceledErrorOptions{Cause: err, Details: []any{hint}})
	}
	detailed := temporal.ApplicationErrorOptions{Cause: err, Details: []any{hint}}
	return temporal.NewApplicationErrorWithOptions(err.Error(), typeOf(err), detailed)
}

func (e *execution) process() (ProcessResult, error) {
	if e.in.Clock == nil {
		e.acts.news.begin(e)
		defer e.acts.news.end(e)
	}
	e.watch = calls.StartWatch(e.ctx, e.limits()) // first: opening may take long, and heartbeats go on meanwhile
	defer e.watch.Stop()
	if err := e.open(); err != nil {
		return ProcessResult{}, err
	}
	defer e.close()
	if err := e.run(); err != nil {
		return ProcessResult{}, err
	}
	if err := stall.GivenUp(e.ctx); err != nil {
		return ProcessResult{}, err
	}
	e.slot.Leave()
	return e.commit()
}

// commit makes the outcomes durable and answers.
func (e *execution) commit() (result ProcessResult, err error) {
	if err := e.source.Unchanged(e.ctx); err != nil {
		return ProcessResult{}, err
	}
	if e.entry.Batch, result.Rest = e.source.Split(); result.Rest != nil {
		result.Trials = e.trials.Encode(result.Rest.First)
	}
	if err := e.sink.Commit(&e.entry); err != nil {
		return ProcessResult{}, err
	}
	if e.inline != nil && e.entry.Count > 0 {
		result.Inline = e.inline.Inline()
	}
	if staged, ok := e.source.(*stages.Source); ok {
		result.Routed = staged.Routed()
	}
	if slot := e.slotOfLoop.Load(); slot != nil {
		final := slot.Final()
		result.Clock = &final
	}
	result.Entry, result.FirstError = e.entry, e.firstError
	if activity.IsActivity(e.ctx) {
		result.Started = activity.GetInfo(e.ctx).StartedTime.UnixMilli()
	}
	result.Worker, result.Paced, result.SlowDown = e.acts.opts.Worker, e.stride.waited, e.watch.SlowedDown()
	if why := e.watch.Unbegun(); why != nil {
		result.Unbegun = text.Fit(why.Error(), maxReason)
	}
	result.Forced, result.Left, result.Capacity = e.watch.Forced(), e.leftAtStop(), e.acts.opts.Capacity()
	result.Totals, result.Carried = e.totals, e.notOwn()
	if e.in.Stage != nil && e.in.Stage.Inner {
		result.Totals.Alone = 0 // an item that fails here has not failed yet
	}
	result.Totals.Add(e.decided())
	if e.passesOn() {
		result.Written, result.Cuts = e.written(), e.cuts.found
	} else {
		result.Totals.InputBytes = e.source.Bytes() // what is between two stages is not done
	}
	result.Totals.Add(job.Totals{
		Batches: 1, Repeated: e.repeated, Busy: time.Since(e.began), CallTimes: e.times.Times(),
	})
	return result, nil
}
