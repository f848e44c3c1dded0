package pages

import (
	"time"

	"github.com/stint-run/stint/internal/pipeline"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

const (
	// hurry bounds the planning of the second page: the first one does not keep workers busy for long.
	hurry = 100 * time.Millisecond
)

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

// Attach is that of [coordinate.Work].
func (p *Pager) Attach(c *coordinate.Coordinator) (coordinate.Traits, error) {
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
	found := coordinate.Assignment{
		Page: page.Page, Planned: page.Next.Item, Last: page.Done, Waiting: page.Waiting, Noticed: page.Noticed,
		Sources: page.Sources, Perm: page.Perm, LeftOut: page.LeftOut, Bytes: page.Total, Resumed: page.Resumed,
		Worker: wire.PoolWorker{Name: page.Worker, Capacity: page.Capacity},
	}
	batches, err := wire.DecodePage(page.Page)
	if err != nil {
		return coordinate.Assignment{}, err
	}
	for _, b := range batches {
		found.Items += b.Count
	}
	found.Batches, found.MostLegs = int64(len(batches)), coordinate.OpenLegs
	p.State.Cursor = page.Next
	return found, nil
}

// PageSize is how many batches the next page has at most. Each goes through all stages of a pipeline in one leg. If results are
// printed while more items come, a page has two for each slot: it is committed as a whole.
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
	r.Output = &result.Output
	return nil
}

// SalvageLeg has a leg of a job whose spec is a feed's asked for what it had accepted, and that recorded.
func SalvageLeg(ctx workflow.Context, in wire.Salvaged) (wire.SalvageFeedResult, error) {
	if in.Gone {
		return wire.SalvageFeedResult{Gone: true}, nil
	}
	return execute.IO(ctx, wire.ActivitySalvageFeed, in.SalvageFeedInput)
}
