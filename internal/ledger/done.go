package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// ReadDone returns what a run has published; nil if it has not published yet.
func ReadDone(ctx context.Context, dir store.Dir, run string) (*wire.Done, error) {
	key := wire.Ref{Run: run}.DoneKey()
	data, err := dir.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, StoreError(job.ErrorOutput, err)
	}
	var d wire.Done
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, Permanent(job.ErrorCorrupt, fmt.Errorf("reading %s: %w", key, err))
	}
	return &d, nil
}

// Write records in the store what the run has published.
func WriteDone(ctx context.Context, d *wire.Done, dir store.Dir, ref wire.Ref) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing DONE: %w", err)
	}
	return StoreError(job.ErrorOutput, dir.Put(ctx, ref.DoneKey(), data))
}
