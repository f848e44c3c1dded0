package pages

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
)

// hurry bounds the planning of the second page: the first one does not keep workers busy for long.
const hurry = 100 * time.Millisecond

// Pager finds the pages of a source that is read in order.
type Pager struct {
	C      *coordinate.Coordinator
	State  *wire.WorkState
	Inside *leg // the leg that runs inside the job; nil: none does
	// Plan runs the activity that finds one page.
	Plan func(workflow.Context, wire.PlanInput) (wire.PlanResult, error)
}

// NeedsSpeed is false if results are to be seen soon: a leg that waits for its second page does not commit.
func (p *Pager) NeedsSpeed(spec job.Spec) bool {
	return spec.BatchItems == 0 && spec.BatchBytes == 0 && !spec.Streams()
}

// Begin is that of [coordinate.Work].
func (p *Pager) Begin(c *coordinate.Coordinator) (coordinate.Traits, error) {
	p.C = c
	return coordinate.Traits{}, nil
}

// Renew is that of [coordinate.Work].
func (p *Pager) Renew() { p.closeInside() }

// Window is that of [coordinate.Work].
func (p *Pager) Window(v pool.View) int { return v.Window() }

// Salvage is that of [coordinate.Work].
func (p *Pager) Salvage(ctx workflow.Context, in wire.Salvaged) ([]string, error) {
	if in.Workflow != "" { // of a redrive of a feed; if nothing is known of the leg, its items are planned again
		done, err := SalvageLeg(ctx, in)
		return done.Manifests, err
	}
	plain := wire.CommitInput{Ref: in.Ref, Leg: in.Leg, Previous: in.Previous}
	for _, e := range in.Entries {
		if e.Verify() == nil { // the items of the others are planned again
			plain.Entries = append(plain.Entries, e.Entry)
		}
	}
	committed, err := execute.IO(ctx, wire.ActivityCommit, plain)
	return []string{committed.Manifest}, err
}

// Next is that of [coordinate.Work].
func (p *Pager) Next(ctx workflow.Context, t coordinate.Snapshot) (coordinate.Assignment, error) {
	in := wire.PlanInput{
		Ref: t.Ref, Spec: t.Spec, From: p.State.Cursor, Resume: t.Resume,
		Batches: PageSize(t), Sizing: t.Sizing,
	}
	if t.Portions == 1 {
		in.Hurry = hurry
	}
	page, err := p.Plan(ctx, in)
	if err != nil {
		return coordinate.Assignment{}, err
	}
	return p.Found(page)
}

// Found returns the assignment of a page that an activity has found, and notes where the next one begins.
func (p *Pager) Found(page wire.PlanResult) (coordinate.Assignment, error) {
	batches, err := wire.DecodePage(page.Page)
	if err != nil {
		return coordinate.Assignment{}, err
	}
	p.State.Cursor = page.Next
	found := coordinate.Assignment{
		Page: page.Page, Planned: page.Next.Item, Last: page.Done, Waiting: page.Waiting, Noticed: page.Noticed,
		Sources: page.Sources, Perm: page.Perm, LeftOut: page.LeftOut, Old: page.OldFiles, Reuse: page.Reuse, Bytes: page.Total, Resumed: page.Resumed,
		Worker: wire.PoolWorker{Name: page.Worker, Capacity: page.Capacity}, Version: page.Version,
		Batches: int64(len(batches)), MostLegs: coordinate.OpenLegs,
	}
	for _, b := range batches {
		found.Items += b.Count
	}
	return found, nil
}

// PageSize returns how many batches the next page has at most. Each goes through all stages of a pipeline in one leg.
// If results are printed while more items come, a page has two for each slot: it is committed as a whole.
func PageSize(t coordinate.Snapshot) int {
	most := pipeline.Compile(t.Spec.Stages).Page(t.Spec.BatchItems)
	if t.Portions == 0 {
		return min(wire.FirstPage, most)
	}
	if t.Spec.Streams() {
		return min(most, max(wire.FirstPage, 2*t.Sizing.Slots))
	}
	return most
}

// Finish has the output published from the manifests of all that is done.
func (p *Pager) Finish(ctx workflow.Context, t coordinate.Snapshot, r *job.Report) error {
	in := wire.FinishInput{Ref: t.Ref, Spec: t.Spec, Manifests: t.Heads, Planned: t.Planned, Earlier: t.Earlier}
	result, err := execute.IO(ctx, wire.ActivityFinish, in)
	if err != nil {
		return err
	}
	r.Output, r.Failures, r.Gone = &result.Output, result.Failures, result.Gone
	if len(result.Manifests) > 0 { // items have got outcomes that were not counted before
		r.Manifests = result.Manifests
		r.OK, r.Failed, r.Dropped, r.Lines = result.Books.OK, result.Books.Failed, result.Books.Dropped, result.Books.Lines
	}
	return nil
}

