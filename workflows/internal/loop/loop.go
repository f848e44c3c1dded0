package loop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pages"
	"github.com/stint-run/stint/workflows/internal/pool"
)

// loopWork has the slots of a loop run, each by a leg of its own, so that no slot waits for another one's tick when a
// leg continues as new. An assignment is a slot.
//
// The job hears little of them: a leg costs its history the child's 3 events, 3 for a workflow task, and 2 for each
// signal, of which there are some when the pool changes. So 200 slots are some 2,000 events at the start, and the job
// continues as new after months. Its legs must end for that; they do within an hour, when their slots' executions end
// anyway.
type loopWork struct {
	pages.Pager
	slots  int
	left   []job.LoopSlot // by an earlier run of the loop
	loop   *wire.LoopWorkState
	opened []bool                  // by slot: a leg of this run of the job has it
	found  int                     // the slot of the assignment that next has found
	legs   map[int]*pages.ChildLeg // that are open, by their numbers
	cancel bool                    // next returns
}

// New returns the work of a loop.
func New(in wire.JobInput, state *wire.WorkState) coordinate.Work {
	return &loopWork{Pager: pages.Pager{State: state}, slots: in.Spec.Loop.Slots, left: in.Loop, opened: make([]bool, in.Spec.Loop.Slots), legs: map[int]*pages.ChildLeg{}}
}

// Begin begins where an earlier run of the loop has left off. Nobody has missed the ticks of the time between: its next
// ones are due at once.
//
// A loop does not bound failures: the first failed tick ends it, or none does. It has no errors file either, since what
// a slot has recorded has the errors of its ticks, too. One that is stopped before its first tick has its init and its
// cleanup, as one that is stopped after it.
func (w *loopWork) Begin(c *coordinate.Coordinator) (coordinate.Traits, error) {
	w.C = c
	if w.State.Loop == nil {
		left := slices.Clone(w.left)
		for i := range left {
			left[i].Base = time.Time{}
		}
		w.State.Loop = &wire.LoopWorkState{Slots: c.Spec().Loop.Report(left).At}
	}
	w.loop = w.State.Loop
	return coordinate.Traits{InsistsOnInit: true, Ended: w.ended}, nil
}

// Renew is that of [coordinate.Work].
func (w *loopWork) Renew() {
	w.cancel = true
	for _, l := range w.C.Legs {
		w.legs[l.Number].Signal(wire.SignalRetire, nil, func() {})
	}
}

// Next begins the loop, and then finds the next slot that no leg has.
func (w *loopWork) Next(ctx workflow.Context, t coordinate.Snapshot) (coordinate.Assignment, error) {
	found := coordinate.Assignment{Batches: 1, Standing: true, MostLegs: limits.MaxSlots}
	if !w.loop.Planned {
		begun, err := execute.IO(ctx, wire.ActivityPlanLoop, wire.PlanLoopInput{Ref: t.Ref, Spec: t.Spec})
		if err != nil {
			return coordinate.Assignment{}, err
		}
		w.loop.Planned = true
		found.Worker, found.Version = wire.PoolWorker{Name: begun.Worker, Capacity: begun.Capacity}, begun.Version
		for _, s := range w.loop.Slots {
			found.Resumed.Add(job.Totals{OK: s.Stats.OK, Failed: s.Stats.Failed, Dropped: s.Stats.Dropped})
		}
	}
	w.cancel = false
	free := slices.Index(w.opened, false)
	if free < 0 {
		if err := workflow.Await(ctx, func() bool { return w.cancel }); err != nil {
			return coordinate.Assignment{}, err
		}
		return coordinate.Assignment{}, coordinate.ErrRenew
	}
	w.opened[free], w.found = true, free
	return found, nil
}

// Open starts the leg of a slot.
func (w *loopWork) Open(p coordinate.Assignment) {
	c, slot := w.C, w.loop.Slots[w.found]
	in := wire.LoopLegInput{
		Ref: c.State.Ref, Spec: c.Spec(), Version: c.In.Version, Slot: slot,
		LegState: c.NewLeg(false, 1),
	}
	in.Last = true
	c.State.Heads = nil // those of the slots
	summary := fmt.Sprintf("slot %d · ticks from %s on", slot.Slot, text.Thousands(slot.Next+slot.Skipped))
	known := wire.LegInput{Ref: in.Ref, Spec: in.Spec, LegState: in.LegState}
	handle := &pages.ChildLeg{C: c, In: known, Sofar: wire.LegResult{Loop: []job.LoopSlot{slot}}}
	w.legs[in.Number] = handle
	handle.Start(c.Opened(in.LegState, p.Batches, handle), summary, wire.WorkflowLoopLeg, in)
	if c.Renew {
		handle.Signal(wire.SignalRetire, nil, func() {})
	}
}

