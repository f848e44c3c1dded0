package coordinate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
)

// RateWait is how long an assignment that is cut by the handler's speed waits for the batches of the assignment before
// that show it (dispatch.RateBatches).
const RateWait = 5 * time.Second

// planning is what a coordinator knows of the assignment after those that legs have.
type planning struct {
	running   bool
	cancel    workflow.CancelFunc // nil before the first
	found     *Assignment         // and not yet given to a leg
	RateKnown bool                // or no longer waited for
}

// startPlan has the next assignment found while the one before it runs.
func (c *Coordinator) startPlan() {
	p := &c.Planning
	if p.running || p.found != nil || c.State.Report.PlanDone || c.Ending() || c.Renew || !c.speedKnown() {
		return
	}
	t := c.snapshot()
	ctx, cancel := workflow.WithCancel(c.Ctx)
	p.running, p.cancel = true, cancel
	// In its own coroutine, because an orphan is executed again.
	future, settable := workflow.NewFuture(c.Ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		found, err := c.nextPortion(execute.IOOptions(ctx, t.Spec, fmt.Sprintf("plan page %d", t.Portions+1)), t)
		if err == nil {
			c.planned(found)
		}
		settable.Set(nil, err)
	})
	c.Selector.AddFuture(future, func(f workflow.Future) {
		p.running = false
		if err := f.Get(c.Ctx, nil); err != nil && !temporal.IsCanceledError(err) {
			c.Fail(execute.JobError(err))
		}
	})
}

// nextPortion asks the work. The first time it waits until the pool has a worker.
func (c *Coordinator) nextPortion(ctx workflow.Context, t Snapshot) (found Assignment, err error) {
	if t.Portions > 0 {
		return c.work.Next(ctx, t)
	}
	err = c.offer(ctx, func(ctx workflow.Context) error {
		found, err = c.work.Next(ctx, t)
		return err
	})
	return found, err
}

// speedKnown reports whether the next assignment can be found with what is known of the handler's speed.
func (c *Coordinator) speedKnown() bool {
	return c.State.Portions == 0 || c.Planning.RateKnown || !c.work.NeedsSpeed(c.Spec())
}

// AwaitSpeed bounds the wait for what the first batches show of the handler's speed. It reports
// whether there is something to wait for.
func (c *Coordinator) AwaitSpeed() bool {
	if c.speedKnown() || c.State.Report.PlanDone {
		return false
	}
	c.Selector.AddFuture(workflow.NewTimer(c.Ctx, RateWait), func(workflow.Future) { c.Planning.RateKnown = true })
	return true
}

// sizing returns what is known of the handler's speed and of the pool. The leg inside the job shows it while it runs.
func (c *Coordinator) sizing() wire.Sizing {
	speed := c.State.Speed
	workers := pool.Workers(c.State.Pool.Workers)
	if l := c.Inside; l != nil {
		sofar := l.Sofar()
		if sofar.Speed.Items > 0 {
			speed = sofar.Speed
		}
		workers, _ = workers.With(sofar.Pool...)
	}
	slots, concurrency := workers.Slots()
	return wire.Sizing{Rate: speed.Rate(), Slots: slots, Concurrency: concurrency}
}

// planned takes an assignment: for the leg inside the job if it can take it, otherwise for the next leg.
func (c *Coordinator) planned(p Assignment) {
	r := &c.State.Report
	if c.State.Portions == 0 {
		c.State.Ref.Sources, c.State.Ref.Perm = p.Sources, p.Perm
		r.TotalBytes, r.LeftOut, r.OldFiles = p.Bytes, p.LeftOut, p.Old
		if p.Reuse != nil {
			r.ReusedFrom, r.Offered = p.Reuse.From, p.Reuse.Items
			r.Noticed.Note(p.Reuse.Why)
		}
		r.Resumed = p.Resumed.Done()
		r.Totals.Add(p.Resumed)
		r.SettleLife()
		r.Discarded += p.Discarded
		r.FirstError = r.FirstError.First(p.FirstError)
		if p.Heads != nil {
			c.In.Resume, c.State.Heads, r.Manifests = p.Heads, p.Heads, p.Heads
		}
		if c.Spec().Pin == limits.PinFirst {
			c.In.Spec.Pin = p.Version
		}
		r.Pinned = c.Spec().Pin
		p.Worker.Last = workflow.Now(c.Ctx).Unix()
		pool.Of(&c.State.Pool).Hear(p.Worker)
	}
	r.Noticed.Add(p.Noticed)
	c.State.Portions++
	if p.Waiting {
		c.Planning.RateKnown = true // the next page comes when it comes
	}
	c.State.Pool.Items = p.Items / max(1, p.Batches)
	c.resize()
	r.Planned, r.PlanDone = max(r.Planned, p.Planned), p.Last
	if !c.work.Take(p) && p.Batches > 0 {
		c.Planning.found = &p
	}
}

