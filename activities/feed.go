package activities

import (
	"context"
	"errors"
	"slices"

	"github.com/stint-run/stint/internal/data/feeds"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/stages"
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/api/serviceerror"
)

// PlanFeed begins a feed: it checks that the output can be written, claims the store for this run and writes the source
// table. If the feed continues earlier runs it returns, page by page, batches of the items that these had accepted, and
// that have no outcome. Such an item that is in no object of the store is lost: the first page records it as failed.
func (a *Activities) PlanFeed(ctx context.Context, in wire.PlanFeedInput) (wire.PlanFeedResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.PlanFeedResult, error) {
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.PlanFeedResult{}, err
		}
		if err := a.claim(ctx, dir, in.Ref, in.Spec); err != nil {
			return wire.PlanFeedResult{}, err
		}
		in.Sizing = inputs.Including(in.Sizing, a.opts.Capacity())
		result, err := feeds.Plan(ctx, a.inputs, dir, in)
		if in.Ref.Sources == "" {
			result.Worker, result.Capacity, result.Version = a.opts.Worker, a.opts.Capacity(), a.opts.Version
		}
		return result, err
	})
}

// SalvageFeed commits what a leg that has ended had not committed: results, and items without an outcome. It can be
// repeated. A leg whose history is gone is not an error.
func (a *Activities) SalvageFeed(ctx context.Context, in wire.SalvageFeedInput) (wire.SalvageFeedResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.SalvageFeedResult, error) {
		var result wire.SalvageFeedResult
		all, err := wire.DecodePending(func(offset int) ([]byte, error) {
			return a.opts.Pending(ctx, in.Workflow, in.Run, offset)
		})
		if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
			return wire.SalvageFeedResult{Gone: true}, nil
		}
		if err != nil {
			return result, err
		}
		for _, c := range all {
			c.Entries = slices.DeleteFunc(c.Entries, func(e wire.FeedEntry) bool { return e.Verify() != nil }) // PlanFeed finds their items
			if c.Empty() {
				result.Manifests = append(result.Manifests, c.Previous...)
				continue
			}
			dir, err := ledger.OpenStore(ctx, c.Ref, a.opts.Access)
			if err != nil {
				return result, err
			}
			key, err := feeds.Commit(ctx, dir, c)
			if err != nil {
				return result, err
			}
			result.Manifests = append(result.Manifests, key)
		}
		return result, nil
	})
}

// CommitFeed writes what a leg of a feed has come to: inline outcomes to parts, unfinished items to spills, and the
// manifest that names them. It counts only when its result has been accepted, as with [Activities.Commit]. Ranges that
// overlap, or entries that contradict themselves, are [job.ErrorBooks], inline outcomes that are not their entry's
// [job.ErrorCorrupt]: neither is retried.
func (a *Activities) CommitFeed(ctx context.Context, in wire.CommitFeedInput) (wire.CommitResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.CommitResult, error) {
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.CommitResult{}, err
		}
		key, err := feeds.Commit(ctx, dir, in)
		return wire.CommitResult{Manifest: key}, err
	})
}

// feedBatch is a batch of a feed whose items came with it.
type feedBatch struct{}

func (feedBatch) source(e *execution) (source, error) {
	in := &e.in
	shape := wire.Shape{Format: wire.Format(in.Format), MaxItem: int(in.MaxItem)}
	return e.openSteps(shape.MaxItem, stages.Options{NotesDrops: true, Feed: true}, func() (source, error) {
		return feeds.NewItems(in.Ref.Job, in.Batch, in.Items, shape)
	})
}

// sink returns outcomes with the answer. The store is opened only if they are many, or the input says so.
func (feedBatch) sink(e *execution) (sink, error) {
	if e.in.Stored {
		return inputBatch{}.sink(e)
	}
	return feeds.NewSink(e.in.Ref.Run, e.in.Batch.First, e.openStore), nil
}