// ended takes where the slot of a leg stands that has ended.
func (w *loopWork) ended(l *coordinate.OpenLeg, r wire.LegResult) {
	delete(w.legs, l.Number)
	for _, s := range r.Loop {
		w.loop.Slots[s.Slot] = s
	}
}

// Window gives every slot its place.
func (w *loopWork) Window(pool.View) int { return w.slots }

// Finish is that of [coordinate.Work].
func (w *loopWork) Finish(workflow.Context, coordinate.Snapshot, *job.Report) error { return nil } // a loop is never done

// CompleteReport adds what the job itself knows of the slots; the legs that run know more.
func (w *loopWork) CompleteReport(r *job.Report) {
	slots := slices.Clone(w.loop.Slots)
	for _, l := range w.C.Legs {
		for _, s := range w.legs[l.Number].Sofar.Loop {
			slots[s.Slot] = s
		}
	}
	r.Loop = w.C.Spec().Loop.Report(slots)
	r.Manifests = nil
	for _, s := range slots {
		if s.Head != "" {
			r.Manifests = append(r.Manifests, s.Head)
		}
	}
}

// NeedsSpeed is false: a slot has one tick at a time.
func (w *loopWork) NeedsSpeed(job.Spec) bool { return false }

// RunLeg runs one slot of a loop until it is stopped.
//
// Its only batch has no end. An execution runs for up to an hour and returns where it has come, and the next one begins
// there: 6 events an hour, so a run of the leg lasts for four weeks before it continues as new. Nothing is in flight
// then.
func RunLeg(ctx workflow.Context, in wire.LoopLegInput) (wire.LegResult, error) {
	if err := coordinate.Refused(errors.Join(coordinate.CheckLeg(in.Spec, in.LegState), coordinate.CheckSlot(in.Slot, in.Spec))); err != nil {
		return wire.LegResult{}, err
	}
	var l *loopLeg
	link := dispatch.NewParentLink(ctx, in.Ref.Run, in.Number, func() { workflow.SetCurrentDetails(ctx, l.details()) })
	l = newLoopLeg(ctx, in, link)
	if err := l.answerQueries(ctx); err != nil {
		return wire.LegResult{}, err
	}
	l.Listen()
	l.Run(ctx)
	l.NoteStragglers()
	if l.Full() && !l.Retired() && !l.Halted() {
		link.Signal(wire.SignalKept, wire.KeptResult{Leg: in.Number, Result: l.result()})
	}
	link.Flush()
	l.DrainSignals()
	if !l.Full() || l.Retired() || l.Halted() {
		return l.result(), nil
	}
	again := in
	again.LegState, again.Slot, again.Sofar = l.Handover(), l.slot, l.Result()
	return wire.LegResult{}, workflow.NewContinueAsNewError(ctx, wire.WorkflowLoopLeg, again)
}

// loopLeg is one run of a leg of a loop.
type loopLeg struct {
	*dispatch.Dispatcher
	ref   wire.Ref
	spec  job.Spec
	slot  job.LoopSlot
	given job.LoopSlot // to the latest execution
}

func newLoopLeg(ctx workflow.Context, in wire.LoopLegInput, link dispatch.Link) *loopLeg {
	l := &loopLeg{ref: in.Ref, spec: in.Spec, slot: in.Slot}
	state := in.LegState
	if len(state.Tasks) == 0 {
		batch := wire.Batch{Source: l.slot.Slot, First: l.slot.Next, Count: wire.Endless - l.slot.Next}.Sealed()
		state.Tasks = []wire.Task{{Batch: batch, Number: int64(l.slot.Slot) + 1}}
	}
	l.Dispatcher = dispatch.New(ctx, dispatch.Config{
		Spec: in.Spec, State: state, Sofar: in.Sofar, Supply: &pages.PageSupply{}, Recorder: l, Process: l.Process, Recover: l.recover, Doubt: l.doubt, CameBack: l.cameBack, Link: link,
		MaxEvents: LoopEvents,
	})
	return l
}

// LoopEvents is the length of history at which a leg of a loop continues as new; tests set another one.
var LoopEvents = dispatch.MaxEvents

const (
	// LongestSlice is how long an execution runs, and leastSlice how long at least: so executions of all slots end at
	// the same time, and the job waits for none of them for long if it continues as new.
	LongestSlice = time.Hour
	LeastSlice   = time.Minute
)

// Process executes the slot's ticks from where it stands.
func (l *loopLeg) Process(ctx workflow.Context, in wire.ProcessInput) workflow.Future {
	in.Ref, l.given = l.ref, l.slot
	in.Slice = sliceAt(workflow.Now(ctx))
	in.Clock = &wire.Clock{
		LoopSlot: l.slot, Every: l.spec.Loop.Every, Skip: l.spec.Loop.Skips(), Keep: l.ref.Store != "",
	}
	options := workflow.GetActivityOptions(ctx)
	options.Summary = fmt.Sprintf("slot %d · ticks from %s on", l.slot.Slot, text.Thousands(in.Batch.First+l.slot.Skipped))
	return execute.Process(workflow.WithActivityOptions(ctx, options), in)
}

