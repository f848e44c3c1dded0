package inputs

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
)

// skipAccepted loads the ranges that the chain accounts for, joining neighbours, and leaves out
// those before the cursor. It returns what they amount to.
func (p *planner) skipAccepted(ctx context.Context, links []ledger.Link) (job.Totals, error) {
	var totals job.Totals
	if len(links) == 0 {
		return totals, nil
	}
	var merged []protocol.Batch
	err := ledger.Entries(ctx, p.dir, links, func(e ledger.OwnedEntry) error {
		totals.OK += e.OK
		totals.Failed += e.Failed
		totals.Dropped += e.Dropped
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
	for len(merged) > 0 && merged[0].End() <= p.at.Item {
		merged = merged[1:]
	}
	p.skip = merged
	return totals, nil
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

func (p *planner) inconsistent(next protocol.Batch) error {
	url, want, got := p.table.Sources[next.Source].URL, next.Offset, p.at.Offset
	if members, err := p.table.members(&p.table.Sources[next.Source]); err == nil && len(members) > 1 {
		m := &members[min(find(members, next.Offset), len(members)-1)]
		url, want, got = m.URL, want-m.at, got-m.at
	}
	return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
		"input %s is not what it was when the earlier run read it: expected item %d at offset %d, found item %d at offset %d; start anew with --fresh",
		url, next.First, want, p.at.Item, got))
}
