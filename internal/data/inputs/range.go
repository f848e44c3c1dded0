package inputs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Range reads the items of one batch of a job's inputs: a range of bytes of one source, or of its
// spool. One goroutine may use it; items may be read before those that were read earlier are done.
type Range struct {
	ctx    context.Context
	source *wire.Source
	batch  wire.Batch
	from   sections

	open  *section    // what is read; nil: the next one is to be opened
	shape *wire.Shape // of the items of the last chunk

	read   int64 // items
	readTo int64 // bytes that they take
	count  int64 // items that are done
	length int64 // bytes that they take

	rest uint32 // the digest of the items that are not done; 0: not known
	all  bool   // the items are those that there are, however many
}

// sections are the pieces that the bytes of a batch come in: one, or in a bundle one for each input.
type sections interface {
	// next opens the next one, or returns io.EOF.
	next() (*section, error)
	// at returns the input with the byte at an offset in the source, the byte's offset there, and the offset in the
	// source at which the input ends.
	at(offset int64) (url string, in, end int64)
	// unchanged returns a permanent error if what was read is not what was planned.
	unchanged(ctx context.Context) error
	// digest returns the digest of all that was read, and whether that is the whole batch.
	digest() (sum uint32, whole bool)
	// reread returns the digest of a batch of the same source, which it reads.
	reread(batch wire.Batch) (uint32, error)
	close()
}

// section is a range of bytes of one input.
type section struct {
	reader *records.Reader
	shape  *wire.Shape
	offset int64 // in the source, of the first byte
}

// OpenRange opens a batch, of which dir is the job's store and table the source table. The caller must
// close the Range.
func (n *Inputs) OpenRange(ctx context.Context, dir store.Dir, table *Table, batch wire.Batch) (*Range, error) {
	source := &table.Sources[batch.Source]
	ctx = context.WithoutCancel(ctx) // a stop lets the items in hand be read
	if source.Bundle != nil {
		return n.bundleRange(ctx, table, batch)
	}
	var body io.ReadCloser
	if source.Spool != "" {
		body = &spoolReader{ctx: ctx, dir: dir, prefix: source.Spool, offset: batch.Offset, left: batch.Length}
	} else {
		if err := n.unchanged(ctx, inputOf(source)); err != nil {
			return nil, err
		}
		var err error
		if body, err = n.access.OpenInput(ctx, source.URL, batch.Offset, batch.Length); err != nil {
			return nil, ledger.StoreError(job.ErrorInput, err)
		}
	}
	return n.plainRange(ctx, source, batch, body), nil
}

// plainRange returns a batch of a source that is one input.
func (n *Inputs) plainRange(ctx context.Context, source *wire.Source, batch wire.Batch, body io.ReadCloser) *Range {
	from := &wholeSection{ctx: ctx, inputs: n, source: source, batch: batch, body: body, in: body}
	if batch.Digest != 0 {
		from.read = &wire.SideFile{}
		from.in = io.TeeReader(body, from.read)
	}
	return &Range{ctx: ctx, source: source, batch: batch, from: from, shape: &source.Shape}
}

// bundleRange returns a batch of a bundle.
func (n *Inputs) bundleRange(ctx context.Context, table *Table, batch wire.Batch) (*Range, error) {
	source := &table.Sources[batch.Source]
	members, err := n.membersOf(table, source)
	if err != nil {
		return nil, err
	}
	from := n.bundleSections(ctx, source, members, batch)
	return &Range{ctx: ctx, source: source, batch: batch, from: from, shape: &source.Shape}, nil
}

func (n *Inputs) bundleSections(
	ctx context.Context, source *wire.Source, members []member, batch wire.Batch,
) *bundleSections {
	return &bundleSections{
		ctx: ctx, inputs: n, source: source, members: members,
		index: find(members, batch.Offset), offset: batch.Offset, end: batch.Offset + batch.Length,
	}
}

// DryAll is DryRange if it is not known how many items there are.
func (n *Inputs) DryAll(ctx context.Context, table *Table, index int) (*Range, error) {
	r, err := n.DryRange(ctx, table, index, math.MaxInt64)
	if err == nil {
		r.all = true
	}
	return r, err
}

// DryRange opens all items of a source, of which there are so many, as [Inputs.Dry] reads it. The caller must close it.
func (n *Inputs) DryRange(ctx context.Context, table *Table, index int, items int64) (*Range, error) {
	return n.Dry(table).whole(ctx, index, items)
}

