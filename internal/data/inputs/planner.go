package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/stall"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// planner reads through the inputs of one job and cuts them into batches.
type planner struct {
	inputs *Inputs
	dir    store.Dir
	table  *Table
	// sources is the table's key: the planner serves only pages of the table that was accepted.
	sources string
	listed  string // the same key, until the first page of a table that this planner has made is returned
	at      wire.Cursor
	ctx     context.Context // of the current page
	meter   *stall.Meter    // of the readers that stay open between pages

	// skip lists the ranges that earlier runs account for, from the cursor on, in order, and those with a parcel.
	skip []wire.Batch

	// What is open at the cursor; cutter is nil when nothing is.
	reader io.Closer
	cutter *records.Cutter
	opened position // where the cutter began
	sums   sums     // of the batch

	// Of the bundle at the cursor.
	members   []member
	membersOf int   // the source that they are of, if there are any
	small     small // the one that is open
	end       int64 // where what is open of it ends

	noticed job.Noticed // since the last page

	// For estimates: what has been planned by this planner.
	items, bytes int64
	ahead        []int64 // by source: about how many bytes it and those behind it have
	stdin        int     // the index of the standard input; -1: there is none

	due  time.Time   // when the page should end; zero, without gather: it has no limit
	idle *time.Timer // closes a planner that is kept for too long

	// Of an input that is still being written: how long the page waits for it, and the offset that it has waited for
	// last.
	gather *gathering
	needed int64

	spoolers map[int]chunker // by source

	// dry means to read without a store: every source once, from its beginning to its end.
	dry bool
}

// position is a place in an input.
type position struct {
	url    string
	offset int64
	toEnd  bool // what is open from there on is all of the input's rest
}

// Dry returns a planner that reads every source once, from its beginning to its end, without a store.
func (n *Inputs) Dry(table *Table) *planner {
	p := &planner{inputs: n, table: table, dry: true, meter: stall.NewMeter()}
	p.noteAll(table.notes)
	return p
}

// TakeNoticed returns what was noticed of the inputs since it was last called.
func (p *planner) TakeNoticed() job.Noticed {
	noticed := p.noticed
	p.noticed = job.Noticed{}
	return noticed
}

