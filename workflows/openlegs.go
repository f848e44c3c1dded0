package workflows

import (
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// openLeg is a leg that runs: in a child workflow, or inside this one.
type openLeg struct {
	number int
	id     string // workflow ID; "" inside this one
	child  workflow.ChildWorkflowFuture
	// previous are the manifests that it is to name.
	previous []string
	inline   *leg
	halt     workflow.Channel // of an inline leg
	counts   counts           // as the leg has told them, of one in a child workflow
	// answered: it has told them since the job has asked for them.
	answered bool
}

// extendLeg gives a job's last page to the leg that runs inside it, which has waited for it.
func (j *jobRun) extendLeg(p activities.PlanResult) bool {
	l := j.waitingLeg()
	batches, err := activities.DecodePage(p.Page)
	if l == nil || !p.Done || err != nil || len(batches) > inlineBatches {
		return false
	}
	places := min(j.places, len(batches))
	j.places -= places
	l.extend(batches, j.state.Batches, places)
	j.state.Batches += int64(len(batches))
	return true
}

// closeLeg tells the inline leg that nothing more will come.
func (j *jobRun) closeLeg() {
	if l := j.waitingLeg(); l != nil {
		l.more = false
		l.wake.SendAsync(nil)
	}
}

// waitingLeg is the inline leg that does not end before it knows of the second page; nil where there
// is none.
func (j *jobRun) waitingLeg() *leg {
	for _, l := range j.legs {
		if l.inline != nil && l.inline.more && !l.inline.full {
			return l.inline
		}
	}
	return nil
}

// startLeg gives a planned page to a leg. The first page, which is small, is run right here.
func (j *jobRun) startLeg() {
	if j.page == nil || len(j.legs) >= openLegs || j.ending() || !j.ready {
		return // once the run is to continue as new, a page that is planned already is still run
	}
	if len(j.legs) > 0 && j.limited() {
		return
	}
	page := j.page
	j.page = nil
	in := LegInput{Page: page.Page, Number: j.state.Report.Legs}
	if j.state.Report.Legs == 0 {
		j.startInline(in)
		return
	}
	j.startChild(in)
}

// prepare fills in what every leg gets, and counts it. A leg takes no more places than it has
// batches: the others are for the next.
func (j *jobRun) prepare(in LegInput, batches int64) LegInput {
	in.Ref, in.Spec, in.Base, in.Version = j.state.Ref, j.spec(), j.state.Batches, j.in.Version
	in.Previous, j.state.Heads = j.state.Heads, nil
	in.Window = int(max(0, min(int64(j.places), batches)))
	j.places -= in.Window
	in.Limits = j.limits()
	in.Limits.Legs = len(j.legs) + 1
	j.state.Batches += batches
	j.state.Report.Legs++
	return in
}

func countBatches(in LegInput) (batches, items int64) {
	page, err := activities.DecodePage(in.Page)
	if err != nil {
		return 0, 0 // the leg reports it
	}
	for _, b := range page {
		items += b.Count
	}
	for _, t := range in.Tasks {
		items += t.Count
	}
	return int64(len(page) + len(in.Tasks)), items
}

func (j *jobRun) startChild(in LegInput) {
	count, items := countBatches(in)
	in = j.prepare(in, count)
	number := in.Number
	summary := fmt.Sprintf("leg %d · batches %s–%s", number, job.Thousands(in.Base+1), job.Thousands(in.Base+count))
	child := workflow.ExecuteChildWorkflow(legOptions(j.ctx, j.spec(), number, summary), Leg, in)
	opened := &openLeg{number: number, id: job.LegID(j.spec().Name, number), child: child, previous: in.Previous, answered: true}
	for _, before := range j.legs {
		j.tellNext(before, opened)
	}
	j.legs = append(j.legs, opened)
	j.selector.AddFuture(child, func(f workflow.Future) {
		var result LegResult
		if err := f.Get(j.ctx, &result); err != nil {
			result = LegResult{Manifests: in.Previous, Error: jobError(err), Left: items}
		}
		j.legEnded(opened, result)
	})
}

// signal sends a signal to a child leg without waiting; undelivered is called where it has ended
// before. It takes a coroutine, since the signal waits until the child has been started.
func (j *jobRun) signal(to *openLeg, name string, argument any, undelivered func()) {
	workflow.Go(j.ctx, func(ctx workflow.Context) {
		if to.child.SignalChildWorkflow(ctx, name, argument).Get(ctx, nil) != nil {
			undelivered()
			j.wake.SendAsync(nil)
		}
	})
}

// startInline runs a leg inside this workflow: small jobs need no other.
func (j *jobRun) startInline(in LegInput) {
	count, _ := countBatches(in)
	in = j.prepare(in, count)
	halt := workflow.NewBufferedChannel(j.ctx, 1)
	idle := workflow.NewBufferedChannel(j.ctx, 1)
	control := controls{halt: halt, grant: idle, next: idle, limits: idle, restarted: workflow.GetSignalChannel(j.ctx, job.SignalRestarted)}
	future, settable := workflow.NewFuture(j.ctx)
	opened := &openLeg{number: in.Number, halt: halt}
	l, err := newLeg(j.ctx, in, control)
	if err != nil {
		j.fail(jobError(err))
		return
	}
	opened.inline = l
	l.hand = j.handInline
	l.onDone = func() { j.noteSpeed(l) }
	l.onFail, l.onSlow, l.onCounts = j.fail, j.slow, func(counts) {}
	l.more = j.awaitSpeed()
	j.legs = append(j.legs, opened)
	workflow.Go(j.ctx, func(ctx workflow.Context) {
		l.ctx = ctx // what blocks must belong to this coroutine
		l.run()
		settable.Set(l.commit(), nil)
	})
	j.selector.AddFuture(future, func(f workflow.Future) {
		var result LegResult
		_ = f.Get(j.ctx, &result) // set without an error, above
		j.legEnded(opened, result)
		if l.full && len(l.waiting) > 0 && !j.ending() {
			j.left -= result.Left // the next leg gets to them
			j.startChild(LegInput{Tasks: l.waiting, Number: j.state.Report.Legs})
		}
	})
}
