package workflows

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// JobInput starts a job (it is [job.Input] then), or goes on with it in a new run.
type JobInput struct {
	Spec   job.Spec `json:"spec"`
	Resume []string `json:"resume,omitempty"`
	// Salvage is what an earlier run has accepted and not committed.
	Salvage []activities.CommitInput `json:"salvage,omitempty"`
	// Redrive has the failed items of a completed job run again, instead of the spec's input.
	Redrive *job.Redrive `json:"redrive,omitempty"`
	// Scheduled: see [job.Input].
	Scheduled bool `json:"scheduled,omitempty"`
	// Version is the job.LogicVersion of the client that has started the job.
	Version int       `json:"version,omitempty"`
	State   *jobState `json:"state,omitempty"` // nil at the start
}

// jobState is all that a job carries from one of its runs to the next.
type jobState struct {
	Ref     activities.Ref    `json:"ref"`
	Cursor  activities.Cursor `json:"cursor"`
	Pages   int               `json:"pages"`   // planned so far
	Batches int64             `json:"batches"` // planned so far
	Heads   []string          `json:"heads"`   // manifests that no other names
	Speed   speed             `json:"speed"`   // of the handler, as the leg that ended last has shown
	Report  job.Report        `json:"report"`
	Fresh   counts            `json:"fresh,omitzero"` // of what earlier runs have not done
	Slowed  slowed            `json:"slowed,omitzero"`
}

const (
	// pageBatches is the most batches of a page, firstPage of the first one.
	pageBatches = 1000
	firstPage   = 16
	// A job of no more than two pages, the second of at most inlineBatches, has one leg, which it
	// runs itself: some 400 events.
	inlineBatches = 100
	// openLegs is how many legs run at once: one that drains, one that fills its places.
	openLegs = 2
	// Before a page is planned with automatic batches, so many batches of the page before should
	// have ended to tell the handler's speed; but it is waited for no longer than rateWait.
	rateBatches = 4
	rateWait    = 5 * time.Second
	// hurry bounds the planning of the second page: the first one does not keep workers busy for long.
	hurry = 100 * time.Millisecond
)

// Job runs a file job to its end. It fails with an application error whose details are the
// job's report where the job failed, and otherwise returns the report.
//
// It has no largest input. A run spends on each leg, so on 1,000 batches: Plan 3 events, the child 3,
// three signals for its places 6, and 3 for each of some four workflow tasks: 24. In bytes: the page in
// Plan's result and in the leg's input, 10 KB each (40 KB where no batch follows from the one before),
// twice the spec, 500 bytes, and 150 for each event: 24 KB. So Temporal suggests continue-as-new (4,096
// events or 4 MB) after some 170 legs, 170,000 batches, and no sooner than after 40. The run then starts
// nothing, waits for its two open legs, and ends with at most 4,096 + 2·24 events.
//
// The next one gets the spec, the cursor, counts and the heads of the manifest chain: one for each leg
// that was open, at most three, however many manifests there are. These are 1 KB and the spec, the same
// in every run, and a chain of runs has no limit. 10^12 items in batches of 100,000 are 10^7 batches,
// 10^4 legs and 60 runs; in batches of one item they are 10^9 legs and 6 million runs.
func Job(ctx workflow.Context, in JobInput) (job.Report, error) {
	in = scheduled(ctx, in)
	j := newJobRun(ctx, in)
	if err := j.setup(); err != nil {
		return job.Report{}, err
	}
	if err := j.salvage(); err != nil {
		j.fail(jobError(err))
	}
	j.startInit()
	j.run()
	j.receiveAll() // nothing may be lost over continue-as-new
	if j.again && !j.ending() && !j.allDone() {
		next := j.in
		next.State = &j.state
		return job.Report{}, workflow.NewContinueAsNewError(ctx, Job, next)
	}
	return j.conclude()
}

// jobRun is one run of a job.
type jobRun struct {
	ctx      workflow.Context // never cancelled: a cancellation of the workflow is a stop
	canceled workflow.Context // the workflow's own
	in       JobInput
	state    jobState
	selector workflow.Selector
	wake     workflow.Channel // by which the inline leg makes run look again

	legs       []*openLeg
	places     int  // of the window that no leg holds
	resized    bool // the window has been set
	planning   bool
	cancelPlan workflow.CancelFunc
	left       int64                  // items that ended legs did not get to
	page       *activities.PlanResult // planned, and not yet given to a leg
	rateKnown  bool                   // or no longer waited for
	notice     *job.StopNotice        // what legs are told of the stop
	again      bool                   // continue as new as soon as no leg is open

	ready      bool                // the init hooks have run
	cancelInit workflow.CancelFunc // nil where none runs
	initRuns   bool                // an init hook does not end
	unblocking bool                // the shutdown hooks run
	finishing  bool
	concluded  bool // its outcome is decided
	asking     bool // legs for their counts
}

