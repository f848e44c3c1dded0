package activities

import (
	"context"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
)

// Plan reads on through the input, from where the last page ended, and returns the batches that it
// finds. The first page also checks that the output can be written, claims the store for this run
// and writes the source table. A worker keeps its place open between pages; another worker takes
// over by opening the input at the cursor.
func (a *Activities) Plan(ctx context.Context, in wire.PlanInput) (wire.PlanResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.PlanResult, error) {
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.PlanResult{}, err
		}
		if in.Ref.Sources == "" && len(in.Resume) == 0 {
			if err := outputs.CheckKept(ctx, a.opts.Access, in.Spec); err != nil {
				return wire.PlanResult{}, err
			}
		}
		result, err := a.plan(ctx, dir, in, a.lister(in.Spec, a.inputs, a.beginReuse))
		twins := false
		if err == nil {
			twins, err = a.hasTwins(ctx, dir, in.Spec, result.Sources)
		}
		if err == nil && !result.Done && in.Ref.Sources == "" && len(in.Resume) == 0 && !twins {
			in.Ref.Perm = result.Perm
			a.opts.Joiner.Begin(in.Ref, in.Spec)
		}
		return result, err
	})
}

// plan plans a page of what from lists.
func (a *Activities) plan(ctx context.Context, dir store.Dir, in wire.PlanInput, from inputs.Lister) (wire.PlanResult, error) {
	if err := a.claim(ctx, dir, in.Ref, in.Spec); err != nil {
		return wire.PlanResult{}, err
	}
	in.Sizing = inputs.Including(in.Sizing, a.opts.Capacity())
	result, err := a.inputs.Plan(ctx, dir, in, from)
	if in.Ref.Sources == "" {
		result.Worker, result.Capacity, result.Version = a.opts.Worker, a.opts.Capacity(), a.opts.Version
	}
	return result, err
}

// claim makes the store this run's, before its first plan. It returns an error if what the job writes could not be
// written, and warns if nothing keeps a run that was frozen from replacing the output of a newer one.
func (a *Activities) claim(ctx context.Context, dir store.Dir, ref wire.Ref, spec job.Spec) error {
	if ref.Sources != "" {
		return nil
	}
	unfenced, err := outputs.Check(ctx, a.opts.Access, spec)
	if err != nil {
		return err
	}
	if unfenced != "" {
		activity.GetLogger(ctx).Warn("the service behind this bucket has no conditional writes: a run of the job that was frozen while it published, "+
			"and that has been replaced since, could still put its output over that of the newer run", "location", unfenced)
	}
	return ledger.Claim(ctx, ref, dir)
}