// sliceAt returns how long an execution that begins now may run: to the next full hour, or the one after that.
func sliceAt(now time.Time) time.Duration {
	left := now.Truncate(LongestSlice).Add(LongestSlice).Sub(now)
	if left < LeastSlice {
		left += LongestSlice
	}
	return left
}

// Accept is that of [dispatch.Recorder].
func (l *loopLeg) Accept(_ wire.Task, r wire.ProcessResult) {
	if r.Clock != nil {
		again, doubt := l.slot.Again, l.slot.Doubt
		l.slot = *r.Clock
		l.slot.Again, l.slot.Doubt = again, max(l.slot.Doubt, doubt)
		if l.slot.Next >= l.slot.Doubt {
			l.slot.Doubt = 0
		}
	}
}

// cameBack takes in how far an execution has come that had been given up: what it has begun runs again, or has run
// again. The next execution counts those that it knows to be in doubt; if it has begun, it does not know of the others.
func (l *loopLeg) cameBack(at job.LoopSlot, runs bool) {
	if at.Slot != l.slot.Slot {
		return
	}
	if runs {
		l.slot.Again += max(0, at.Doubt-max(l.given.Next, l.given.Doubt))
	}
	l.slot.Doubt = max(l.slot.Doubt, at.Doubt)
}

// recover makes a result of the last heartbeat of an execution that was lost, or of what its error says.
func (l *loopLeg) recover(hint wire.Hint) (wire.ProcessResult, bool) {
	at := hint.Clock
	if at == nil || at.Slot != l.slot.Slot || at.Next < l.slot.Next {
		return wire.ProcessResult{}, false
	}
	taken := *at
	taken.Stats.Repeated += taken.Unsure
	taken.Unsure = 0
	at = &taken
	before := l.slot.Stats
	e := wire.Entry{
		Batch: wire.Batch{Source: at.Slot, First: l.slot.Next, Count: at.Next - l.slot.Next}.Sealed(),
		OK:    at.Stats.OK - before.OK, Failed: at.Stats.Failed - before.Failed, Dropped: at.Stats.Dropped - before.Dropped,
	}
	l.slot.Doubt = max(l.slot.Doubt, at.Doubt)
	if e.Count == 0 {
		l.slot.Base, l.slot.Stats.Repeated = at.Base, at.Stats.Repeated // its first ticks may have begun
	}
	rest := wire.Batch{Source: at.Slot, First: at.Next, Count: wire.Endless - at.Next}.Sealed()
	return wire.ProcessResult{
		Entry: e, Rest: &rest, Clock: at,
		Totals: job.Totals{OK: e.OK, Failed: e.Failed, Dropped: e.Dropped, Batches: 1}, Worker: hint.Worker,
	}, true
}

// doubt assumes that an execution of which nothing is known has run all ticks that were due. Of a loop back to back it
// assumes one only, since nobody knows how many there may have been.
func (l *loopLeg) doubt(began, now time.Time) {
	ahead := l.slot.Next + 1
	if every := l.spec.Loop.Every; every > 0 {
		base := l.slot.Base
		if base.IsZero() {
			base = began.Add(-time.Duration(l.slot.Next+l.slot.Skipped) * every) // its first tick was due when it began
		}
		ahead = int64(now.Sub(base)/every) + 1 - l.slot.Skipped
	}
	l.slot.Doubt = max(l.slot.Doubt, ahead)
}

func (l *loopLeg) answerQueries(ctx workflow.Context) error {
	progress := func() (job.Progress, error) { return l.progress(), nil }
	// Where the slot stands is in the progress: nothing is left to commit.
	pending := func(int) ([]wire.CommitInput, error) { return nil, nil }
	return errors.Join(execute.Answer(ctx, wire.QueryProgress, progress), execute.Answer(ctx, wire.QueryPending, pending))
}

func (l *loopLeg) progress() job.Progress {
	p := l.Progress()
	p.Life = l.Life()
	p.Loop = []job.LoopSlot{l.slot}
	return p
}

func (l *loopLeg) result() wire.LegResult {
	return wire.LegResult{LegOutcomes: l.Result(), Loop: []job.LoopSlot{l.slot}}
}

func (l *loopLeg) details() string {
	s := l.slot.Stats
	return fmt.Sprintf("%s · at tick %s · %s missed · %s skipped · %s repeated", l.Details(),
		text.Thousands(l.slot.Next+l.slot.Skipped), text.Thousands(s.Missed), text.Thousands(l.slot.Skipped), text.Thousands(s.Repeated))
}
