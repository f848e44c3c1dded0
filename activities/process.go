package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/loops"
	"github.com/stint-run/stint/internal/data/stages"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
)

// maxReason is how many bytes ProcessResult.Unbegun may take as JSON.
const maxReason = 300

// Process runs the handler over one batch: it reads the range, calls the handler, and writes the
// results and errors to its own part. It ends before the last item, with a rest, when the job
// stops, when its worker drains and when it has run for its slice of time.
func (a *Activities) Process(ctx context.Context, in wire.ProcessInput) (wire.ProcessResult, error) {
	if err := in.Batch.Verify(); err != nil {
		return wire.ProcessResult{}, sendable(ledger.Permanent(job.ErrorDamaged, fmt.Errorf("executing %w", err)))
	}
	if err := in.Valid(); err != nil {
		return wire.ProcessResult{}, sendable(ledger.Permanent(job.ErrorInvalid, fmt.Errorf("executing %s: %w", in.Batch, err)))
	}
	e := &execution{acts: a, in: in, ctx: ctx, began: time.Now()}
	err := e.takeSlot()
	if errors.Is(err, calls.ErrNoSlot) {
		return e.answer(wire.ProcessResult{Rest: &in.Batch}) // for another worker: this one ends, or has all its calls in hand
	}
	if err != nil {
		e.givenUp()
		return wire.ProcessResult{}, fmt.Errorf("taking a slot: %w", err)
	}
	defer e.slot.Leave()
	a.opts.Observer.BatchBegan(in.Ref.Job)
	e.trace()
	result, err := patiently(ctx, a.opts.Patience, func(ctx context.Context) (wire.ProcessResult, error) {
		e.ctx = ctx
		return e.process()
	})
	a.opts.Observer.BatchEnded(in.Ref.Job, err)
	e.traced.End(result.Entry.Count, result.Totals.Failed, err)
	if err != nil {
		e.givenUp()
		return result, e.broken(err)
	}
	if in.Items == nil { // callers wait for the results of a feed's batch
		e.slot.Report(ctx)
	}
	return e.answer(result)
}

// trace begins the execution's span.
func (e *execution) trace() {
	if e.acts.opts.Tracer == nil || !activity.IsActivity(e.ctx) {
		return
	}
	info := activity.GetInfo(e.ctx)
	e.traced = e.acts.opts.Tracer.Batch(traces.Batch{
		Ref: e.in.Ref, Batch: e.in.Batch, Stage: e.in.StageName(), Pool: wire.PoolOfQueue(info.TaskQueue), Worker: e.acts.opts.Worker,
		Workflow: info.WorkflowExecution.RunID, Activity: info.ActivityID,
	})
}

// takeSlot waits for a place. Its heartbeats say so, because a worker that dies meanwhile does not die of the batch's
// items. If there have been any, the server hears of the end of the wait before an item is begun.
func (e *execution) takeSlot() (err error) {
	stop := beating(e.ctx, wire.Hint{Waiting: true})
	o := calls.Occupant{Job: e.in.Ref.Job, Batch: e.in.Batch.String(), Items: e.in.Todo(), Alone: e.in.Alone, Priority: e.priority()}
	e.slot, err = e.acts.opts.Slots.Take(e.ctx, o)
	if beaten := stop(); err != nil || !beaten || e.acts.opts.Heartbeat == nil {
		return err
	}
	info, hint := activity.GetInfo(e.ctx), e.whereabouts(nil)
	activity.RecordHeartbeat(e.ctx, hint) // instead of one that the SDK may still hold back
	ctx, cancel := context.WithTimeout(e.ctx, info.HeartbeatTimeout)
	defer cancel()
	_ = e.acts.opts.Heartbeat(ctx, info.TaskToken, hint) // without it, the worker's death would say nothing: that is borne some times
	return nil
}

// priority returns that of the job, as the server has it.
func (e *execution) priority() int {
	if !activity.IsActivity(e.ctx) {
		return limits.DefaultPriority
	}
	return cmp.Or(activity.GetInfo(e.ctx).Priority.PriorityKey, limits.DefaultPriority)
}

