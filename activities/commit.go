package activities

import (
	"context"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/wire"
)

// CommitInput names the executions that count.
type CommitInput struct {
	Ref      ledger.Ref     `json:"ref"`
	Leg      int            `json:"leg"`
	Previous []string       `json:"previous,omitempty"`
	Entries  []ledger.Entry `json:"entries"`
	// Between are the batches that a stop has left between two stages of a pipeline.
	Between []wire.Batch `json:"between,omitempty"`
}

// CommitResult names the manifest that has been written.
type CommitResult struct {
	Manifest string `json:"manifest"`
}

// Commit writes a manifest. The manifest counts only when its result has been accepted, so a
// repetition leaves at most an object that nothing names.
func (a *Activities) Commit(ctx context.Context, in CommitInput) (CommitResult, error) {
	return carryOut(ctx, a.opts.Patience, func(ctx context.Context) (CommitResult, error) {
		dir, err := in.Ref.Open(ctx, a.opts.Access)
		if err != nil {
			return CommitResult{}, err
		}
		key, err := ledger.WriteManifest(ctx, dir, in.Ref, in.Leg, in.Previous, in.Entries, ledger.Besides{Between: in.Between})
		return CommitResult{Manifest: key}, err
	})
}