func (p *planner) Close() {
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

// Next returns the next batch that no earlier run accounts for, or io.EOF; errLater if the input is still being
// written, and no item has come in time. In a bundle it goes on over the ends of inputs; otherwise a batch begins and
// ends in one source.
func (p *planner) Next(ctx context.Context, items, bytes int64) (wire.Batch, error) {
	batch, err := p.cut(ctx, items, bytes)
	if err != nil || batch.From != nil { // one with a parcel is as it was
		return batch, err
	}
	return batch.Sealed(), nil
}

// cut is Next, without the batch's check.
func (p *planner) cut(ctx context.Context, items, bytes int64) (wire.Batch, error) {
	batch := wire.Batch{Source: -1} // not begun
	for p.at.Source < len(p.table.Sources) {
		source := &p.table.Sources[p.at.Source]
		if batch.Count > 0 && (batch.Source != p.at.Source || p.atSkipped() || p.cutter == nil && p.overdue()) {
			return batch, nil
		}
		if batch.Source != p.at.Source {
			p.at.Offset = max(p.at.Offset, source.Start)
			batch = wire.Batch{Source: p.at.Source, Offset: p.at.Offset, First: p.at.Item}
			p.sums.behind = 0
		}
		if p.atSkipped() {
			passed := p.skip[0]
			if err := p.pass(); err != nil {
				return wire.Batch{}, err
			}
			if passed.From != nil {
				return passed, nil // it goes on where it was
			}
			batch.Source = -1
			continue
		}
		if p.cutter == nil {
			if err := p.open(ctx, source); err != nil {
				return wire.Batch{}, err
			}
		}
		cut, err := p.cutter.Next(items-batch.Count, bytes-batch.Length)
		if err == io.EOF {
			if err := p.endSegment(ctx); err != nil {
				return wire.Batch{}, err
			}
			continue
		}
		if errors.Is(err, errLater) {
			p.closeReader() // at half an item: the next page reads it again
			if batch.Count > 0 {
				return batch, nil
			}
			return wire.Batch{}, errLater
		}
		if err != nil {
			return wire.Batch{}, p.opened.judge(err)
		}
		p.at.Offset += cut.Length
		p.at.Item += cut.Count
		p.items += cut.Count
		p.bytes += cut.Length
		p.notice()
		batch.Count += cut.Count
		batch.Length = p.at.Offset - batch.Offset
		batch.Digest = p.digestOf(source, cut)
		if batch.Count >= items || batch.Length >= bytes {
			return batch, nil
		}
	}
	if batch.Count > 0 {
		return batch, nil
	}
	return wire.Batch{}, io.EOF
}

// await waits until more has come of the input at the cursor, which had nothing for errLater.
func (p *planner) await(ctx context.Context) error {
	p.gather.until = time.Time{}
	return IgnoreEOF(p.spoolers[p.at.Source].reach(ctx, p.needed, p.gather))
}

// judge returns what activities return for an error in what was read from there on.
func (a position) judge(err error) error {
	if array, ok := errors.AsType[*records.ArrayError](err); ok {
		return ledger.Permanent(job.ErrorInput, fmt.Errorf(
			"input %s is not one JSON array: at byte %d, %s; correct it, or choose --format jsonl if each line is an item, and start anew with --fresh",
			a.url, a.offset+array.Offset, array.Reason))
	}
	return ledger.StoreError(job.ErrorInput, store.Doing("reading "+a.url, err))
}

// overdue reports whether the page should end. The wait for what is still being written is not its time.
func (p *planner) overdue() bool {
	return !p.due.IsZero() && time.Now().After(p.due.Add(p.gather.waited))
}

// open opens what is at the cursor, up to the next skipped range.
func (p *planner) open(ctx context.Context, source *wire.Source) error {
	if source.Bundle != nil {
		return p.openSmall(ctx, source)
	}
	r := p.Open(ctx, p.at.Source, p.at.Offset, p.segment())
	newCutter := records.NewCutter
	if changeable(source) {
		newCutter = records.NewSummingCutter
	}
	p.reader, p.cutter = r, newCutter(r, source.Shape)
	p.note(source.URL, source.Hint)
	p.opened = position{source.URL, p.at.Offset, p.segment() < 0}
	return nil
}

// openSmall opens the input of a bundle at the cursor, and moves the cursor behind its head.
func (p *planner) openSmall(ctx context.Context, source *wire.Source) error {
	if p.members == nil || p.membersOf != p.at.Source {
		members, err := p.table.members(source)
		if err != nil {
			return err
		}
		p.members, p.membersOf = members, p.at.Source
	}
	i := find(p.members, p.at.Offset)
	if i == len(p.members) { // the cursor is behind the last one
		p.end, p.cutter = p.at.Offset, records.NewBytesCutter(nil, source.Shape)
		p.sums.data = nil
		return nil
	}
	m := &p.members[i]
	if err := p.inputs.load(ctx, m, source.Shape, &p.small); err != nil {
		return err
	}
	if m.ETag == "" { // local, or not looked at again by Process
		if err := p.inputs.unchanged(ctx, m.Input); err != nil {
			return err
		}
	}
	p.end = m.end()
	if left := p.segment(); left >= 0 {
		p.end = min(p.end, p.at.Offset+left)
	}
	data, start := p.small.between(p.at.Offset-m.at, p.end-m.at)
	p.at.Offset = m.at + start
	p.cutter, p.sums.data = records.NewBytesCutter(data, p.small.shape), data
	p.opened = position{m.URL, start, p.end == m.end()}
	p.note(m.URL, p.small.hint)
	return nil
}

// notice takes in what the cutter has seen.
func (p *planner) notice() {
	p.noticed.Blank += p.cutter.TakeBlank()
	if p.cutter.Marked() {
		p.note(p.opened.url, "has a byte order mark within, at the beginning of an item, as where files were joined: remove it, "+
			"for example with sed 's/^\\xEF\\xBB\\xBF//'")
	}
}

// nameOf returns what an input is called in messages.
func nameOf(url string) string {
	if url == stdinName {
		return "the standard input"
	}
	return "input " + url
}

// note adds a note about an input, unless what is empty.
func (p *planner) note(url, what string) {
	if what == "" || len(p.noticed.Notes) >= limits.MaxNotes {
		return
	}
	p.noticed.Note(nameOf(url) + " " + what)
}

// noteAll adds notes.
func (p *planner) noteAll(notes []string) {
	for _, note := range notes {
		p.noticed.Note(note)
	}
}

// Open reads a source from offset on, length bytes of it or (-1) to its end.
func (p *planner) Open(ctx context.Context, index int, offset, length int64) io.ReadCloser {
	p.ctx = ctx
	ctx = stall.With(context.WithoutCancel(ctx), p.meter) // the reader stays open between pages
	source := &p.table.Sources[index]
	if source.Spool == "" {
		return &lazyReader{open: func() (io.ReadCloser, error) {
			return p.inputs.access.OpenInput(ctx, source.URL, offset, length)
		}}
	}
	if p.dry && source.URL == namesURL {
		return p.table.openNames(offset)
	}
	if p.dry {
		return &lazyReader{open: func() (io.ReadCloser, error) { return p.inputs.openFrom(ctx, source, offset) }}
	}
	s := p.spoolers[index]
	if s == nil {
		s = p.inputs.spooler(ctx, p.dir, source)
		p.spoolers[index] = s
	}
	return &spoolReader{
		ctx: ctx, dir: p.dir, prefix: source.Spool, offset: offset, left: length,
		need: func(offset int64) error {
			p.needed = offset
			return s.reach(p.ctx, offset, p.gather)
		},
	}
}

// endSegment moves the cursor on from the end of what is open: to the next skipped range (over blank
// bytes before it), to the next input of a bundle, or to the next source.
func (p *planner) endSegment(ctx context.Context) error {
	source := &p.table.Sources[p.at.Source]
	limited := p.segment() >= 0
	var incomplete error
	if p.opened.toEnd {
		incomplete = p.cutter.Incomplete()
	}
	p.noticed.Blank += p.cutter.TakeBlank()
	p.closeReader()
	p.sums.end()
	switch {
	case source.Bundle != nil && incomplete != nil:
	case source.Bundle != nil && p.end < source.Size:
		p.at.Offset = p.end
		return nil
	case source.Bundle != nil:
	case limited:
		p.at.Offset = p.skip[0].Offset
		return nil
	case !fixed(source) && (source.ETag == "" || source.Spool != ""): // local, or not looked at again by Process
		if err := p.inputs.unchanged(ctx, inputOf(source)); err != nil {
			return err
		}
	}
	if incomplete != nil {
		return p.opened.judge(incomplete)
	}
	p.at.Source++
	p.at.Offset = 0
	return nil
}

// Left estimates how many items are still to be planned, from the bytes that are left and the
// mean size of an item so far.
func (p *planner) Left() int64 {
	const unknownItem = 100 // bytes, before any item has been seen
	if p.ahead == nil {
		p.estimate()
	}
	if p.at.Source >= len(p.table.Sources) {
		return 0
	}
	mean := int64(unknownItem)
	if p.items > 0 {
		mean = max(1, p.bytes/p.items)
	}
	here := p.ahead[p.at.Source] - p.ahead[p.at.Source+1]
	stdin := int64(0)
	if p.at.Source <= p.stdin {
		stdin = max(2*p.bytes, 64<<10) // as much again as so far
	}
	if p.at.Source == p.stdin {
		here, stdin = stdin, 0
	}
	return (max(0, here-p.at.Offset) + p.ahead[p.at.Source+1] + stdin) / mean
}

// estimate sums up the sizes of the sources.
func (p *planner) estimate() {
	const expansion = 4 // of compressed text
	p.stdin = -1
	p.ahead = make([]int64, len(p.table.Sources)+1)
	for i := len(p.table.Sources) - 1; i >= 0; i-- {
		s := &p.table.Sources[i]
		size := s.Size
		switch {
		case s.URL == stdinName:
			p.stdin = i
			size = 0
		case !sized(s):
			size *= expansion
		}
		p.ahead[i] = p.ahead[i+1] + size
	}
}
