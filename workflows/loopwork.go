package workflows

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// loopWork has the slots of a loop run, each by a leg of its own, so that no slot waits for another one's tick when a leg continues as
// new. A portion is a slot.
//
// The job hears little of them: a leg costs its history the child's 3 events, 3 for a workflow task, and 2 for each signal,
// of which there are some when the pool changes. So 200 slots are some 2,000 events at the start, and the job continues as new after months. Its legs
// must end for that; they do within an hour, when their slots' executions end anyway.
type loopWork struct {
	pager
	slots  int
	left   []job.LoopSlot // by an earlier run of the loop
	loop   *wire.LoopWorkState
	opened []bool // by slot: a leg of this run of the job has it
	cancel bool   // next returns
}

// signalRetire goes from a loop's job to its legs: they end once their slots' executions have.
const signalRetire = "retire"

func newLoopWork(in wire.JobInput, state *wire.WorkState) *loopWork {
	return &loopWork{pager: pager{state: state}, slots: in.Spec.Slots, left: in.Loop, opened: make([]bool, in.Spec.Slots)}
}

// attach begins where an earlier run of the loop has left off. Nobody has missed the ticks of the time between: its next
// ones are due at once.
func (w *loopWork) attach(c *coordinator) error {
	w.c = c
	if w.state.Loop == nil {
		left := slices.Clone(w.left)
		for i := range left {
			left[i].Base = time.Time{}
		}
		w.state.Loop = &wire.LoopWorkState{Slots: job.NewLoopReport(c.spec(), left).At}
	}
	w.loop = w.state.Loop
	return nil
}

func (w *loopWork) renew() {
	w.cancel = true
	for _, l := range w.c.legs {
		if leg, ok := l.legHandle.(*childLeg); ok {
			leg.signal(signalRetire, nil, func() {})
		}
	}
}

// next begins the loop, and then finds the next slot that no leg has.
func (w *loopWork) next(ctx workflow.Context, t terms) (portion, error) {
	found := portion{batches: 1}
	if !w.loop.Planned {
		begun, err := execute.IO(ctx, wire.ActivityPlanLoop, wire.PlanLoopInput{Ref: t.ref, Spec: t.spec})
		if err != nil {
			return portion{}, err
		}
		w.loop.Planned = true
		found.worker = wire.PoolWorker{Name: begun.Worker, Capacity: begun.Capacity}
		for _, s := range w.loop.Slots {
			found.resumed.Add(job.Totals{OK: s.Stats.OK, Failed: s.Stats.Failed, Dropped: s.Stats.Dropped})
		}
	}
	w.cancel = false
	free := slices.Index(w.opened, false)
	if free < 0 {
		if err := workflow.Await(ctx, func() bool { return w.cancel }); err != nil {
			return portion{}, err
		}
		return portion{}, errRenew
	}
	w.opened[free] = true
	slot := w.loop.Slots[free]
	found.slot = &slot
	return found, nil
}

// open starts the leg of a slot.
func (w *loopWork) open(p portion) {
	c := w.c
	c.state.Report.Legs++
	in := wire.LoopLegInput{
		Ref: c.state.Ref, Spec: c.spec(), Version: c.in.Version, Slot: *p.slot,
		LegState: wire.LegState{Number: c.nextLeg(false), Limits: c.limits(), Window: 1, Known: pool.Workers(c.state.Pool.Workers).Calls(), Last: true},
	}
	in.Limits.Legs = len(c.legs) + 1
	c.state.Heads = nil // those of the slots
	c.places -= in.Window
	summary := fmt.Sprintf("slot %d · ticks from %s on", p.slot.Slot, text.Thousands(p.slot.Next+p.slot.Skipped))
	child := workflow.ExecuteChildWorkflow(execute.LegOptions(c.ctx, c.spec(), in.Number, summary), LoopLeg, in)
	known := wire.LegInput{Ref: in.Ref, Spec: in.Spec, LegState: in.LegState}
	handle := &childLeg{ctx: c.ctx, in: known, child: child, wakeUp: c.wakeUp, sofar: wire.LegResult{Loop: []job.LoopSlot{*p.slot}}}
	l := c.opened(known, p, handle)
	c.selector.AddFuture(child, func(f workflow.Future) {
		var result wire.LegResult
		if err := f.Get(c.ctx, &result); err != nil {
			c.receiveAll() // it may have been the last thing that the leg has said
			result = handle.sofar
			result.Error = execute.JobError(err)
		}
		for _, s := range result.Loop {
			w.loop.Slots[s.Slot] = s
		}
		c.legEnded(l, result)
	})
	if c.renew {
		handle.signal(signalRetire, nil, func() {})
	}
}

// window gives every slot its place.
func (w *loopWork) window(pool.View) int { return w.slots }

func (w *loopWork) finish(workflow.Context, terms, *job.Report) error { return nil } // a loop is never done

// amend adds what the job itself knows of the slots; the legs that run know more.
func (w *loopWork) amend(r *job.Report) {
	slots := slices.Clone(w.loop.Slots)
	for _, l := range w.c.legs {
		if leg, ok := l.legHandle.(*childLeg); ok {
			for _, s := range leg.sofar.Loop {
				slots[s.Slot] = s
			}
		}
	}
	r.Loop = job.NewLoopReport(w.c.spec(), slots)
	r.Manifests = nil
	for _, s := range slots {
		if s.Head != "" {
			r.Manifests = append(r.Manifests, s.Head)
		}
	}
}

// needsSpeed is false: a slot has one tick at a time.
func (w *loopWork) needsSpeed(job.Spec) bool { return false }

// insistsOnInit is true: a loop that is stopped before its first tick has its init and its cleanup, as one that is stopped
// after it.
func (w *loopWork) insistsOnInit() bool { return true }

// boundsFailures is false: the first failed tick ends the loop, or none does.
func (w *loopWork) boundsFailures() bool { return false }

// listFailures does nothing: what a slot has recorded has the errors of its ticks, too.
func (w *loopWork) listFailures(workflow.Context, terms) (string, error) { return "", nil }
