package activities

import (
	"context"
	"fmt"

	"github.com/stint-run/stint/internal/data/feeds"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/redrive"
	"github.com/stint-run/stint/internal/data/stages"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// source gives Process the items of one batch, in the order of their ordinals. One goroutine at a time uses it. Items
// are read before those that were read earlier are done.
//
// A range of a job's inputs is one implementation ([inputs.Range]), the failed items of another job are one
// ([redrive.Range]). Other sources have no bytes: the items of a feed ([feeds.Items]), which come with the batch
// itself, and the ticks of a clock ([loops.Slot]). Those leave Offset and Length of their batches at 0, here and in the
// manifest, and the books then tile ordinals only. What an earlier stage of a pipeline has made of items is another one
// ([stages.Source]), which knows them by the source that the job got them from.
type source interface {
	// Shape is the form of the items of the last chunk, and stays that. All chunks have lines, or none has.
	Shape() *wire.Shape
	// Next reads the next items into chunk, whose they are: at most items of them, and as many as fit into about so
	// many bytes, but at least one; all have one shape. It may wait, for a clock. After the last item it returns
	// io.EOF; if the source does not hold what was planned, an error that is not retried.
	Next(chunk *records.Chunk, items, bytes int) error
	// Done counts the next items as done, in the order in which they were read.
	Done(items []records.Item)
	// Split returns the part of the batch that is done, and the rest of it: nil if all is done.
	Split() (done wire.Batch, rest *wire.Batch)
	// Bytes is how many the items that are done take.
	Bytes() int64
	// Origin returns an item as the job got it, and where it comes from, for its error record. shape is that of the
	// item's chunk. Items are asked for in the order of their ordinals. It may read from the source.
	Origin(ctx context.Context, ordinal int64, shape *wire.Shape, item *records.Item) (records.Origin, error)
	// Original returns the ordinal by which people know an item: the one given, or that in the job in
	// which the item was first numbered. It may read from the store.
	Original(ctx context.Context, ordinal int64) (int64, error)
	// NotesDrops reports whether the part must note items without a result, because whoever merges
	// its results has to know which items they belong to.
	NotesDrops() bool
	// Unchanged returns a permanent error if what was read is not what was planned. It is called once
	// all items are done, before Split.
	Unchanged(ctx context.Context) error
	// Close frees what was opened to read. It is called once.
	Close()
}

// sink takes the outcomes of one batch, in the order of its items. One goroutine uses it.
//
// A part in the job's store is one implementation ([outputs.Part]), one for the next stage of a pipeline another
// ([stages.Part]). A small batch of a feed returns its results inline, in the answer of Process ([feeds.Sink]), and a
// slot of a loop writes a part about every ten seconds ([loops.Slot]). Nothing counts before the workflow has accepted
// the entry, so whatever an execution that failed has written is left to Finish to remove.
type sink interface {
	// At is the bytes of results so far: where the next result begins.
	At() int64
	// Results takes results, each a line with its end, of one or more items. lines is the sink's from
	// then on; it returns an empty buffer for the next ones.
	Results(ctx context.Context, lines []byte) (next []byte, err error)
	// Note takes a line about an item that has no result.
	Note(ctx context.Context, line wire.ErrorLine) error
	// Commit makes the outcomes durable and sets the sizes and checksums of the entry, which must be
	// complete but for those.
	Commit(entry *wire.Entry) error
	// Close frees what the sink holds, and gives up what is not committed. It is called once.
	Close()
}

// answering is a sink that may return outcomes with the answer of Process: nil if the store has them.
type answering interface{ Inline() *wire.Inline }

// kind is what the batches of one kind of job have of their own.
type kind interface {
	// source opens the source of the items, as the job got them or as an earlier step of a pipeline has made them.
	source(e *execution) (source, error)
	// sink opens the sink of outcomes that are not for another step.
	sink(e *execution) (sink, error)
}

// kindOf chooses the kind of a batch.
func kindOf(in *wire.ProcessInput) kind {
	switch {
	case in.Clock != nil:
		return slotOfLoop{}
	case len(in.Items) > 0:
		return feedBatch{}
	}
	return inputBatch{}
}

// inputBatch is a batch of items that lie in inputs of the job, of one that has failed items run again, or in spills of
// a feed.
type inputBatch struct{}

func (inputBatch) source(e *execution) (source, error) {
	in := &e.in
	dir, err := e.openStore()
	if err != nil {
		return nil, err
	}
	table, err := e.acts.inputs.Table(e.ctx, dir, in.Ref.Sources)
	if err != nil {
		return nil, err
	}
	if in.Batch.Source >= len(table.Sources) {
		return nil, ledger.Permanent(job.ErrorInvalid, fmt.Errorf("%s are of source %d: the job has %d", in.Batch, in.Batch.Source, len(table.Sources)))
	}
	origin := &table.Sources[in.Batch.Source]
	if origin.Spilled {
		e.entry.Session = origin.Session
	}
	o := stages.Options{NotesDrops: origin.Ordinals != "" || origin.Spilled, Feed: origin.Spilled}
	from, err := e.openSteps(origin.Shape.MaxItem, o, func() (source, error) { return e.openOrigin(dir, table) })
	if err != nil {
		return nil, err
	}
	known, err := e.reusing(from, table)
	if err == nil {
		known, err = e.awaiting(known, table)
	}
	if err != nil {
		from.Close()
	}
	return known, err
}

func (inputBatch) sink(e *execution) (sink, error) {
	dir, err := e.openStore()
	if err != nil {
		return nil, err
	}
	e.entry.Part = ledger.NewToken()
	return outputs.NewPart(dir, e.in.Ref.Run, e.entry, e.acts.opts.Joiner), nil
}

// openSteps opens what earlier steps have made of the batch, or what the job got if there were none.
func (e *execution) openSteps(maxItem int, o stages.Options, origin func() (source, error)) (source, error) {
	if e.in.Batch.From == nil {
		return origin()
	}
	o.Store, o.View, o.MaxItem, o.Last = e.openStore, *e.in.Stage.Read, maxItem, !e.in.PassesOn()
	o.Origin = func() (stages.Origin, error) { return origin() }
	return stages.Open(e.ctx, e.in.Batch, o)
}

// openOrigin opens the source that the job got the batch's items from.
func (e *execution) openOrigin(dir store.Dir, table *inputs.Table) (source, error) {
	batch := e.in.Batch
	from := &table.Sources[batch.Source]
	if from.Spilled {
		return feeds.OpenSpilled(e.ctx, dir, from, e.in.Ref.Job, batch)
	}
	r, err := e.acts.inputs.OpenRange(e.ctx, dir, table, batch)
	if err != nil {
		return nil, err
	}
	if from.Ordinals != "" {
		return redrive.NewRange(r, dir, from.Ordinals), nil
	}
	return r, nil
}
