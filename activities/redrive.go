package activities

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/redrive"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// PlanRedrive plans the failed items of a completed job, as [Activities.Plan] does the input of a new
// one. It returns an empty last page if an earlier attempt at the redrive has published its output
// already.
func (a *Activities) PlanRedrive(ctx context.Context, in wire.PlanRedriveInput) (wire.PlanResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.PlanResult, error) {
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.PlanResult{}, err
		}
		if over, err := redrive.AlreadyPublished(ctx, a.opts.Access, in); err != nil || over {
			return wire.PlanResult{Next: in.From, Done: true}, err
		}
		source, err := redrive.NewSource(a.opts.Access, a.inputs, in.Redrive)
		if err != nil {
			return wire.PlanResult{}, err
		}
		return a.plan(ctx, dir, in.PlanInput, a.lister(in.Spec, source, a.beginAdding))
	})
}

// FinishRedrive merges what the items run again have come to into the output of the completed job, as
// [Activities.Finish] makes the output of a new one.
func (a *Activities) FinishRedrive(ctx context.Context, in wire.FinishRedriveInput) (wire.FinishResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.FinishResult, error) {
		fill := func(ctx context.Context, dir store.Dir, again ledger.Links) ([]string, error) {
			return a.fill(ctx, in.FinishInput, dir, again)
		}
		return redrive.Finish(ctx, a.opts.Access, a.inputs, in, fill, func(ctx context.Context, dir store.Dir, again ledger.Links) error {
			books, err := ledger.CheckBooks(ctx, dir, again, in.Planned)
			if judged, ok := errors.AsType[*ledger.Judged](err); ok && judged.NonRetryable() {
				return nil // an earlier attempt has published, and kept them
			} else if err != nil {
				return err
			}
			_, err = a.keepResults(ctx, in.FinishInput, dir, again, books)
			return err
		})
	})
}