// SalvageLeg has a leg of a job whose spec is a feed's asked for what it had accepted, and that recorded.
func SalvageLeg(ctx workflow.Context, in wire.Salvaged) (wire.SalvageFeedResult, error) {
	if in.Gone {
		return wire.SalvageFeedResult{Gone: true}, nil
	}
	return execute.IO(ctx, wire.ActivitySalvageFeed, in.SalvageFeedInput)
}

// Take gives the job's second and last page to the leg inside it, if that waits for one.
func (w *Pager) Take(p coordinate.Assignment) bool {
	taken := w.extendInside(p)
	w.closeInside()
	return taken
}

// Open gives a page of batches to a leg. Small pages are run inside the job if there will be few of them, or one after
// the other.
func (w *Pager) Open(p coordinate.Assignment) {
	if (w.C.State.Report.Legs == 0 || p.Waiting) && w.Inside == nil && p.Batches <= wire.InsideBatches {
		w.startInside(p)
		return
	}
	w.startChild(p)
}

// ChildLeg is the handle of a leg in a child workflow.
type ChildLeg struct {
	C     *coordinate.Coordinator
	In    wire.LegInput
	Sofar wire.LegResult // what the leg has committed, as far as the job knows
	// started is ready once the leg is known to run, or to have run. Until then its workflow ID may be that of a leg of an
	// earlier run, which must not be asked for this job's.
	started workflow.Future
	child   workflow.ChildWorkflowFuture // once it is started
}

// startChild gives an assignment to a leg in a child workflow.
func (w *Pager) startChild(p coordinate.Assignment) {
	c := w.C
	first := c.State.Report.Legs == 0
	in := c.Prepare(false, p)
	in.SpeedAwaited = first && c.AwaitSpeed()
	summary := fmt.Sprintf("leg %d · batches %s–%s", in.Number, text.Thousands(in.Base+1), text.Thousands(in.Base+p.Batches))
	handle := &ChildLeg{C: c, In: in, Sofar: wire.LegResult{Manifests: in.Previous, Left: p.Items}}
	handle.Start(c.Opened(in.LegState, p.Batches, handle), summary, wire.WorkflowLeg, in)
}

// Start starts the workflow of the leg, which is open, with the input, and has the coordinator take in its end.
func (l *ChildLeg) Start(open *coordinate.OpenLeg, summary, name string, in any) {
	c := l.C
	started, starts := workflow.NewFuture(c.Ctx)
	ended, ends := workflow.NewFuture(c.Ctx)
	l.started = started
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		l.child = c.StartLeg(execute.LegOptions(ctx, l.In.Spec, l.In.Number, summary), l, name, in)
		starts.Set(nil, nil)
		ends.Chain(l.child)
	})
	c.Selector.AddFuture(ended, func(f workflow.Future) {
		var result wire.LegResult
		if err := f.Get(c.Ctx, &result); err != nil {
			c.ReceiveAll() // it may have been the last thing that the leg has said
			result = l.Sofar
			result.Error = execute.JobError(err)
		}
		c.LegEnded(open, result)
	})
}

// Signal sends a signal without waiting; undelivered is called if the leg has ended before. It takes a
// coroutine, since the signal waits until the child has been started.
func (l *ChildLeg) Signal(name string, argument any, undelivered func()) {
	workflow.Go(l.C.Ctx, func(ctx workflow.Context) {
		_ = l.started.Get(ctx, nil) // set without an error, above
		if l.child.SignalChildWorkflow(ctx, name, argument).Get(ctx, nil) != nil {
			undelivered()
			l.C.WakeUp()
		}
	})
}

// ID is that of [coordinate.Handle].
func (l *ChildLeg) ID() string { return wire.LegID(l.In.Spec.Name, l.In.Number) }

// Halt is that of [coordinate.Handle].
func (l *ChildLeg) Halt(notice wire.StopNotice) { l.Signal(wire.SignalHalt, notice, func() {}) }

// Limit is that of [coordinate.Handle].
func (l *ChildLeg) Limit(limits wire.LegLimits) { l.Signal(wire.SignalLimits, limits, func() {}) }

// Grant is that of [coordinate.Handle].
func (l *ChildLeg) Grant(places int, returned func()) { l.Signal(wire.SignalGrant, places, returned) }

// Counts is that of [coordinate.Handle].
func (l *ChildLeg) Counts(reported wire.Counts) wire.Counts { return reported }

// Exact is that of [coordinate.Handle].
func (l *ChildLeg) Exact() bool { return false }

// Kept is that of [coordinate.Handle].
func (l *ChildLeg) Kept(r wire.LegResult) { l.Sofar = r }

// AddTo is that of [coordinate.Handle].
func (l *ChildLeg) AddTo(r *job.Report) {
	r.LegManifests = append(r.LegManifests, l.Sofar.Manifests...)
	if l.started.IsReady() {
		r.OpenLegs = append(r.OpenLegs, l.ID())
	}
}

// Pending keeps the manifests that the leg was given, until it has begun and can say so itself.
func (l *ChildLeg) Pending() []any {
	if l.started.IsReady() {
		return nil
	}
	return []any{wire.CommitInput{Ref: l.In.Ref, Leg: l.In.Number, Previous: l.In.Previous}}
}

