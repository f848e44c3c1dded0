package predict

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// trial makes calls that belong to no batch, as Process makes those that do.
type trial struct {
	of       *Predictor
	spec     job.Spec
	parallel int // calls at once
	// keep gets what becomes of each item, one at a time; nil: nobody wants it.
	keep func(ordinal int64, line stages.Line)

	mu     sync.Mutex
	sample *Sample
}

// run has items handled as one call, and as more calls if that fails.
func (t *trial) run(ctx context.Context, items []calls.Item) error {
	slot, err := t.of.opts.Slots.Take(ctx, calls.Occupant{Job: t.spec.Name, Batch: "a sample"})
	if err != nil {
		return fmt.Errorf("taking a slot: %w", err)
	}
	defer slot.Leave()
	m := calls.StartWatch(ctx, calls.WatchLimits{
		Call: max(0, t.spec.CallTimeout), Stopped: ctx.Done(),
		Watchdog: t.of.opts.Watchdog, Worker: t.spec.Name + "/sample",
	})
	defer m.Stop()
	lane := m.Lane()
	defer lane.Close()
	c := &calls.Caller{
		Handler: t.of.opts.Handler, Lane: lane, Place: slot.Place(ctx.Done()), Job: t.spec.Name, Observer: &timekeeper{trial: t}, Answer: &calls.Answer{},
		Limits: calls.CallLimits{
			Timeout: max(0, t.spec.CallTimeout), Attempts: t.spec.Attempts, ItemAttempts: t.spec.ItemAttempts, Backoff: t.spec.Backoff,
		},
	}
	err = c.Run(items)
	t.settle(items, c.Answer)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.SlowedDown() > 0:
		return fmt.Errorf("the handler asked for less work (nothing more for %v) when %d calls were made at once: try fewer slots", m.SlowedDown(), t.parallel)
	case errors.Is(err, calls.ErrEnding):
		return calls.ErrNoSlot
	}
	return err
}

// settle counts the outcomes of a call's items.
func (t *trial) settle(items []calls.Item, answer *calls.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, at := 0, 0
	answer.Each(func(o calls.Span) {
		var line stages.Line
		switch {
		case o.Fault != nil:
			t.sample.fail(items[i].Ordinal, o.Fault)
			line = stages.Failed(o.Fault.Err)
		case o.Drop:
			t.sample.Dropped++
			t.sample.OK++
			line = stages.Dropped()
		default:
			t.sample.OK++
			line.Data, at = answer.Buf[at:o.End-1:o.End-1], o.End
		}
		if t.keep != nil {
			t.keep(items[i].Ordinal, line)
		}
		i++
	})
	t.sample.ResultBytes += int64(len(answer.Buf))
}

func (s *Sample) fail(ordinal int64, fault *calls.Fault) {
	s.Failed++
	short := fault.Err
	short.Message, short.Stack = text.Cut(short.Message, ledger.MaxFirstError), ""
	s.FirstError = s.FirstError.First(&job.FirstError{Item: ordinal, Kind: fault.Kind, Error: short})
}

// timekeeper notes what the calls of a trial take.
type timekeeper struct {
	calls.Unobserved
	trial *trial
}

func (k *timekeeper) CallEnded(s calls.CallStats) {
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
