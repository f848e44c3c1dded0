package predict

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/stages"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
)

// trial makes calls that belong to no batch, as Process makes those that do.
type trial struct {
	of   *Predictor
	spec job.Spec
	// keep gets what becomes of each item, one at a time; nil: nobody wants it.
	keep func(ordinal int64, line stages.Line)

	mu       sync.Mutex
	parallel int // calls at once; fewer after slow-down requests
	sample   *Sample
	until    time.Time // nothing is begun before
}

// maxSlowDowns is how many slow-down requests in a row, without an item's outcome in between, are waited out.
const maxSlowDowns = 20

// run has items handled as one call, and as more calls if that fails. It waits out slow-down requests; a call that gets none through is cut
// in halves, as a job does.
func (t *trial) run(ctx context.Context, items []calls.Item) error {
	take, idle := len(items), 0
	trials := &calls.Trials{}
	for len(items) > 0 {
		if err := t.pause(ctx); err != nil {
			return err
		}
		done, after, err := t.try(ctx, items[:min(take, len(items))], trials)
		items = items[done:]
		switch {
		case err != nil:
			return err
		case after == 0 && len(items) > 0: // the next one may be called again later
			backoff.Wait(time.Until(trials.Of(items[0].Ordinal).Due), ctx.Done())
			continue
		case after == 0:
			continue
		case done > 0:
			idle = 0
		default:
			idle, take = idle+1, max(1, take/2)
		}
		if t.slowDown(after); idle == maxSlowDowns {
			return fmt.Errorf("the handler has asked %d times in a row for less work, and answered nothing: try fewer slots, or later", idle)
		}
	}
	return nil
}

// slowDown has nothing begun for a while, and fewer calls at once after it.
func (t *trial) slowDown(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sample.SlowDowns++
	now := time.Now()
	if until := now.Add(after); until.After(t.until) {
		if now.After(t.until) { // further requests for the same reason halve nothing
			t.parallel = max(1, t.parallel/2)
		}
		t.until = until
	}
}

// pause waits until calls may be begun.
func (t *trial) pause(ctx context.Context) error {
	for {
		t.mu.Lock()
		left := time.Until(t.until)
		t.mu.Unlock()
		if left <= 0 {
			return ctx.Err()
		}
		if !backoff.Wait(left, ctx.Done()) {
			return context.Cause(ctx)
		}
	}
}

// spare reports whether fewer calls are made at once than one with this number, from 0, needs.
func (t *trial) spare(number int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return number >= t.parallel
}

// try makes the call. It returns how many of its items have their outcomes, and for how long nothing more should be begun; 0: the handler has
// not asked.
func (t *trial) try(
	ctx context.Context, items []calls.Item, trials *calls.Trials,
) (done int, after time.Duration, err error) {
	slot, err := t.of.opts.Slots.Take(ctx, calls.Occupant{Job: t.spec.Name, Batch: "a sample"})
	if err != nil {
		return 0, 0, fmt.Errorf("taking a slot: %w", err)
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
		Records: t.sample.records, Trials: trials,
		Limits: calls.CallLimits{
			Timeout: max(0, t.spec.CallTimeout), Attempts: t.spec.Attempts, ItemAttempts: t.spec.ItemAttempts, Backoff: t.spec.Backoff,
		},
	}
	err = c.Run(items)
	done = t.settle(items, c.Answer)
	switch {
	case ctx.Err() != nil:
		return done, 0, ctx.Err()
	case m.SlowedDown() > 0 && (err == nil || errors.Is(err, calls.ErrEnding)):
		return done, m.SlowedDown(), nil
	case m.Unbegun() != nil:
		return done, 0, m.Unbegun()
	case errors.Is(err, calls.ErrEnding):
		return done, 0, calls.ErrNoSlot
	}
	return done, 0, err
}

// settle counts the outcomes of a call's first items, up to one that is called again, and returns how many have one.
func (t *trial) settle(items []calls.Item, answer *calls.Answer) (i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, again := 0, false
	answer.Each(func(o calls.Span) {
		if again = again || o.Later; again {
			return
		}
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
		t.sample.ResultBytes += int64(len(answer.Bytes(o)))
		i++
	})
	return i
}

func (s *Sample) fail(ordinal int64, fault *calls.Fault) {
	s.Failed++
	short := fault.Err
	short.Message, short.Stack = text.Fit(short.Message, ledger.MaxFirstError), ""
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
