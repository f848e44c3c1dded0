package activities

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/loops"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// PlanLoop begins a loop. If its results are kept, it checks that they can be written, and claims the store for this
// run.
func (a *Activities) PlanLoop(ctx context.Context, in wire.PlanLoopInput) (wire.PlanLoopResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.PlanLoopResult, error) {
		result := wire.PlanLoopResult{Worker: a.opts.Worker, Capacity: a.opts.Capacity(), Version: a.opts.Version}
		if in.Ref.Store == "" {
			return result, nil
		}
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.PlanLoopResult{}, err
		}
		return result, a.claim(ctx, dir, in.Ref, in.Spec)
	})
}

// slotOfLoop is a batch that is a slot of a loop. The slot is source and sink in one.
type slotOfLoop struct{}

func (slotOfLoop) source(e *execution) (source, error) {
	in := &e.in
	o := loops.Options{Ref: in.Ref, Version: e.acts.opts.Version, Soon: e.watch.Soon, Entry: func() wire.Entry { return e.entry }, Write: e.write}
	if in.Clock.Keep {
		dir, err := e.openStore()
		if err != nil {
			return nil, err
		}
		o.Dir = dir
	}
	slot := loops.New(e.ctx, *in.Clock, in.Batch, o)
	e.loop.Store(slot)
	if activity.IsActivity(e.ctx) { // what is lost within its first second has ticks in doubt, too
		activity.RecordHeartbeat(context.WithoutCancel(e.ctx), e.whereabouts(nil))
		if cutOff(e.ctx) { // nobody knows that it begins, so it begins no tick: nobody would count it as repeated
			<-e.watch.Soon
		}
	}
	return slot, nil
}

func (slotOfLoop) sink(e *execution) (sink, error) { return e.loop.Load(), nil }

// slotAt returns where the loop's slot stands; nil: the batch is not one. Any goroutine may call it.
func (e *execution) slotAt(of func(*loops.Slot) job.LoopSlot) *job.LoopSlot {
	slot := e.loop.Load()
	if slot == nil {
		return nil
	}
	at := of(slot)
	return &at
}

// broken returns err, with which the execution has failed. Its detail is what the execution has used; if it is one of a
// loop's slot also where that stands: the next execution begins there.
func (e *execution) broken(err error) error {
	hint := wire.Hint{Usage: e.allow.Used()}
	if e.loop.Load() != nil {
		hint = e.whereabouts(nil)
		hint.Clock = e.slotAt((*loops.Slot).Broken)
	} else if hint.Usage.IsZero() {
		return err
	}
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