func newJobRun(ctx workflow.Context, in JobInput) *jobRun {
	canceled := ctx
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	j := &jobRun{
		ctx: ctx, canceled: canceled, in: in, places: in.Spec.Window,
		selector: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1),
	}
	if in.State != nil {
		j.state = *in.State
		j.rateKnown = true
		return j
	}
	info := workflow.GetInfo(ctx)
	j.state.Ref = activities.Ref{Job: in.Spec.Name, Run: info.FirstRunID, Store: in.Spec.Store}
	j.state.Heads = in.Resume
	j.state.Report = job.Report{
		Job: in.Spec.Name, Run: info.FirstRunID, Pool: in.Spec.Pool, State: job.Running,
		Started: workflow.Now(ctx), Store: in.Spec.Store, Manifests: in.Resume, Settings: in.Spec.Settings(),
	}
	return j
}

func (j *jobRun) setup() error {
	if err := workflow.SetQueryHandler(j.ctx, job.QueryReport, j.report); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	for _, signal := range []string{job.SignalStop, signalFail, signalSlow, signalCounts} {
		j.selector.AddReceive(workflow.GetSignalChannel(j.ctx, signal), func(workflow.ReceiveChannel, bool) { j.receiveAll() })
	}
	if err := workflow.SetQueryHandler(j.ctx, job.QueryPending, j.pending); err != nil {
		return fmt.Errorf("answering queries: %w", err)
	}
	j.selector.AddReceive(j.wake, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
	workflow.Go(j.canceled, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		j.stop(job.Stop{Reason: "the workflow was cancelled"})
		j.wake.SendAsync(nil)
	})
	return j.listenForSettings()
}

// run returns once no leg is open and none shall be.
func (j *jobRun) run() {
	for {
		if workflow.GetInfo(j.ctx).GetContinueAsNewSuggested() {
			j.again = true
			j.closeLeg()
		}
		j.startLeg()
		j.startPlan()
		j.grantLast()
		j.describe()
		if len(j.legs) == 0 && !j.planning && j.ready && !j.unblocking && (j.ending() || j.again && j.page == nil || j.allPlanned()) {
			return
		}
		j.selector.Select(j.ctx)
	}
}

// ending reports that nothing new shall be started, for good.
func (j *jobRun) ending() bool { return j.notice != nil || j.concluded }

func (j *jobRun) spec() job.Spec { return j.in.Spec }

// startPlan has the next page planned while the one before it runs.
func (j *jobRun) startPlan() {
	if j.planning || j.page != nil || j.state.Report.PlanDone || j.ending() || j.again || !j.speedKnown() {
		return
	}
	number := j.state.Pages
	input := activities.PlanInput{
		Ref: j.state.Ref, Spec: j.spec(), From: j.state.Cursor, Resume: j.in.Resume, Redrive: j.in.Redrive,
		Batches: pageSize(number), Sizing: activities.Sizing{Rate: j.rate()},
	}
	if number == 1 {
		input.Hurry = hurry
	}
	planCtx, cancel := workflow.WithCancel(j.ctx)
	j.planning, j.cancelPlan = true, cancel
	// Executed in a coroutine of its own, since an orphan is executed again.
	future, settable := workflow.NewFuture(j.ctx)
	workflow.Go(planCtx, func(ctx workflow.Context) {
		var result activities.PlanResult
		err := j.plan(ioOptions(ctx, j.spec(), fmt.Sprintf("plan page %d", number+1)), input, &result)
		settable.Set(result, err)
	})
	j.selector.AddFuture(future, func(f workflow.Future) {
		j.planning = false
		var result activities.PlanResult
		if err := f.Get(j.ctx, &result); err != nil {
			if !temporal.IsCanceledError(err) {
				j.fail(jobError(err))
			}
			return
		}
		j.planned(result)
	})
}

func pageSize(number int) int {
	if number == 0 {
		return firstPage
	}
	return pageBatches
}

// speedKnown reports whether the next page can be planned with what is known of the handler's speed.
func (j *jobRun) speedKnown() bool {
	spec := j.spec()
	return j.state.Pages == 0 || j.rateKnown || spec.BatchItems > 0 || spec.BatchBytes > 0
}

// rate is what is known of the handler's speed: the inline leg shows it while it runs.
func (j *jobRun) rate() int64 {
	for _, l := range j.legs {
		if l.inline != nil && l.inline.result.Speed.Items > 0 {
			return l.inline.result.Speed.rate()
		}
	}
	return j.state.Speed.rate()
}

func (j *jobRun) planned(p activities.PlanResult) {
	r := &j.state.Report
	if j.state.Pages == 0 {
		j.state.Ref.Sources = p.Sources
		r.TotalBytes = p.Total
		r.Resumed = p.Resumed.Done()
		r.Totals.Add(p.Resumed)
	}
	j.state.Pages++
	j.state.Cursor = p.Next
	r.Planned, r.PlanDone = p.Next.Item, p.Done
	if len(p.Page) > 0 && !j.extendLeg(p) {
		j.page = &p
	}
	j.closeLeg()
}
