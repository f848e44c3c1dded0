package inputs

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// skipAccepted loads the ranges that the chain accounts for, joining neighbours, and leaves out
// those before the cursor. Batches that it has left between two of the stages are among them: see withBetween. It returns what the
// others amount to.
func (p *planner) skipAccepted(ctx context.Context, links ledger.List, steps int) (job.Totals, error) {
	var totals job.Totals
	if len(links) == 0 {
		return totals, nil
	}
	var merged []wire.Batch
	err := ledger.Entries(ctx, p.dir, links, func(e ledger.OwnedEntry) error {
		totals.OK += e.OK
		totals.Failed += e.Failed
		totals.Dropped += e.Dropped
		totals.Lines += e.Lines
		totals.InputBytes += e.Length
		if n := len(merged); n > 0 && merged[n-1].Source == e.Source &&
			merged[n-1].Offset+merged[n-1].Length == e.Offset && merged[n-1].End() == e.First {
			merged[n-1].Length += e.Length
			merged[n-1].Count += e.Count
			return nil
		}
		merged = append(merged, e.Batch)
		return nil
	})
	if err != nil {
		return totals, err
	}
	p.skip = withBetween(merged, links, steps)
	for len(p.skip) > 0 && p.skip[0].End() <= p.at.Item {
		p.skip = p.skip[1:]
	}
	return totals, nil
}

// withBetween adds to the ranges that are accounted for, which are in order, the batches that earlier runs have left between two
// of so many steps: the last parcel of each item, unless the item is accounted for.
func withBetween(done []wire.Batch, links ledger.List, steps int) []wire.Batch {
	var left []wire.Batch
	for _, l := range links {
		for _, b := range l.Between {
			if b.From != nil && b.From.Step < steps && b.Verify() == nil {
				left = append(left, b)
			}
		}
	}
	if len(left) == 0 {
		return done
	}
	slices.SortStableFunc(left, func(a, b wire.Batch) int { return cmp.Compare(b.From.Step, a.From.Step) })
	all := slices.Clone(done)
	for _, b := range left {
		// A batch that only partly overlaps what has become of it has no known place in the input: its rest begins anew.
		i, found := slices.BinarySearchFunc(all, b.First, func(o wire.Batch, first int64) int { return cmp.Compare(o.First, first) })
		if found || i > 0 && all[i-1].End() > b.First || i < len(all) && all[i].First < b.End() {
			continue
		}
		all = slices.Insert(all, i, b)
	}
	return all
}

// segment is the number of bytes from the cursor to the next skipped range, or -1: to the end.
func (p *planner) segment() int64 {
	if len(p.skip) > 0 && p.skip[0].Source == p.at.Source {
		return p.skip[0].Offset - p.at.Offset
	}
	return -1
}

// atSkipped reports whether the next skipped range begins at the cursor, or before it if the input has
// changed.
func (p *planner) atSkipped() bool {
	return len(p.skip) > 0 && p.skip[0].Source == p.at.Source && p.at.Offset >= p.skip[0].Offset
}

// pass moves the cursor over the next skipped range.
func (p *planner) pass() error {
	next := p.skip[0]
	if next.Offset != p.at.Offset || next.First != p.at.Item {
		return p.inconsistent(next)
	}
	p.closeReader()
	p.at.Offset += next.Length
	p.at.Item += next.Count
	p.skip = p.skip[1:]
	return nil
}

func (p *planner) inconsistent(next wire.Batch) error {
	url, want, got := p.table.Sources[next.Source].URL, next.Offset, p.at.Offset
	if members, err := p.table.members(&p.table.Sources[next.Source]); err == nil && len(members) > 1 {
		m := &members[min(find(members, next.Offset), len(members)-1)]
		url, want, got = m.URL, want-m.at, got-m.at
	}
	return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
		"input %s is not what it was when the earlier run read it: expected item %d at offset %d, found item %d at offset %d; start anew with --fresh",
		url, next.First, want, p.at.Item, got))
}
