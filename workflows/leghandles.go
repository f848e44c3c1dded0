package workflows

import (
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"go.temporal.io/sdk/workflow"
)

// childLeg is the handle of a leg in a child workflow.
type childLeg struct {
	ctx    workflow.Context
	in     wire.LegInput
	child  workflow.ChildWorkflowFuture
	wakeUp func()         // makes the coordinator look again
	sofar  wire.LegResult // what the leg has committed, as far as the job knows
}

// startChild gives a portion to a leg in a child workflow.
func (c *coordinator) startChild(p portion) {
	first := c.state.Report.Legs == 0
	in := c.prepare(c.nextLeg(false), p)
	in.SpeedAwaited = first && c.awaitSpeed()
	child := workflow.ExecuteChildWorkflow(execute.LegOptions(c.ctx, c.spec(), in.Number, legSummary(in, p)), Leg, in)
	handle := &childLeg{ctx: c.ctx, in: in, child: child, wakeUp: c.wakeUp, sofar: wire.LegResult{Manifests: in.Previous, Left: p.items}}
	l := c.opened(in, p, handle)
	c.selector.AddFuture(child, func(f workflow.Future) {
		var result wire.LegResult
		if err := f.Get(c.ctx, &result); err != nil {
			c.receiveAll() // it may have been the last thing that the leg has said
			result = handle.sofar
			result.Error = execute.JobError(err)
		}
		c.legEnded(l, result)
	})
}

// signal sends a signal without waiting; undelivered is called if the leg has ended before. It takes a
// coroutine, since the signal waits until the child has been started.
func (l *childLeg) signal(name string, argument any, undelivered func()) {
	workflow.Go(l.ctx, func(ctx workflow.Context) {
		if l.child.SignalChildWorkflow(ctx, name, argument).Get(ctx, nil) != nil {
			undelivered()
			l.wakeUp()
		}
	})
}

func (l *childLeg) id() string { return wire.LegID(l.in.Spec.Name, l.in.Number) }

func (l *childLeg) halt(notice wire.StopNotice) { l.signal(dispatch.SignalHalt, notice, func() {}) }

func (l *childLeg) limit(limits wire.LegLimits) { l.signal(dispatch.SignalLimits, limits, func() {}) }

func (l *childLeg) grant(places int, returned func()) {
	l.signal(dispatch.SignalGrant, places, returned)
}

func (l *childLeg) counts(reported wire.Counts) wire.Counts { return reported }

func (l *childLeg) exact() bool { return false }

func (l *childLeg) kept(r wire.LegResult) { l.sofar, l.sofar.Window = r, 0 }

// begun reports whether the leg is known to run, or to have run. Until then its workflow ID may be that
// of a leg of an earlier run, which must not be asked for this job's.
func (l *childLeg) begun() bool { return l.child.GetChildWorkflowExecution().IsReady() }

func (l *childLeg) addTo(r *job.Report) {
	r.LegManifests = append(r.LegManifests, l.sofar.Manifests...)
	if l.begun() {
		r.OpenLegs = append(r.OpenLegs, l.id())
	}
}

// pending keeps the manifests that the leg was given, until it has begun and can say so itself.
func (l *childLeg) pending() []any {
	if l.begun() {
		return nil
	}
	return []any{wire.CommitInput{Ref: l.in.Ref, Leg: l.in.Number, Previous: l.in.Previous}}
}

// insideLeg is the handle of the leg that runs inside the job: small jobs need no other.
type insideLeg struct{ *leg }

// startInside runs a portion inside this workflow.
func (c *coordinator) startInside(p portion) {
	in := c.prepare(c.nextLeg(true), p)
	l, err := newLeg(c.ctx, in, &insideLink{c})
	if err != nil {
		c.fail(execute.JobError(err))
		return
	}
	l.page.more = c.awaitSpeed()
	l.ListenInside()
	c.inside = l
	open := c.opened(in, p, insideLeg{l})
	future, settable := workflow.NewFuture(c.ctx)
	workflow.Go(c.ctx, func(ctx workflow.Context) {
		l.Run(ctx)
		settable.Set(l.commit(ctx), nil)
	})
	c.selector.AddFuture(future, func(f workflow.Future) {
		var result wire.LegResult
		_ = f.Get(c.ctx, &result) // set without an error, above
		c.inside = nil
		c.legEnded(open, result)
		if left := l.Handover().Tasks; l.Full() && len(left) > 0 && !c.ending() {
			c.left -= result.Left // the next leg gets to them
			c.startChild(portion{tasks: left, batches: int64(len(left)), items: result.Left})
		}
	})
}

// extendInside gives a job's second and last portion to the leg inside it, which has waited for it.
func (c *coordinator) extendInside(p portion) bool {
	batches, err := wire.DecodePage(p.page)
	if c.inside == nil || !c.inside.page.more || c.inside.Full() || !p.last || err != nil || len(batches) > wire.InsideBatches {
		return false
	}
	c.inside.page.extend(batches)
	c.inside.KeepPlaces()
	open := c.legs[0] // no other one has been opened
	open.batches += len(batches)
	open.dry = false
	c.share()
	c.inside.Wake()
	c.state.Batches += int64(len(batches))
	return true
}

// closeInside has the leg inside the job end without a second portion.
func (c *coordinator) closeInside() {
	if c.inside != nil && c.inside.page.more {
		c.inside.page.more = false
		c.inside.Wake()
	}
}

func (l insideLeg) id() string { return "" }

func (l insideLeg) halt(notice wire.StopNotice) { l.Halt(notice) }

func (l insideLeg) limit(limits wire.LegLimits) { l.SetLimits(limits) }

func (l insideLeg) grant(places int, _ func()) { l.Grant(places) }

func (l insideLeg) counts(wire.Counts) wire.Counts {
	return dispatch.CountsOf(l.Sofar())
}

func (l insideLeg) exact() bool { return true }

func (l insideLeg) kept(wire.LegResult) {} // it never continues as new by itself

func (l insideLeg) addTo(r *job.Report) {
	r.LegManifests = append(r.LegManifests, l.manifest.in.Previous...)
	r.Include(l.Progress())
}

func (l insideLeg) pending() []any {
	return []any{l.manifest.pending()}
}

// insideLink reaches the job of the leg inside it.
type insideLink struct{ c *coordinator }

// Failed ends the job.
func (k *insideLink) Failed(err *job.Error) { k.c.fail(err) }

// SlowDown slows the job down.
func (k *insideLink) SlowDown(r wire.SlowDownRequest) { k.c.slowDown(r) }

// Counted does nothing: the counts are read directly.
func (k *insideLink) Counted(wire.Counts) {}

// Heard has the job know of the pool.
func (k *insideLink) Heard(n wire.PoolNews) { k.c.hear(n) }

// BatchEnded has the job look at the leg.
func (k *insideLink) BatchEnded() {
	if k.c.inside != nil && k.c.inside.Sofar().Totals.Batches >= dispatch.RateBatches {
		k.c.planning.rateKnown = true
	}
	k.c.checkOutcomes(false)
	k.c.wakeUp()
}

// HandBack gives the places to the job at once.
func (k *insideLink) HandBack(places int) workflow.Future {
	future, settable := workflow.NewFuture(k.c.ctx)
	settable.Set(nil, nil)
	k.c.takeBack(wire.PlacesBack{Places: places})
	k.c.wakeUp()
	return future
}
