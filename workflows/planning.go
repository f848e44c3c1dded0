package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// rateWait is how long a portion that is cut by the handler's speed waits for the batches of the portion before that show
// it (dispatch.RateBatches).
const rateWait = 5 * time.Second

// planning is what a coordinator knows of the portion after those that legs have.
type planning struct {
	running   bool
	cancel    workflow.CancelFunc // nil before the first
	found     *portion            // and not yet given to a leg
	rateKnown bool                // or no longer waited for
}

// startPlan has the next portion found while the one before it runs.
func (c *coordinator) startPlan() {
	p := &c.planning
	if p.running || p.found != nil || c.state.Report.PlanDone || c.ending() || c.renew || !c.speedKnown() {
		return
	}
	t := c.terms()
	ctx, cancel := workflow.WithCancel(c.ctx)
	p.running, p.cancel = true, cancel
	// In its own coroutine, because an orphan is executed again.
	future, settable := workflow.NewFuture(c.ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		found, err := c.nextPortion(execute.IOOptions(ctx, t.spec, fmt.Sprintf("plan page %d", t.portions+1)), t)
		if err == nil {
			c.planned(found)
		}
		settable.Set(nil, err)
	})
	c.selector.AddFuture(future, func(f workflow.Future) {
		p.running = false
		if err := f.Get(c.ctx, nil); err != nil && !temporal.IsCanceledError(err) {
			c.fail(execute.JobError(err))
		}
	})
}

// nextPortion asks the work. The first time it waits until the pool has a worker.
func (c *coordinator) nextPortion(ctx workflow.Context, t terms) (found portion, err error) {
	if t.portions > 0 {
		return c.work.next(ctx, t)
	}
	err = c.offer(ctx, func(ctx workflow.Context) error {
		found, err = c.work.next(ctx, t)
		return err
	})
	return found, err
}

// speedKnown reports whether the next portion can be found with what is known of the handler's speed.
func (c *coordinator) speedKnown() bool {
	return c.state.Portions == 0 || c.planning.rateKnown || !c.work.needsSpeed(c.spec())
}

// awaitSpeed bounds the wait for what the first batches show of the handler's speed. It reports
// whether there is something to wait for.
func (c *coordinator) awaitSpeed() bool {
	if c.speedKnown() || c.state.Report.PlanDone {
		return false
	}
	c.selector.AddFuture(workflow.NewTimer(c.ctx, rateWait), func(workflow.Future) { c.planning.rateKnown = true })
	return true
}

// sizing is what is known of the handler's speed and of the pool. The leg inside the job shows it while it runs.
func (c *coordinator) sizing() wire.Sizing {
	speed := c.state.Speed
	workers := pool.Workers(c.state.Pool.Workers)
	if l := c.inside; l != nil {
		sofar := l.Sofar()
		if sofar.Speed.Items > 0 {
			speed = sofar.Speed
		}
		workers, _ = workers.With(sofar.Pool...)
	}
	slots, concurrency := workers.Slots()
	return wire.Sizing{Rate: speed.Rate(), Slots: slots, Concurrency: concurrency}
}

// planned takes a portion: for the leg inside the job if it can take it, otherwise for the next leg.
func (c *coordinator) planned(p portion) {
	r := &c.state.Report
	if c.state.Portions == 0 {
		c.state.Ref.Sources, c.state.Ref.Perm = p.sources, p.perm
		r.TotalBytes, r.LeftOut = p.bytes, p.leftOut
		r.Resumed = p.resumed.Done()
		r.Totals.Add(p.resumed)
		r.Discarded += p.discarded
		r.FirstError = r.FirstError.First(p.firstError)
		if p.heads != nil {
			c.in.Resume, c.state.Heads, r.Manifests = p.heads, p.heads, p.heads
		}
		p.worker.Last = workflow.Now(c.ctx).Unix()
		pool.Of(&c.state.Pool).Hear(p.worker)
	}
	r.Noticed.Add(p.noticed)
	c.state.Portions++
	if p.waiting {
		c.planning.rateKnown = true // the next page comes when it comes
	}
	c.state.Pool.Items = p.items / max(1, p.batches)
	c.resize()
	r.Planned, r.PlanDone = max(r.Planned, p.planned), p.last
	if p.batches > 0 && !c.extendInside(p) {
		c.planning.found = &p
	}
	c.closeInside()
}

// allPlanned reports that every item is in a portion, and every portion with a leg.
func (c *coordinator) allPlanned() bool { return c.state.Report.PlanDone && c.planning.found == nil }

// pending answers the query for what the legs inside the job have accepted and not committed: if Temporal
// ends the job, a resumed one begins with it.
func (c *coordinator) pending() ([]any, error) {
	var all []any
	for _, l := range c.legs {
		all = append(all, l.pending()...)
	}
	return all, nil
}

// salvage commits what an earlier run had accepted. Its parts stay below that run's prefix. The report counts what is still to be
// committed, for the next run, in case this one ends before; what the earlier run had committed itself is kept then, too.
func (c *coordinator) salvage() (failed error) {
	for i, piece := range c.in.Salvage {
		var in wire.Salvaged
		if err := json.Unmarshal(piece, &in); err != nil && failed == nil {
			failed = temporal.NewNonRetryableApplicationError(
				fmt.Sprintf("reading what an earlier run had accepted: %v; start anew with --fresh", err), job.ErrorInvalid, nil)
		}
		manifests := in.Previous
		if failed == nil && !(in.Workflow == "" && in.Empty()) {
			ctx := execute.IOOptions(c.ctx, c.spec(), fmt.Sprintf("commit %s of an earlier run, %d of %d", text.Count(len(in.Entries), "part"), i+1, len(c.in.Salvage)))
			manifests, failed = c.work.salvage(ctx, in)
			if failed != nil {
				manifests = in.Previous
			}
		}
		c.in.Resume = append(c.in.Resume, manifests...)
		c.state.Heads, c.state.Report.Manifests = c.in.Resume, c.in.Resume
		if failed == nil {
			c.state.Report.Salvage--
		}
	}
	c.in.Salvage = nil
	return failed
}
