package activities

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/loops"
	"github.com/stint-run/stint/internal/data/stages"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/traces"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
)

// execution is one execution of Process.
type execution struct {
	acts  *Activities
	in    wire.ProcessInput
	ctx   context.Context
	began time.Time

	dir      store.Dir // the job's store; nil: it is not open
	source   source
	sink     sink
	reuse    *reusing                   // nil: the job takes and keeps no results of earlier runs
	awaited  bool                       // items of the run may wait for the outcomes of the batch
	loop     atomic.Pointer[loops.Slot] // source and sink of a slot of a loop; nil: the batch is not a slot. Heartbeats read it, too.
	watch    *calls.Watch
	slot     calls.Slot
	traced   *traces.Execution // nil: nobody traces
	inHand   inHand
	live     calls.Live        // what has been answered, recorded or not
	reported calls.RecordStats // to the observer
	stride   stride
	line     *line
	hope     *calls.Hope
	trials   *calls.Trials
	rules    *calls.Rules
	allow    *calls.Allowance
	allBegun atomic.Bool // all items have been handed out, and none is called again
	idle     bool        // that, and no request has waited for its turn, when that was looked at last
	told     bool        // the leg knows that it is idle

	// What has been done. The line's lock guards it, and the source and the sink.
	totals     job.Totals // of calls
	skipped    int64      // of the items recorded
	times      calltimes.Timer
	entry      wire.Entry
	cuts       cuts
	settled    job.Totals // items whose outcome is of an earlier stage
	carried    wire.Carried
	repeated   int64  // items whose outcomes could not be recorded
	unwritten  []byte // results that the sink does not have yet
	firstError *job.FirstError
}

// inHand is which items are in hand: any goroutine may look.
type inHand struct{ done, handed atomic.Int64 }

// items returns the first of them and how many they are at most, in a batch that begins with the given one. None are
// in hand before any has been.
func (i *inHand) items(first int64) (from, count int64) {
	done := i.done.Load() // before the other one, which is never less
	handed := i.handed.Load()
	if handed == 0 {
		return 0, 0
	}
	return first + done, handed - done
}

// open opens what the batch is read from and written to. If it succeeds the caller must close the execution.
func (e *execution) open() error {
	in := &e.in
	e.entry = wire.Entry{Batch: in.Batch}
	e.entry.Count = 0
	var err error
	if e.rules, err = calls.NewRules(in.Calls, in.StageName()); err != nil {
		return ledger.Permanent(job.ErrorInvalid, err)
	}
	if err := e.openEnds(); err != nil {
		return err
	}
	e.stride.pace, e.cuts = in.Pace, newCuts(in)
	e.line, e.hope = newLine(e), calls.NewHope(in.Hopeless)
	e.trials = calls.NewTrials(in.Trials, in.Batch.First, in.Batch.Count)
	return nil
}

// openEnds opens the source and the sink.
func (e *execution) openEnds() error {
	in, kind := &e.in, kindOf(&e.in)
	source, err := kind.source(e)
	if err != nil {
		return err
	}
	e.source = source
	if in.PassesOn() {
		e.entry.Part = ledger.NewToken()
		e.sink = stages.NewPart(in.Ref.Run, e.entry, min(in.Inline, wire.MaxInline), e.openStore)
	} else if e.sink, err = kind.sink(e); err != nil {
		e.close()
		return err
	}
	e.beginNotes()
	return nil
}

// reopen opens them anew: what was read and written does not count.
func (e *execution) reopen() error {
	e.close()
	return e.openEnds()
}

// openStore opens the job's store, once.
func (e *execution) openStore() (dir store.Dir, err error) {
	if e.dir == nil {
		e.dir, err = ledger.OpenStore(e.ctx, e.in.Ref, e.acts.opts.Access)
	}
	return e.dir, err
}

