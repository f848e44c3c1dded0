package activities

import (
	"context"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/wire"
)

// Commit writes a manifest. The manifest counts only when its result has been accepted, so a
// repetition leaves at most an object that nothing names.
func (a *Activities) Commit(ctx context.Context, in wire.CommitInput) (wire.CommitResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (wire.CommitResult, error) {
		dir, err := ledger.OpenStore(ctx, in.Ref, a.opts.Access)
		if err != nil {
			return wire.CommitResult{}, err
		}
		key, err := ledger.WriteManifest(ctx, dir, in.Ref, in.Leg, in.Previous, in.Entries, wire.Besides{Between: in.Between})
		return wire.CommitResult{Manifest: key}, err
	})
}
