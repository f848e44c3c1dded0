package ledger

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// CheckBooks adds up the entries. It returns an error unless they tile the planned items: each begins
// at the ordinal at which the previous one ends, and has as many outcomes as items. If their source
// has bytes, the ranges of bytes must tile, too; entries of other sources have neither offset nor
// length.
func CheckBooks(ctx context.Context, dir store.Dir, links Links, planned int64) (wire.Books, error) {
	var b wire.Books
	var before wire.Batch
	err := Entries(ctx, dir, links, func(e OwnedEntry) error {
		switch {
		case e.First > b.Items:
			return Unbalanced("items %d to %d are in no accepted part", b.Items, e.First-1)
		case e.First < b.Items:
			return Unbalanced("items %d to %d are in two accepted parts", e.First, min(e.End(), b.Items)-1)
		case e.Source < before.Source || adjoining(before, e.Batch) && e.Offset < before.Offset+before.Length:
			return Unbalanced("the part with items %d to %d lies before the part with the items before it", e.First, e.End()-1)
		case adjoining(before, e.Batch) && e.Offset > before.Offset+before.Length && b.Items > 0:
			return Unbalanced("bytes %d to %d of input %d are in no accepted part", before.Offset+before.Length, e.Offset, e.Source)
		case e.OK+e.Failed+e.Discarded != e.Count:
			return Unbalanced("the part with items %d to %d has %d outcomes", e.First, e.End()-1, e.OK+e.Failed+e.Discarded)
		case e.Waiting > e.Dropped:
			return Unbalanced("the part with items %d to %d has %d items without a result, and %d that wait for one", e.First, e.End()-1, e.Dropped, e.Waiting)
		case e.Reused > e.OK:
			return Unbalanced("the part with items %d to %d has %d results, and %d of an earlier run", e.First, e.End()-1, e.OK, e.Reused)
		}
		before = e.Batch
		b.Items = e.End()
		b.OK += e.OK
		b.Failed += e.Failed
		b.Dropped += e.Dropped
		b.Reused += e.Reused
		b.Changed += e.Changed
		b.Again += e.Again
		b.Equal += e.Equal
		b.Waiting += e.Waiting
		b.Lines += e.Lines
		b.Discarded += e.Discarded
		if e.Part != "" {
			b.Parts++
		}
		b.Bytes += e.Bytes
		b.ErrBytes += e.ErrBytes
		return nil
	})
	if err != nil {
		return b, err
	}
	if b.Items != planned {
		return b, Unbalanced("%d items were planned, and %d are in accepted parts", planned, b.Items)
	}
	return b, nil
}

// adjoining reports whether the bytes of two batches, one after the other, must adjoin.
func adjoining(a, b wire.Batch) bool { return a.Source == b.Source && (hasBytes(a) || hasBytes(b)) }

// hasBytes reports whether a batch is a range of bytes: an item takes at least one.
func hasBytes(b wire.Batch) bool { return b.Offset > 0 || b.Length > 0 }

// Unbalanced returns the permanent error of books that do not balance.
func Unbalanced(format string, args ...any) error {
	return Permanent(job.ErrorBooks, fmt.Errorf("the books do not balance: "+format, args...))
}
