package redrive

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/inputs"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// ordinalSize is the bytes of an ordinal in the list of those that a redrive's items have in the
// completed job: the most significant comes first.
const ordinalSize = 8

// Range reads the items of one batch of a redrive. It names them by their ordinals in the completed
// job.
type Range struct {
	*inputs.Range
	dir  store.Dir
	list string // key prefix of the ordinals
}

// NewRange returns a range whose items have the ordinals of the list in another job.
func NewRange(r *inputs.Range, dir store.Dir, list string) *Range {
	return &Range{r, dir, list}
}

// NotesDrops returns true: Finish merges the results, and inserts them where they belong.
func (r *Range) NotesDrops() bool { return true }

// Original returns an item's ordinal in the completed job.
func (r *Range) Original(ctx context.Context, ordinal int64) (int64, error) {
	at := ordinal * ordinalSize
	body, err := r.dir.Open(context.WithoutCancel(ctx), inputs.SpoolKey(r.list, at/inputs.SpoolChunk), at%inputs.SpoolChunk, ordinalSize)
	if err != nil {
		return 0, ledger.StoreError(job.ErrorInput, err)
	}
	defer body.Close()
	var original [ordinalSize]byte
	if _, err := io.ReadFull(body, original[:]); err != nil {
		return 0, fmt.Errorf("reading which item failed: %w", err)
	}
	return int64(binary.BigEndian.Uint64(original[:])), nil
}