func (e *execution) process() (wire.ProcessResult, error) {
	if e.in.Clock == nil {
		e.acts.progress.begin(e)
		defer e.acts.progress.end(e)
	}
	e.allow = calls.NewAllowance(e.in.Share)
	e.watch = calls.StartWatch(e.ctx, e.limits()) // first: opening may take long, and heartbeats go on meanwhile
	defer e.watch.Stop()
	if err := e.open(); err != nil {
		return wire.ProcessResult{}, err
	}
	defer e.close()
	if err := e.run(); err != nil {
		return wire.ProcessResult{}, err
	}
	if err := stall.GivenUp(e.ctx); err != nil {
		return wire.ProcessResult{}, err
	}
	e.slot.Leave()
	return e.commit()
}

// commit makes the outcomes durable and answers.
func (e *execution) commit() (result wire.ProcessResult, err error) {
	if err := e.source.Unchanged(e.ctx); err != nil {
		return wire.ProcessResult{}, err
	}
	if e.entry.Batch, result.Rest = e.source.Split(); result.Rest != nil {
		result.Trials = e.trials.Encode(result.Rest.First)
	}
	if err := e.sink.Commit(&e.entry); err != nil {
		return wire.ProcessResult{}, err
	}
	if e.reuse != nil && e.reuse.notes != nil {
		if err := e.reuse.notes.Commit(e.ctx); err != nil {
			return wire.ProcessResult{}, err
		}
	}
	if sink, ok := e.sink.(answering); ok && e.entry.Count > 0 {
		result.Inline = sink.Inline()
	}
	if staged, ok := e.source.(*stages.Source); ok {
		result.Routed = staged.Routed()
	}
	result.Clock = e.slotAt((*loops.Slot).Final)
	e.entry.Version = e.acts.opts.Version
	result.Entry, result.FirstError = e.entry, e.firstError
	if activity.IsActivity(e.ctx) {
		result.Started = activity.GetInfo(e.ctx).StartedTime.UnixMilli()
	}
	result.Worker, result.Paced, result.SlowDown = e.acts.opts.Worker, e.stride.waited+e.allow.Waited(), e.watch.SlowedDown()
	result.NextTurn = e.allow.Next()
	result.Turns, result.Values = e.allow.Taken()
	if why := e.watch.Unbegun(); why != nil {
		result.Unbegun = text.Fit(why.Error(), maxReason)
	}
	result.Forced, result.Left, result.Capacity = e.watch.Forced(), e.leftAtStop(), e.acts.opts.Capacity()
	result.Totals, result.Carried = e.totals, e.carried
	if e.in.Stage != nil && e.in.Stage.Inner {
		result.Totals.Alone = 0 // an item that fails here has not failed yet
	}
	result.Totals.Add(e.decided())
	if e.in.PassesOn() {
		result.Written, result.Cuts = e.written(), e.cuts.found
	} else {
		result.Totals.InputBytes = e.source.Bytes() // what is between two stages is not done
	}
	result.Totals.Add(job.Totals{
		Batches: 1, Repeated: e.repeated, Busy: time.Since(e.began), CallTimes: calltimes.Text(e.times.String()), Usage: e.allow.Used(),
	})
	return result, nil
}

// stride is how a batch keeps its pace: its items are begun in portions of a second's worth at most,
// and the next portion once the time is over that is due for the one before. One goroutine at a time uses it.
type stride struct {
	pace job.Rate // 0: no limit
	// waited is the time spent waiting.
	waited time.Duration
	next   time.Time // when the next portion may begin
}

// portion returns the most items to begin at once, out of so many.
func (s *stride) portion(items int) int {
	if s.pace == 0 {
		return items
	}
	return int(max(1, min(int64(items), int64(s.pace/1000))))
}

// begin waits until a portion of so many items may begin. It returns false if the batch ends instead.
func (s *stride) begin(m *calls.Watch, items int) bool {
	if s.pace == 0 {
		return true
	}
	now := time.Now()
	if left := s.next.Sub(now); left > 0 {
		ok := m.Wait(left)
		s.waited += time.Since(now)
		if !ok {
			return false
		}
	}
	s.next = time.Now().Add(time.Duration(float64(items) / float64(s.pace) * 1000 * float64(time.Second)))
	return true
}

// finish waits until the next portion might begin, also if the batch ends because it has run
// for its slice: its rest begins at once, and would do so more often than its pace allows.
func (s *stride) finish(m *calls.Watch) {
	now := time.Now()
	if left := s.next.Sub(now); left > 0 {
		m.SitOut(left)
		s.waited += time.Since(now)
	}
}