// allPlanned reports that every item is in an assignment, and every assignment with a leg.
func (c *Coordinator) allPlanned() bool { return c.State.Report.PlanDone && c.Planning.found == nil }

// Pending answers the query for what the legs inside the job have accepted and not committed: if Temporal
// ends the job, a resumed one begins with it.
func (c *Coordinator) Pending() ([]any, error) {
	var all []any
	for _, l := range c.Legs {
		all = append(all, l.Pending()...)
	}
	return all, nil
}

// Salvage commits what an earlier run had accepted. Its parts stay below that run's prefix. The report counts what is
// still to be committed, for the next run, in case this one ends before; what the earlier run had committed itself is
// kept then, too.
func (c *Coordinator) Salvage() (failed error) {
	for i, piece := range c.In.Salvage {
		var in wire.Salvaged
		if err := json.Unmarshal(piece, &in); err != nil && failed == nil {
			failed = temporal.NewNonRetryableApplicationError(
				fmt.Sprintf("reading what an earlier run had accepted: %v; start anew with --fresh", err), job.ErrorInvalid, nil)
		}
		manifests := in.Previous
		if failed == nil && !(in.Workflow == "" && in.Empty()) {
			ctx := execute.IOOptions(c.Ctx, c.Spec(), fmt.Sprintf("commit %s of an earlier run, %d of %d", text.Count(len(in.Entries), "part"), i+1, len(c.In.Salvage)))
			manifests, failed = c.work.Salvage(ctx, in)
			if failed != nil {
				manifests = in.Previous
			}
		}
		c.In.Resume = append(c.In.Resume, manifests...)
		c.State.Heads, c.State.Report.Manifests = c.In.Resume, c.In.Resume
		if failed == nil {
			c.State.Report.Salvage--
		}
	}
	c.In.Salvage = nil
	return failed
}

const (
	// firstPatience is how long the job waits for a worker to take its first activity before it reports that
	// no worker serves its pool. It doubles up to maxPatience, and the activity is offered again: five events
	// each time, so ten years without a worker are 37,000 events. A worker that comes takes the activity at
	// once, however long it may still be offered.
	firstPatience = 5 * time.Second
	maxPatience   = 12 * time.Hour
)

// offer runs an activity, by run, until a worker has taken it. Meanwhile the report says that nobody serves
// the pool. ctx has the activity's options.
func (c *Coordinator) offer(ctx workflow.Context, run func(workflow.Context) error) error {
	for patience := firstPatience; ; patience = min(2*patience, maxPatience) {
		if err := workflow.Await(ctx, func() bool { return !c.Paused() }); err != nil {
			return err
		}
		err := run(workflow.WithScheduleToStartTimeout(ctx, patience))
		if !notTaken(err) {
			c.State.Report.Unserved = false
			return err
		}
		c.State.Report.Unserved = true
		c.WakeUp()
	}
}

// lookForPools has the report say which of a pipeline's further pools nobody serves, until all of them are served. The
// job's own pool is offered its first activity.
func (c *Coordinator) lookForPools() {
	pools := slices.DeleteFunc(c.Spec().Pools(), func(pool string) bool { return pool == c.Spec().Pool })
	if len(pools) == 0 || c.In.State != nil && len(c.State.Report.UnservedPools) == 0 {
		return
	}
	workflow.Go(c.Ctx, func(ctx workflow.Context) {
		ctx = execute.IOOptions(ctx, c.Spec(), "look for workers of all pools")
		for in := (wire.ServedInput{Pools: pools, Known: c.State.Report.UnservedPools}); ; {
			result, err := execute.IO(ctx, wire.ActivityServed, in)
			if err != nil {
				result.Unserved = nil // nobody knows
			}
			in.Known, c.State.Report.UnservedPools = result.Unserved, result.Unserved
			c.WakeUp()
			if len(result.Unserved) == 0 {
				return
			}
		}
	})
}

// notTaken reports whether no worker has taken an activity in time.
func notTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}
