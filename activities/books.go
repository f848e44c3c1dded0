package activities

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/job"
)

// Books are a job's counts as its manifests add up to.
type Books struct {
	Items   int64 `json:"items"`
	OK      int64 `json:"ok"` // dropped ones included
	Failed  int64 `json:"failed"`
	Dropped int64 `json:"dropped"`
	Parts   int64 `json:"parts"`
	Bytes   int64 `json:"bytes"` // of all results
	// ErrBytes are those of all error records, as they lie in the parts.
	ErrBytes int64 `json:"err_bytes,omitempty"`
}

// checkBooks fails unless the accepted ranges tile the planned items: each begins at the ordinal at
// which the one before it ends, and accounts for as many outcomes as it has items.
func (f *finish) checkBooks(ctx context.Context) (Books, error) {
	var b Books
	var before job.Batch
	err := entries(ctx, f.dir, f.links, func(e ownedEntry) error {
		switch {
		case e.First > b.Items:
			return unbalanced("items %d to %d are in no accepted part", b.Items, e.First-1)
		case e.First < b.Items:
			return unbalanced("items %d to %d are in two accepted parts", e.First, min(e.End(), b.Items)-1)
		case e.Source < before.Source || e.Source == before.Source && e.Offset < before.Offset+before.Length:
			return unbalanced("the part with items %d to %d lies before the part with the items before it", e.First, e.End()-1)
		case e.Source == before.Source && e.Offset > before.Offset+before.Length && b.Items > 0:
			return unbalanced("bytes %d to %d of input %d are in no accepted part", before.Offset+before.Length, e.Offset, e.Source)
		case e.OK+e.Failed != e.Count:
			return unbalanced("the part with items %d to %d has %d outcomes", e.First, e.End()-1, e.OK+e.Failed)
		}
		before = e.Batch
		b.Items = e.End()
		b.OK += e.OK
		b.Failed += e.Failed
		b.Dropped += e.Dropped
		b.Parts++
		b.Bytes += e.Bytes
		b.ErrBytes += e.ErrBytes
		return nil
	})
	if err != nil {
		return b, err
	}
	if b.Items != f.in.Planned {
		return b, unbalanced("%d items were planned, and %d are in accepted parts", f.in.Planned, b.Items)
	}
	return b, nil
}

func unbalanced(format string, args ...any) error {
	return permanent(job.ErrorBooks, fmt.Errorf("the books do not balance: "+format, args...))
}