// insideLeg is the handle of the leg that runs inside the job: small jobs need no other.
type insideLeg struct{ *leg }

// startInside runs an assignment inside this workflow.
func (w *Pager) startInside(p coordinate.Assignment) {
	c := w.C
	in := c.Prepare(true, p)
	l, err := newLeg(c.Ctx, in, &insideLink{w})
	if err != nil {
		c.Fail(execute.JobError(err))
		return
	}
	l.page.more = c.AwaitSpeed()
	l.ListenInside()
	w.Inside, c.Inside = l, l
	open := c.Opened(in.LegState, p.Batches, insideLeg{l})
	future, settable := workflow.NewFuture(c.Ctx)
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		l.Run(ctx)
		settable.Set(l.commit(ctx), nil)
	})
	c.Selector.AddFuture(future, func(f workflow.Future) {
		var result wire.LegResult
		_ = f.Get(c.Ctx, &result) // set without an error, above
		w.Inside, c.Inside = nil, nil
		if left := l.Handover().Tasks; l.Full() && len(left) > 0 && !c.Ending() && result.Error == nil {
			c.Left -= result.Left // the next leg gets to them
			rest := coordinate.Assignment{Tasks: left, Batches: int64(len(left)), Items: result.Left}
			c.Replace(open, func() { w.startChild(rest) })
		}
		c.LegEnded(open, result)
	})
}

// extendInside gives a job's second and last assignment to the leg inside it, which has waited for it.
func (w *Pager) extendInside(p coordinate.Assignment) bool {
	c := w.C
	batches, err := wire.DecodePage(p.Page)
	if w.Inside == nil || p.Batches == 0 || !w.Inside.page.more || w.Inside.Full() || !p.Last || err != nil || len(batches) > wire.InsideBatches {
		return false
	}
	w.Inside.page.batches, w.Inside.page.more = append(w.Inside.page.batches, batches...), false
	w.Inside.KeepPlaces()
	open := c.Legs[0] // no other one has been opened
	open.Batches += len(batches)
	open.Dry = false
	c.Share()
	w.Inside.Wake()
	c.State.Batches += int64(len(batches))
	return true
}

// closeInside has the leg inside the job end without a second assignment.
func (w *Pager) closeInside() {
	if w.Inside != nil && w.Inside.page.more {
		w.Inside.page.more = false
		w.Inside.Wake()
	}
}

// ID is that of [coordinate.Handle].
func (l insideLeg) ID() string { return "" }

// Halt is that of [coordinate.Handle].
func (l insideLeg) Halt(notice wire.StopNotice) { l.leg.Halt(notice) }

// Limit is that of [coordinate.Handle].
func (l insideLeg) Limit(limits wire.LegLimits) { l.leg.SetLimits(limits) }

// Grant is that of [coordinate.Handle].
func (l insideLeg) Grant(places int, _ func()) { l.leg.Grant(places) }

// Counts is that of [coordinate.Handle].
func (l insideLeg) Counts(wire.Counts) wire.Counts { return dispatch.CountsOf(l.Sofar()) }

// Exact is that of [coordinate.Handle].
func (l insideLeg) Exact() bool { return true }

// Kept is that of [coordinate.Handle].
func (l insideLeg) Kept(wire.LegResult) {} // it never continues as new by itself

// AddTo is that of [coordinate.Handle].
func (l insideLeg) AddTo(r *job.Report) {
	r.LegManifests = append(r.LegManifests, l.manifest.in.Previous...)
	wire.Include(r, l.Progress())
}

// Pending is that of [coordinate.Handle].
func (l insideLeg) Pending() []any { return []any{l.manifest.Pending()} }

// insideLink reaches the job of the leg inside it.
type insideLink struct{ *Pager }

// Failed ends the job.
func (k *insideLink) Failed(err *job.Error) { k.C.Fail(err) }

// SlowDown slows the job down.
func (k *insideLink) SlowDown(r wire.SlowDownRequest) { k.C.SlowDown(r) }

// Counted has the job know that the leg has spent its part of the budget. The counts are read directly.
func (k *insideLink) Counted(c wire.Counts) {
	if c.Short {
		k.C.ShortLeg(c.Leg)
	}
}

// ReportPool has the job know of the pool.
func (k *insideLink) ReportPool(n wire.PoolReport) { k.C.NotePool(n) }

// BatchEnded has the job look at the leg.
func (k *insideLink) BatchEnded() {
	if k.Inside != nil && k.Inside.Sofar().Totals.Batches >= dispatch.RateBatches {
		k.C.Planning.RateKnown = true
	}
	k.C.CheckOutcomes(false)
	k.C.WakeUp()
}

// HandBack gives the places to the job at once.
func (k *insideLink) HandBack(places int) workflow.Future {
	future, settable := workflow.NewFuture(k.C.Ctx)
	settable.Set(nil, nil)
	k.C.TakeBack(wire.PlacesBack{Places: places})
	k.C.WakeUp()
	return future
}