// whole opens all items of a source, of which there are so many.
func (p *planner) whole(ctx context.Context, index int, items int64) (*Range, error) {
	source := &p.table.Sources[index]
	batch := wire.Batch{Source: index, Offset: source.Start, Length: math.MaxInt64 / 2, Count: items}
	if source.Bundle != nil {
		return p.inputs.bundleRange(ctx, p.table, batch)
	}
	return p.inputs.plainRange(ctx, source, batch, p.Open(ctx, index, source.Start, -1)), nil
}

// Of what each reads at once.
const (
	eachItems = 4096
	eachBytes = 256 << 10
)

// each is an [EachItem]. An input that should be a JSON array and is none ends where that shows; the plan of the input reports it.
func (p *planner) each(ctx context.Context, fn func(*wire.Shape, *records.Item) error) error {
	var chunk records.Chunk
	for index := range p.table.Sources {
		err := p.eachOf(ctx, index, &chunk, fn)
		if errors.As(err, new(*records.ArrayError)) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) eachOf(ctx context.Context, index int, chunk *records.Chunk, fn func(*wire.Shape, *records.Item) error) error {
	from, err := p.whole(ctx, index, math.MaxInt64)
	if err != nil {
		return err
	}
	from.all = true
	defer from.Close()
	return from.Each(ctx, chunk, fn)
}

// Each calls fn with all items that are left, which it reads into chunk, until fn returns an error.
func (r *Range) Each(ctx context.Context, chunk *records.Chunk, fn func(*wire.Shape, *records.Item) error) error {
	for {
		if err := r.Next(chunk, eachItems, eachBytes); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for i := range chunk.Items {
			if err := fn(r.Shape(), &chunk.Items[i]); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Shape returns the form of the items of the last chunk. It stays lines, or something else.
func (r *Range) Shape() *wire.Shape { return r.shape }

// Next reads the next items into chunk: at most items of them, and as many as fit into bytes, but at
// least one. All have one shape. After the last one it returns io.EOF, or an error if the range does not hold
// what was planned.
func (r *Range) Next(chunk *records.Chunk, items, bytes int) error {
	left := int(min(int64(items), r.batch.Count-r.read))
	chunk.Reset()
	chunk.Reserve(left, int(min(int64(bytes), r.batch.Length-r.readTo))+1)
	defer func() {
		if n := len(chunk.Items); n > 0 {
			r.read += int64(n)
			r.readTo = min(chunk.Items[n-1].Offset+chunk.Items[n-1].Size, r.batch.Length)
		}
	}()
	for {
		if r.open == nil {
			var err error
			if r.open, err = r.from.next(); err == io.EOF {
				return r.end(chunk)
			} else if err != nil {
				return err
			}
		}
		if len(chunk.Items) == 0 {
			r.shape = r.open.shape
		} else if r.shape.Format != r.open.shape.Format || !slices.Equal(r.shape.Columns, r.open.shape.Columns) {
			return nil // a chunk has one shape
		}
		had := len(chunk.Items)
		err := r.open.reader.Append(chunk, items, bytes)
		for i := had; i < len(chunk.Items); i++ {
			chunk.Items[i].Offset += r.open.offset - r.batch.Offset
		}
		if err != nil && err != io.EOF {
			chunk.Reset()
			return ledger.StoreError(job.ErrorInput, store.Doing("reading "+r.source.URL, err))
		}
		if err == io.EOF {
			r.open = nil
		}
		if n := len(chunk.Items); n > had {
			bytes -= int(chunk.Items[n-1].Offset + chunk.Items[n-1].Size - chunk.Items[had].Offset)
		}
		if n := len(chunk.Items); n > 0 && (n >= items || bytes <= 0) {
			return nil
		}
	}
}

// end returns what Next returns after the last section.
func (r *Range) end(chunk *records.Chunk) error {
	switch {
	case len(chunk.Items) > 0:
		return nil
	case r.read == r.batch.Count || r.all:
		return io.EOF
	}
	if err := r.Unchanged(r.ctx); err != nil { // says what has changed
		return err
	}
	url, offset, _ := r.from.at(r.batch.Offset)
	return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
		"input %s changed while the job ran: %d bytes from offset %d held %d items when they were planned, and now hold %d; start anew with --fresh",
		url, r.batch.Length, offset, r.batch.Count, r.read))
}

// Done counts the next items as done, in the order in which they were read.
func (r *Range) Done(items []records.Item) {
	if len(items) == 0 {
		return
	}
	last := &items[len(items)-1]
	_, _, end := r.from.at(r.batch.Offset + last.Offset)
	r.length = min(last.Behind(), r.batch.Length, end-r.batch.Offset) // the line's end may be missing
	r.count += int64(len(items))
}

// Split returns the part of the batch that is done, and the rest of it: nil if all is done. The rest has a digest if
// Unchanged was called.
func (r *Range) Split() (done wire.Batch, rest *wire.Batch) {
	switch r.count {
	case 0:
		return r.batch.Upto(0, 0), &r.batch
	case r.batch.Count:
		return r.batch, nil // blank lines at the end included
	}
	after := r.batch.After(r.count, r.length).WithDigest(r.rest)
	return r.batch.Upto(r.count, r.length), &after
}

// Bytes returns how many the items that are done take, with line ends.
func (r *Range) Bytes() int64 {
	done, _ := r.Split()
	return done.Length
}

// Origin returns the item, and where it comes from: its input, and its offset there.
func (r *Range) Origin(_ context.Context, _ int64, shape *wire.Shape, item *records.Item) (records.Origin, error) {
	url, offset, _ := r.from.at(r.batch.Offset + item.Offset)
	return records.Origin{Source: url, Offset: offset, Shape: shape, Item: item}, nil
}

// Original returns the given ordinal: the job is the first to number its items.
func (r *Range) Original(_ context.Context, ordinal int64) (int64, error) { return ordinal, nil }

// NotesDrops returns false.
func (r *Range) NotesDrops() bool { return false }

// Unchanged returns a permanent error if the source has changed since it was planned. A spool cannot
// change.
func (r *Range) Unchanged(ctx context.Context) error {
	if err := r.from.unchanged(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return r.sameBytes()
}

// Close frees what was opened to read.
func (r *Range) Close() { r.from.close() }

// wholeSection is that of a source which is one input.
type wholeSection struct {
	ctx    context.Context
	inputs *Inputs
	source *wire.Source
	batch  wire.Batch
	body   io.Closer
	in     io.Reader      // what the body has
	read   *wire.SideFile // counts and sums up what is read; nil: the batch has no digest
	opened bool
}

func (w *wholeSection) next() (*section, error) {
	if w.opened {
		return nil, io.EOF
	}
	w.opened = true
	return &section{records.NewReader(w.in, w.source.Shape), &w.source.Shape, w.batch.Offset}, nil
}

func (w *wholeSection) at(offset int64) (url string, in, end int64) {
	return w.source.URL, offset, math.MaxInt64
}

func (w *wholeSection) unchanged(ctx context.Context) error {
	if w.source.Spool != "" || fixed(w.source) {
		return nil
	}
	return w.inputs.unchanged(ctx, inputOf(w.source))
}

func (w *wholeSection) close() { _ = w.body.Close() } // only read from

// bundleSections are those of a bundle's inputs.
type bundleSections struct {
	ctx     context.Context
	inputs  *Inputs
	source  *wire.Source
	members []member
	small   small

	index       int   // of the next input
	offset, end int64 // in the source, of what is left to read
	sum         uint32
}

func (b *bundleSections) next() (*section, error) {
	for b.index < len(b.members) && b.offset < b.end {
		m := &b.members[b.index]
		b.index++
		if m.Size == 0 {
			continue
		}
		if err := b.inputs.load(b.ctx, m, b.source.Shape, &b.small); err != nil {
			return nil, err
		}
		// It is in memory: if it has not changed by now, what was read is what was planned.
		if err := b.inputs.unchanged(b.ctx, m.Input); err != nil {
			return nil, err
		}
		data, start := b.small.between(b.offset-m.at, b.end-m.at)
		b.offset, b.sum = m.end(), crc32.Update(b.sum, castagnoli, data)
		shape := b.small.shape
		return &section{records.NewBytesReader(data, shape), &shape, m.at + start}, nil
	}
	return nil, io.EOF
}

func (b *bundleSections) at(offset int64) (url string, in, end int64) {
	m := &b.members[min(find(b.members, offset), len(b.members)-1)]
	return m.URL, offset - m.at, m.end()
}

func (b *bundleSections) unchanged(context.Context) error { return nil } // found by next

func (b *bundleSections) close() {}
