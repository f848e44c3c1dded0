package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/limits"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pages"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// loopWork has the slots of a loop run, each by a leg of its own, so that no slot waits for another one's tick when a leg continues as
// new. An assignment is a slot.
//
// The job hears little of them: a leg costs its history the child's 3 events, 3 for a workflow task, and 2 for each signal,
// of which there are some when the pool changes. So 200 slots are some 2,000 events at the start, and the job continues as new after months. Its legs
// must end for that; they do within an hour, when their slots' executions end anyway.
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

// Attach begins where an earlier run of the loop has left off. Nobody has missed the ticks of the time between: its next
// ones are due at once.
//
// A loop does not bound failures: the first failed tick ends it, or none does. It has no errors file either, since what a slot has recorded
// has the errors of its ticks, too. One that is stopped before its first tick has its init and its cleanup, as one that is stopped after it.
func (w *loopWork) Attach(c *coordinate.Coordinator) (coordinate.Traits, error) {
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
		found.Worker = wire.PoolWorker{Name: begun.Worker, Capacity: begun.Capacity}
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
	c.State.Report.Legs++
	in := wire.LoopLegInput{
		Ref: c.State.Ref, Spec: c.Spec(), Version: c.In.Version, Slot: slot,
		LegState: wire.LegState{Number: c.NextLeg(false), Limits: c.Limits(), Window: 1, Known: pool.Workers(c.State.Pool.Workers).Calls(), Last: true},
	}
	in.Limits.Legs = len(c.Legs) + 1
	c.State.Heads = nil // those of the slots
	c.Places -= in.Window
	summary := fmt.Sprintf("slot %d · ticks from %s on", slot.Slot, text.Thousands(slot.Next+slot.Skipped))
	child := workflow.ExecuteChildWorkflow(execute.LegOptions(c.Ctx, c.Spec(), in.Number, summary), wire.WorkflowLoopLeg, in)
	known := wire.LegInput{Ref: in.Ref, Spec: in.Spec, LegState: in.LegState}
	handle := &pages.ChildLeg{Ctx: c.Ctx, In: known, Child: child, WakeUp: c.WakeUp, Sofar: wire.LegResult{Loop: []job.LoopSlot{slot}}}
	l := c.Opened(known, p, handle)
	w.legs[l.Number] = handle
	c.Selector.AddFuture(child, func(f workflow.Future) {
		var result wire.LegResult
		if err := f.Get(c.Ctx, &result); err != nil {
			c.ReceiveAll() // it may have been the last thing that the leg has said
			result = handle.Sofar
			result.Error = execute.JobError(err)
		}
		c.LegEnded(l, result)
	})
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

// Amend adds what the job itself knows of the slots; the legs that run know more.
func (w *loopWork) Amend(r *job.Report) {
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
