package activities

import (
	"context"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// planner reads through the inputs of one job and cuts them into batches.
type planner struct {
	acts  *Activities
	dir   store.Dir
	table *Table
	at    Cursor
	ctx   context.Context // of the page in hand

	// skip lists the ranges that earlier runs account for, from the cursor on, in order.
	skip []job.Batch

	// What is open at the cursor; cutter is nil when nothing is.
	reader io.Closer
	cutter *records.Cutter

	// For estimates: what has been planned by this planner.
	items, bytes int64

	spoolers map[int]*spooler // by source

	// dry reads without a store: every input once, from its beginning to its end.
	dry bool
}

func (p *planner) close() {
	p.closeReader()
	for _, s := range p.spoolers {
		s.close()
	}
	p.spoolers = nil
}

func (p *planner) closeReader() {
	if p.reader != nil {
		_ = p.reader.Close() // only read from
	}
	p.reader, p.cutter = nil, nil
}

// next returns the next batch that no earlier run accounts for, or io.EOF.
func (p *planner) next(ctx context.Context, items, bytes int64) (job.Batch, error) {
	for p.at.Source < len(p.table.Sources) {
		source := &p.table.Sources[p.at.Source]
		p.at.Offset = max(p.at.Offset, source.Start)
		if p.atSkipped() {
			if err := p.pass(); err != nil {
				return job.Batch{}, err
			}
			continue
		}
		if p.cutter == nil {
			r := p.open(ctx, p.at.Source, p.at.Offset, p.segment())
			p.reader, p.cutter = r, records.NewCutter(r, source.Shape)
		}
		cut, err := p.cutter.Next(items, bytes)
		if err == io.EOF {
			if err := p.endSegment(ctx); err != nil {
				return job.Batch{}, err
			}
			continue
		}
		if err != nil {
			return job.Batch{}, storeError(job.ErrorInput, fmt.Errorf("reading %s: %w", source.URL, err))
		}
		batch := job.Batch{Source: p.at.Source, Offset: p.at.Offset, Length: cut.Length, First: p.at.Item, Count: cut.Count}
		p.at.Offset += cut.Length
		p.at.Item += cut.Count
		p.items += cut.Count
		p.bytes += cut.Length
		return batch, nil
	}
	return job.Batch{}, io.EOF
}

// open reads a source from offset on, length bytes of it or (-1) to its end.
func (p *planner) open(ctx context.Context, index int, offset, length int64) io.ReadCloser {
	p.ctx = ctx
	ctx = context.WithoutCancel(ctx) // the reader stays open between pages
	source := &p.table.Sources[index]
	if source.Spool == "" {
		return &lazyReader{open: func() (io.ReadCloser, error) {
			return p.acts.opts.Access.OpenInput(ctx, source.URL, offset, length)
		}}
	}
	if p.dry {
		return &lazyReader{open: func() (io.ReadCloser, error) { return p.acts.openFrom(ctx, source, offset) }}
	}
	s := p.spoolers[index]
	if s == nil {
		s = &spooler{dir: p.dir, prefix: source.Spool, open: func() (io.ReadCloser, error) { return p.acts.openWhole(ctx, source) }}
		p.spoolers[index] = s
	}
	return &spoolReader{
		ctx: ctx, dir: p.dir, prefix: source.Spool, offset: offset, left: length,
		need: func(n int64) error { return s.chunk(p.ctx, n) },
	}
}

// lazyReader opens with the first read, so that opening fails where reading does.
type lazyReader struct {
	open func() (io.ReadCloser, error)
	r    io.ReadCloser
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.r == nil {
		r, err := l.open()
		if err != nil {
			return 0, err
		}
		l.r = r
	}
	return l.r.Read(p)
}

func (l *lazyReader) Close() error {
	if l.r == nil {
		return nil
	}
	return l.r.Close()
}

// segment is the number of bytes from the cursor to the next skipped range, or -1: to the end.
func (p *planner) segment() int64 {
	if len(p.skip) > 0 && p.skip[0].Source == p.at.Source {
		return p.skip[0].Offset - p.at.Offset
	}
	return -1
}

// atSkipped reports whether the next skipped range begins at the cursor (or, where the input is
// not what it was, before it).
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

func (p *planner) inconsistent(next job.Batch) error {
	return permanent(job.ErrorChanged, fmt.Errorf(
		"input %s is not what it was when the earlier run read it: expected item %d at offset %d, found item %d at offset %d; start anew with --fresh",
		p.table.Sources[next.Source].URL, next.First, next.Offset, p.at.Item, p.at.Offset))
}

// endSegment moves on from where the open reader has ended: to the next skipped range (over blank
// bytes before it), or to the next source.
func (p *planner) endSegment(ctx context.Context) error {
	limited := p.segment() >= 0
	p.closeReader()
	if limited {
		p.at.Offset = p.skip[0].Offset
		return nil
	}
	source := &p.table.Sources[p.at.Source]
	if source.ETag == "" || source.Spool != "" { // local, or not looked at again by Process
		if err := p.acts.unchanged(ctx, source); err != nil {
			return err
		}
	}
	p.at.Source++
	p.at.Offset = 0
	return nil
}

// left estimates how many items are still to be planned, from the bytes that are left and the
// mean size of an item so far.
func (p *planner) left() int64 {
	const unknownItem = 100 // bytes, before any item has been seen
	mean := int64(unknownItem)
	if p.items > 0 {
		mean = max(1, p.bytes/p.items)
	}
	const expansion = 4 // of compressed text
	var bytes int64
	for i := p.at.Source; i < len(p.table.Sources); i++ {
		s := &p.table.Sources[i]
		size := s.Size
		switch {
		case s.URL == stdinName:
			size = max(2*p.bytes, 64<<10) // as much again as so far
		case s.Spool != "" && !s.redriven():
			size *= expansion
		}
		if i == p.at.Source {
			size -= p.at.Offset
		}
		bytes += max(0, size)
	}
	return bytes / mean
}

// skipAccepted loads the ranges that the chain accounts for, joining neighbours, and leaves out
// those before the cursor. It returns what they amount to.
func (p *planner) skipAccepted(ctx context.Context, links []link) (job.Totals, error) {
	var totals job.Totals
	if len(links) == 0 {
		return totals, nil
	}
	var merged []job.Batch
	err := entries(ctx, p.dir, links, func(e ownedEntry) error {
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