// limits returns the times of this execution.
func (e *execution) limits() calls.WatchLimits {
	limits := calls.WatchLimits{
		Call: e.in.Calls.Timeout, Slice: e.in.Slice, Grace: e.in.Grace,
		Drain:     e.acts.opts.Drain * 9 / 10, // the rest of it is for the part and the answer
		Allowance: e.allow, Yield: e.slot.Yield(),
		Stopped: e.ctx.Done(), Watchdog: e.acts.opts.Watchdog, Worker: e.in.Ref.Job + "/" + e.in.Batch.String(),
		Left: func(call calls.LeftCall) { e.acts.left.add(e, call) },
	}
	if !activity.IsActivity(e.ctx) {
		return limits
	}
	info := activity.GetInfo(e.ctx)
	limits.Draining = activity.GetWorkerStopChannel(e.ctx)
	if e.acts.opts.Stop != nil {
		limits.Request = func(ctx context.Context, stop job.Stop) error { return e.acts.opts.Stop(ctx, e.in.Ref.Job, stop) }
	}
	// A heartbeat with a cancelled context would not be sent: after a stop the calls in hand continue.
	beats := context.WithoutCancel(e.ctx)
	var held []watchdog.Held
	send := func() { activity.RecordHeartbeat(beats, e.whereabouts(held)) }
	limits.Beat = min(info.HeartbeatTimeout/4, progressLook)
	offer := e.beat(info.HeartbeatTimeout, send)
	if e.in.Clock != nil {
		limits.Beat = min(info.HeartbeatTimeout/4, loops.BeatTime)
		offer = func(time.Time) { send() } // each says how far the slot has come
	}
	limits.Vouch = func(now []watchdog.Held) {
		if held = now; stall.GivenUp(e.ctx) == nil {
			offer(time.Now())
		}
		e.tellBegun()
	}
	limits.Notice = func(ctx context.Context) (wire.StopNotice, bool) {
		if disowned(e.ctx) {
			return wire.StopNotice{Deadline: time.Now(), Reason: "the batch is not this worker's any more"}, true
		}
		if e.acts.opts.Notice == nil {
			return wire.StopNotice{}, false
		}
		return e.acts.opts.Notice(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	}
	return limits
}

// disowned reports whether an activity was cancelled because the server knows of it no more: it has
// expired, or its workflow has ended. Nobody will take its result.
func disowned(ctx context.Context) bool {
	return errors.As(context.Cause(ctx), new(*serviceerror.NotFound))
}

func (e *execution) close() {
	if e.source != nil {
		e.source.Close()
	}
	if e.sink != nil {
		e.sink.Close()
	}
	if e.reuse != nil && e.reuse.notes != nil {
		e.reuse.notes.Close()
	}
	e.source, e.sink = nil, nil
}

// whereabouts returns what heartbeats report. held are the timers of the call in hand.
func (e *execution) whereabouts(held []watchdog.Held) wire.Hint {
	hint := wire.Hint{Batch: e.in.Batch.String()}
	hint.Usage = e.allow.Used()
	hint.First, hint.Count = e.inHand.items(e.in.Batch.First)
	hint.SlotRef = e.slot.Describe()
	held = append(e.slot.Timers(), held...)
	for _, t := range held[:min(len(held), wire.MaxHinted)] {
		hint.Timers = append(hint.Timers, wire.HeldTimer{Scope: t.Scope, Deadline: t.Deadline})
	}
	if hint.Clock = e.slotAt((*loops.Slot).State); hint.Clock == nil {
		hint.Progress = e.acts.progress.of(e)
	}
	return hint
}

// report reports to the observer what has been recorded since the last time.
func (e *execution) report() {
	c := &e.totals
	decided := e.decided()
	now := calls.RecordStats{
		OK: decided.OK, Failed: decided.Failed, Dropped: decided.Dropped,
		Retries: c.Retries, Expiries: c.Expiries, Isolations: c.Isolations,
	}
	before := e.reported
	e.reported = now
	e.acts.opts.Observer.Recorded(calls.RecordStats{
		Job: e.in.Ref.Job,
		OK:  now.OK - before.OK, Failed: now.Failed - before.Failed, Dropped: now.Dropped - before.Dropped,
		Retries: now.Retries - before.Retries, Expiries: now.Expiries - before.Expiries, Isolations: now.Isolations - before.Isolations,
	})
}
