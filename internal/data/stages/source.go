package stages

import (
	"context"
	"io"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
)

// Origin is the source of a batch's items as the job got them: see the interface source in package activities.
type Origin interface {
	Shape() *wire.Shape
	Next(chunk *records.Chunk, items, bytes int) error
	Done(items []records.Item)
	Split() (done wire.Batch, rest *wire.Batch)
	Origin(ctx context.Context, ordinal int64, shape *wire.Shape, item *records.Item) (records.Origin, error)
	Original(ctx context.Context, ordinal int64) (int64, error)
	Unchanged(ctx context.Context) error
	Close()
}

// Source reads the items of one batch from what earlier steps have made of it. Items that have no result there are read
// as well: what has become of them is known ([records.Outcome]). One goroutine may use it.
type Source struct {
	ctx   context.Context
	batch wire.Batch
	shape wire.Shape
	notes bool
	feed  bool
	last  bool
	lines *viewReader

	open   func() (Origin, error)
	origin *rereader // nil: it was not needed yet

	read  int64 // items
	count int64 // items that are done

	dropped *records.Outcome // that of the last item that was dropped
}

// Options are what a Source needs beside its batch.
type Options struct {
	Store   func() (store.Dir, error) // opens the job's store
	View    wire.View
	MaxItem int // see [records.Shape]
	// NotesDrops is that of the source of the items as the job got them.
	NotesDrops bool
	// Feed: the items are a feed's. They lie in no input, so what is done has no bytes.
	Feed bool
	// Last: the step is the last one of its pipeline, whose results are the job's.
	Last bool
	// Origin opens that source, with the same batch. It is called if an item has failed, or if not all are done:
	// usually never.
	Origin func() (Origin, error)
}

// Open opens a batch that has a parcel. The caller must close the Source.
func Open(ctx context.Context, batch wire.Batch, o Options) (*Source, error) {
	ctx = context.WithoutCancel(ctx) // a stop lets the items in hand be read
	lines, err := openView(ctx, o.Store, batch, o.View)
	if err != nil {
		return nil, err
	}
	return &Source{
		ctx: ctx, batch: batch, lines: lines, notes: o.NotesDrops, feed: o.Feed, last: o.Last, open: o.Origin,
		shape: wire.Shape{Format: lines.format(), MaxItem: o.MaxItem},
	}, nil
}

// Shape returns the form of the items' lines.
func (s *Source) Shape() *wire.Shape { return &s.shape }

// Next reads the next items into chunk: at most items of them, and as many as fit into bytes, but at least one. After
// the last one it returns io.EOF.
func (s *Source) Next(chunk *records.Chunk, items, bytes int) error {
	chunk.Reset()
	left := int(min(int64(items), s.batch.Count-s.read))
	for ; left > 0 && (bytes > 0 || len(chunk.Items) == 0); left-- {
		o, err := s.lines.next()
		if err != nil {
			return err
		}
		switch {
		case o.Value != nil:
			chunk.Add(o.Value, &s.shape, nil)
		case o.Reused && s.last:
			chunk.AddKnown(&records.Outcome{Value: o.Line.Bytes, Reused: true, Carried: true})
		default:
			chunk.AddKnown(s.shared(&o))
		}
		s.read++
		bytes -= len(o.Value) + 1
	}
	if len(chunk.Items) == 0 {
		return io.EOF
	}
	return nil
}

// shared keeps an outcome without a value. Items that were dropped share theirs: there may be many.
func (s *Source) shared(o *records.Outcome) *records.Outcome {
	drop := o.Failure == nil && o.Line == nil
	if d := s.dropped; drop && d != nil && d.Carried == o.Carried && d.Counted == o.Counted {
		return d
	}
	kept := *o
	if drop {
		s.dropped = &kept
	}
	return &kept
}

// Routed returns the cases of a switch that the items so far belong to, a bit for each, if the view is one of its
// cases.
func (s *Source) Routed() uint32 { return s.lines.routed }

// Done counts the next items as done, in the order in which they were read.
func (s *Source) Done(items []records.Item) { s.count += int64(len(items)) }

