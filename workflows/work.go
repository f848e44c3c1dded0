package workflows

import (
	"io/fs"
	"time"

	"github.com/stint-run/stint/internal/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// work is the part that differs between jobs: where their batches come from, and what happens to their
// results. Everything else is the coordinator's. A work belongs to one run of a job, and is used by its
// workflow only.
type work interface {
	// needsSpeed reports whether the next portion is cut by the handler's speed, so that it is worth
	// waiting for the first batches to show it.
	needsSpeed(spec job.Spec) bool
	// next finds the next portion. It blocks, and ctx has the options of an activity. After an error or a
	// cancellation it can be called again, as if it had not been called.
	next(ctx workflow.Context, t terms) (portion, error)
	// finish publishes what the manifests account for, and completes the report with it. It blocks, can be
	// cancelled, and can be repeated in a later run. ctx has the options of an activity.
	finish(ctx workflow.Context, t terms, r *job.Report) error
	// amend completes the report of a job that has not completed.
	amend(r *job.Report)
	// attach has the work deal with the updates and signals that only its kind of job has. It is called once, before next.
	attach(c *coordinator) error
	// receive takes the signals that have arrived which only its kind of job has. It does not block.
	receive()
	// resized has batches that are made from now on have so many items; 0: automatic. Open legs keep those that they have.
	resized(items int64)
	// renew prepares the job's next run: next must return soon.
	renew()
	// open gives a portion to a leg. It does not block.
	open(p portion)
	// window is the automatic window, by what is known of the pool.
	window(v pool.View) int
	// salvage records what an earlier run of the job had accepted, and returns the manifests that name it. It blocks.
	salvage(ctx workflow.Context, in wire.Salvaged) (manifests []string, err error)
	// carry returns the open legs that the job's next run continues with; false: they must end first.
	carry(legs []*openLeg) ([]wire.CarriedLeg, bool)
	// insistsOnInit reports whether the init hooks run to their end even if a stop comes before it.
	insistsOnInit() bool
	// progressed is called whenever something may have happened. It does not block.
	progressed()
	// ended takes what a leg has done that has ended.
	ended(l *openLeg, r wire.LegResult)
	// outcomes are the counts that decide whether too many items fail, and those of this run's items alone, as far as they are
	// known.
	outcomes() (ok, failed int64, fresh wire.Counts)
	// listFailures writes the errors file of a job that has failed, and returns where that is; empty: there is none. It
	// blocks. ctx has the options of an activity.
	listFailures(ctx workflow.Context, t terms) (location string, err error)
	// boundsFailures reports whether a job fails if too many of its items do.
	boundsFailures() bool
}

// terms are what a job stands at when it asks its work for something.
type terms struct {
	ref      wire.Ref
	spec     job.Spec
	resume   []string // heads of the manifests of earlier runs: what they account for is done
	heads    []string // heads of the manifests of all that is done
	planned  int64    // items that are to be accounted for
	portions int      // found before
	earlier  []string // runs that this one takes the place of
	sizing   wire.Sizing
}

// portion is what one leg gets to do.
type portion struct {
	page    []byte      // see LegInput.Page
	tasks   []wire.Task // see dispatch.State
	batches int64
	items   int64

	planned int64 // items of the job up to the end of this portion
	last    bool
	noticed job.Noticed // of the inputs
	waiting bool        // it has what has come of an input that is still being written

	// Only the first portion has these.
	sources string          // key of the source table
	perm    fs.FileMode     // see [wire.Ref]
	leftOut int             // see [job.Report]
	bytes   int64           // of all input; 0: not known
	resumed job.Totals      // of what earlier runs have done
	worker  wire.PoolWorker // that has found it

	// Of a feed.
	segment    bool            // a leg that takes items, rather than batches
	discarded  int64           // of what earlier runs have done
	heads      []string        // of manifests, instead of those of earlier runs; nil: those stay
	firstError *job.FirstError // of what earlier runs have lost

	// Of a loop.
	slot *job.LoopSlot // that the leg runs; nil: none
}

// standing reports that the leg which gets the portion has no end of its own: it waits for no place, and no other leg's end
// makes room for it.
func (p *portion) standing() bool { return p.segment || p.slot != nil }

// mostLegs is how many legs are open at once at most, with the one that gets the portion.
func (p *portion) mostLegs() int {
	switch {
	case p.slot != nil:
		return job.MaxSlots
	case p.segment:
		return feedLegs
	}
	return openLegs
}

// newWork chooses what a job does.
func newWork(in wire.JobInput, state *wire.WorkState) work {
	switch {
	case in.Redrive != nil:
		return newRedriveWork(*in.Redrive, state)
	case in.Spec.Source == job.SourceFeed:
		return newFeedWork(state)
	case in.Spec.Source == job.SourceClock:
		return newLoopWork(in, state)
	}
	return newFileWork(state)
}

const (
	// hurry bounds the planning of the second page: the first one does not keep workers busy for long.
	hurry = 100 * time.Millisecond
)

// pager finds the pages of a source that is read in order.
type pager struct {
	c     *coordinator
	state *wire.WorkState
	// plan runs the activity that finds one page.
	plan func(workflow.Context, wire.PlanInput) (wire.PlanResult, error)
}

// needsSpeed is false if results are to be seen soon: a leg that waits for its second page does not commit.
func (p *pager) needsSpeed(spec job.Spec) bool {
	return spec.BatchItems == 0 && spec.BatchBytes == 0 && !spec.Streams()
}

func (p *pager) attach(c *coordinator) error {
	p.c = c
	return nil
}

func (p *pager) receive() {}

func (p *pager) resized(int64) {}

func (p *pager) renew() {}

func (p *pager) insistsOnInit() bool { return false }
func (p *pager) progressed()         {}

func (p *pager) ended(*openLeg, wire.LegResult) {}

func (p *pager) outcomes() (ok, failed int64, fresh wire.Counts) { return p.c.outcomes() }

func (p *pager) open(found portion) { p.c.openPage(found) }

func (p *pager) window(v pool.View) int { return v.Window() }

func (p *pager) carry(legs []*openLeg) ([]wire.CarriedLeg, bool) { return nil, len(legs) == 0 }

func (p *pager) salvage(ctx workflow.Context, in wire.Salvaged) ([]string, error) {
	if in.Workflow != "" { // of a redrive of a feed; if nothing is known of the leg, its items are planned again
		done, err := salvageLeg(ctx, in)
		return done.Manifests, err
	}
	var committed wire.CommitResult
	plain := wire.CommitInput{Ref: in.Ref, Leg: in.Leg, Previous: in.Previous}
	for _, e := range in.Entries {
		if e.Verify() == nil { // the items of the others are planned again
			plain.Entries = append(plain.Entries, e.Entry)
		}
	}
	committed, err := execute.IO(ctx, wire.ActivityCommit, plain)
	return []string{committed.Manifest}, err
}

func (p *pager) next(ctx workflow.Context, t terms) (portion, error) {
	in := wire.PlanInput{
		Ref: t.ref, Spec: t.spec, From: p.state.Cursor, Resume: t.resume,
		Batches: pageSize(t), Sizing: t.sizing,
	}
	if t.portions == 1 {
		in.Hurry = hurry
	}
	page, err := p.plan(ctx, in)
	if err != nil {
		return portion{}, err
	}
	found := portion{
		page: page.Page, planned: page.Next.Item, last: page.Done, waiting: page.Waiting, noticed: page.Noticed,
		sources: page.Sources, perm: page.Perm, leftOut: page.LeftOut, bytes: page.Total, resumed: page.Resumed,
		worker: wire.PoolWorker{Name: page.Worker, Capacity: page.Capacity},
	}
	batches, err := wire.DecodePage(page.Page)
	if err != nil {
		return portion{}, err
	}
	for _, b := range batches {
		found.items += b.Count
	}
	found.batches = int64(len(batches))
	p.state.Cursor = page.Next
	return found, nil
}

// pageSize is how many batches the next page has at most. Each goes through all stages of a pipeline in one leg. If results are
// printed while more items come, a page has two for each slot: it is committed as a whole.
func pageSize(t terms) int {
	most := pipeline.Compile(t.spec.Stages).Page(t.spec.BatchItems)
	if t.portions == 0 {
		return min(wire.FirstPage, most)
	}
	if t.spec.Streams() {
		return min(most, max(wire.FirstPage, 2*t.sizing.Slots))
	}
	return most
}

// fileWork runs a handler over the items of the spec's inputs.
type fileWork struct{ pager }

func newFileWork(state *wire.WorkState) *fileWork {
	return &fileWork{pager{state: state, plan: func(ctx workflow.Context, in wire.PlanInput) (wire.PlanResult, error) {
		return execute.IO(ctx, wire.ActivityPlan, in)
	}}}
}

// finish has the output published from the manifests of all that is done.
func (p *pager) finish(ctx workflow.Context, t terms, r *job.Report) error {
	in := wire.FinishInput{Ref: t.ref, Spec: t.spec, Manifests: t.heads, Planned: t.planned, Earlier: t.earlier}
	result, err := execute.IO(ctx, wire.ActivityFinish, in)
	if err != nil {
		return err
	}
	r.Output = &result.Output
	return nil
}

func (w *fileWork) amend(*job.Report) {}

func (w *fileWork) boundsFailures() bool { return true }

func (w *fileWork) listFailures(ctx workflow.Context, t terms) (string, error) {
	in := wire.FailuresInput{Ref: t.ref, Spec: t.spec, Manifests: t.heads}
	return execute.IO(ctx, wire.ActivityWriteFailures, in)
}
