package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stint-run/stint/job"
)

// trial makes calls that belong to no batch, as Process makes those that do.
type trial struct {
	acts     *Activities
	spec     job.Spec
	parallel int // calls at once

	mu     sync.Mutex
	sample *Sample
}

// run has items handled as one call, and what becomes of it where that fails.
func (t *trial) run(ctx context.Context, items []Item) error {
	slot, err := t.acts.opts.Slots.Take(ctx, Occupant{Job: t.spec.Name, Batch: "a sample"})
	if err != nil {
		return fmt.Errorf("taking a slot: %w", err)
	}
	defer slot.Leave()
	m := mind(ctx, minderLimits{
		call: max(0, t.spec.CallTimeout), stopped: ctx.Done(),
		watchdog: t.acts.opts.Watchdog, worker: t.spec.Name + "/sample",
	})
	defer m.stop()
	c := &caller{
		handler: t.acts.opts.Handler, minder: m, slot: slot, job: t.spec.Name, observer: &timekeeper{trial: t}, answer: &Answer{},
		limits: CallLimits{
			Timeout: max(0, t.spec.CallTimeout), Attempts: t.spec.Attempts, ItemAttempts: t.spec.ItemAttempts, Backoff: t.spec.Backoff,
		},
	}
	err = c.run(items)
	t.settle(items, c.answer)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.slowedDown() > 0:
		return fmt.Errorf("the handler asked for less work (nothing more for %v) when %d calls were made at once: try fewer slots", m.slowedDown(), t.parallel)
	case errors.Is(err, errEnding):
		return ErrNoSlot
	}
	return err
}

// settle counts the outcomes of a call's items.
func (t *trial) settle(items []Item, answer *Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := 0
	answer.each(func(o outcome) {
		switch {
		case o.fault != nil:
			t.sample.fail(items[i].Ordinal, o.fault)
		case o.drop:
			t.sample.Dropped++
			t.sample.OK++
		default:
			t.sample.OK++
		}
		i++
	})
	t.sample.ResultBytes += int64(len(answer.buf))
}

func (s *Sample) fail(ordinal int64, fault *Fault) {
	s.Failed++
	short := fault.Err
	short.Message, short.Stack = cutText(short.Message, maxFirstError), ""
	s.FirstError = s.FirstError.First(&job.FirstError{Item: ordinal, Kind: fault.Kind, Error: short})
}

// invalidFault says that bytes are no item in their format.
func invalidFault(err error) *Fault {
	return &Fault{Kind: job.KindInvalid, Err: job.Error{Type: "Invalid", Message: err.Error()}}
}

// timekeeper notes what the calls of a trial take.
type timekeeper struct {
	unobserved
	trial *trial
}

func (k *timekeeper) CallEnded(s CallStats) {
	k.trial.mu.Lock()
	defer k.trial.mu.Unlock()
	sample := k.trial.sample
	switch {
	case s.Cut:
	case s.Fault != "":
		sample.FailedCalls++
		sample.failed += s.Took
	default:
		sample.Calls++
		sample.timed = append(sample.timed, timing{s.Items, s.Took})
	}
}
