package outputs

import (
	"context"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// PublishReport puts the report of a run in its place, unless a newer run has claimed the store. A run that could not
// use its store has a report as well.
func PublishReport(ctx context.Context, access ledger.Access, ref wire.Ref, location string, data []byte) error {
	to, name, err := OpenTarget(ctx, access, location, ref.Perm)
	if err != nil {
		return err
	}
	w, err := store.CreateUnchanged(ctx, to, name) // before the look at the store
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	defer w.Abort() // does nothing after a commit
	if _, err := w.Write(data); err != nil {
		return ledger.StoreError(job.ErrorOutput, err)
	}
	commit := func(context.Context) error { return w.Commit() }
	if ref.Store == "" {
		return ledger.StoreError(job.ErrorOutput, commit(ctx))
	}
	dir, err := ledger.OpenStore(ctx, ref, access)
	if err != nil {
		return ledger.StoreError(job.ErrorOutput, commit(ctx))
	}
	return ledger.UnlessOvertaken(ctx, ref, dir, commit)
}