// Split returns the part of the batch that is done, and the rest of it: nil if all is done. Unchanged must have been
// called.
func (s *Source) Split() (done wire.Batch, rest *wire.Batch) {
	switch s.count {
	case 0:
		done, rest = s.batch.Upto(0, 0), &s.batch
	case s.batch.Count:
		done = s.batch
	default:
		done, rest = s.origin.from.Split()
		after := rest.With(s.batch.From)
		rest = &after
	}
	done = done.With(nil)
	if s.feed {
		done = wire.Batch{First: done.First, Count: done.Count}.Sealed()
	}
	return done, rest
}

// Bytes returns how many the items that are done take in the input.
func (s *Source) Bytes() int64 {
	_, rest := s.Split()
	if rest != nil {
		return rest.Offset - s.batch.Offset
	}
	return s.batch.Length
}

// Origin returns an item as the job got it.
func (s *Source) Origin(ctx context.Context, ordinal int64, _ *wire.Shape, _ *records.Item) (records.Origin, error) {
	origin, err := s.reread()
	if err != nil {
		return records.Origin{}, err
	}
	return origin.item(ctx, ordinal)
}

// Original returns the ordinal by which people know an item.
func (s *Source) Original(ctx context.Context, ordinal int64) (int64, error) {
	origin, err := s.reread()
	if err != nil {
		return 0, err
	}
	return origin.from.Original(ctx, ordinal)
}

// NotesDrops reports whether the job's own part must note items without a result.
func (s *Source) NotesDrops() bool { return s.notes }

// Unchanged returns a permanent error if the parts are not what was accepted, or what was read of the input not what
// was planned. If only some of the items are done it reads the input again, because where in it they end shows in no
// other way.
func (s *Source) Unchanged(ctx context.Context) error {
	if err := s.lines.verify(); err != nil {
		return err
	}
	if s.count > 0 && s.count < s.batch.Count {
		origin, err := s.reread()
		if err != nil {
			return err
		}
		if err := origin.done(s.batch.First + s.count); err != nil {
			return err
		}
	}
	if s.origin == nil {
		return nil
	}
	return s.origin.from.Unchanged(ctx)
}

// Close frees what was opened to read.
func (s *Source) Close() {
	s.lines.close()
	if s.origin != nil {
		s.origin.from.Close()
	}
}

func (s *Source) reread() (*rereader, error) {
	if s.origin == nil {
		from, err := s.open()
		if err != nil {
			return nil, err
		}
		s.origin = &rereader{from: from, first: s.batch.First}
	}
	return s.origin, nil
}

// rereader finds items of a batch as the job got them. It is asked for them in the order of their ordinals.
type rereader struct {
	from  Origin
	chunk records.Chunk
	shape *wire.Shape
	first int64 // ordinal of the chunk's first item
}

// rereadItems and rereadBytes are how much is read at once.
const (
	rereadItems = 1024
	rereadBytes = 256 << 10
)

// find reads on up to an item.
func (r *rereader) find(ordinal int64) error {
	for ordinal >= r.first+int64(len(r.chunk.Items)) {
		r.from.Done(r.chunk.Items)
		r.first += int64(len(r.chunk.Items))
		if err := r.from.Next(&r.chunk, rereadItems, rereadBytes); err == io.EOF {
			return ledger.Unbalanced("item %d is in none of the batch's ranges", ordinal)
		} else if err != nil {
			return err
		}
		r.shape = r.from.Shape()
	}
	return nil
}

func (r *rereader) item(ctx context.Context, ordinal int64) (records.Origin, error) {
	if err := r.find(ordinal); err != nil {
		return records.Origin{}, err
	}
	return r.from.Origin(ctx, ordinal, r.shape, &r.chunk.Items[ordinal-r.first])
}

// done counts all items before one as done. It is called once, after all others.
func (r *rereader) done(ordinal int64) error {
	if err := r.find(ordinal); err != nil {
		return err
	}
	r.from.Done(r.chunk.Items[:ordinal-r.first])
	return nil
}
