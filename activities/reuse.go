package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/activity"
)

// keepingResults is a [inputs.Lister] of a job whose results are used again: it finds what an earlier run has left.
type keepingResults struct {
	inputs.Lister
	begin func(ctx context.Context, in wire.PlanInput) (*wire.Reuse, error)
}

// List is that of [inputs.Lister].
func (k keepingResults) List(ctx context.Context, dir store.Dir, in wire.PlanInput) (*inputs.Table, error) {
	table, err := k.Lister.List(ctx, dir, in)
	if err == nil {
		table.Reuse, err = k.begin(ctx, in)
	}
	return table, err
}

// lister has what a job lists say how the job uses results of other runs, and which items are equal.
func (a *Activities) lister(spec job.Spec, from inputs.Lister, begin func(context.Context, wire.PlanInput) (*wire.Reuse, error)) inputs.Lister {
	if spec.Reuse != nil {
		from = keepingResults{from, begin}
	}
	if spec.Unique {
		from = findingTwins{from}
	}
	return from
}

// beginReuse says how a job of files uses results of an earlier run.
func (a *Activities) beginReuse(ctx context.Context, in wire.PlanInput) (*wire.Reuse, error) {
	own, err := a.openReuse(ctx, in.Spec.Reuse.Store)
	if err != nil {
		return nil, err
	}
	from, err := a.openReuse(ctx, in.Spec.Reuse.From)
	if err != nil {
		return nil, err
	}
	return reuse.Offer{Own: own, From: from}.Begin(ctx, in.Ref.Job, in.Spec)
}

// beginAdding says how the results of a redrive are added to those that its job has kept; nil: they are not.
func (a *Activities) beginAdding(ctx context.Context, in wire.PlanInput) (*wire.Reuse, error) {
	var r *wire.Reuse
	dir, err := a.openReuse(ctx, in.Spec.Reuse.Store)
	if err == nil {
		r, err = reuse.BeginAdding(ctx, dir, in.Ref.Job, in.Spec)
	}
	if store.Permanent(err) {
		activity.GetLogger(ctx).Warn("the results of this redrive cannot be kept for the next run", "error", err)
		return nil, nil
	}
	return r, err
}

func (a *Activities) openReuse(ctx context.Context, location string) (store.Dir, error) {
	dir, err := a.opts.Access.Open(ctx, location)
	if err != nil {
		return nil, ledger.StoreError(job.ErrorInput, fmt.Errorf("opening the results of an earlier run: %w", err))
	}
	return dir, nil
}

// reusing is how an execution uses results of an earlier run, and notes its own for a later one.
type reusing struct {
	*wire.Reuse
	hasher *reuse.Hasher
	cursor *reuse.Cursor // nil: nothing is looked up
	notes  *reuse.Notes  // nil: a later step of a pipeline writes them

	// Of items that have been read, and are not recorded, in order.
	read []looked
}

// looked is what the index has of an item.
type looked struct {
	digest reuse.Digest
	valid  bool // the item has a digest
	reuse.Found
}

// reusing has a source give items with what an earlier run has of them, if the job wants that. Only the first step of a
// pipeline takes results, and only the last one notes them: there the source is as it was.
func (e *execution) reusing(from source, table *inputs.Table) (source, error) {
	e.reuse = nil
	first, last := e.in.Batch.From == nil, !e.in.PassesOn()
	if table.Reuse == nil || !first && !last {
		return from, nil
	}
	r := &reusing{Reuse: table.Reuse}
	var err error
	if r.hasher, err = reuse.NewHasher(r.Reuse); err != nil {
		return nil, ledger.Permanent(job.ErrorCorrupt, err)
	}
	if of := r.From; of != nil && !r.Adds {
		if r.cursor, err = e.cursor(of); err != nil {
			return nil, err
		}
	}
	e.reuse = r
	if !first {
		if r.cursor != nil {
			r.cursor.Blind()
		}
		return from, nil
	}
	return &reusingSource{source: from, reusing: r, last: last, first: e.in.Batch.First}, nil
}

// beginNotes begins the notes of the items whose results go to the job's part.
func (e *execution) beginNotes() {
	if e.reuse != nil && !e.in.PassesOn() {
		e.reuse.notes = reuse.NewNotes(e.dir, e.in.Ref.Run, e.entry)
	}
}

// cursor opens the index of an earlier run at the place of the batch, as if nothing had changed before it.
func (e *execution) cursor(of *wire.ReuseIndex) (*reuse.Cursor, error) {
	dir, err := e.acts.openReuse(e.ctx, of.Location)
	if err != nil {
		return nil, err
	}
	index, err := e.acts.indexes.Open(e.ctx, dir, of)
	if err != nil {
		return nil, ledger.StoreError(job.ErrorInput, err)
	}
	return index.Cursor(context.WithoutCancel(e.ctx), e.in.Batch.First), nil
}

// reusingSource is a source of a step that is the first: items whose results an earlier run has come with them.
type reusingSource struct {
	source
	*reusing
	last  bool  // the step is the last one, too
	first int64 // ordinal of the next item
}

// chunkResults is about how many bytes of results come with the items of a chunk.
const chunkResults = 4 << 20

// Next is that of [source].
func (s *reusingSource) Next(chunk *records.Chunk, items, bytes int) error {
	if s.cursor != nil {
		items = min(items, int(max(1, chunkResults/s.From.MeanResult())))
	}
	if err := s.source.Next(chunk, items, bytes); err != nil {
		return err
	}
	shape := s.Shape()
	for i := range chunk.Items {
		item := &chunk.Items[i]
		one, err := s.look(shape, item)
		if err != nil {
			return ledger.StoreError(job.ErrorInput, err)
		}
		if one.Match == reuse.Same {
			item.Outcome, one.Result = s.outcome(one.Result, s.first), nil
		}
		s.read = append(s.read, one)
		s.first++
	}
	return nil
}

// look looks an item up.
func (r *reusing) look(shape *wire.Shape, item *records.Item) (one looked, err error) {
	if one.digest, one.valid = r.hasher.Of(shape, item); one.valid && r.cursor != nil {
		one.Found, err = r.cursor.Find(one.digest)
	}
	return one, err
}

// outcome returns that of an item with the result of an earlier run. One that passes further steps of a pipeline is a
// line, as failures are.
func (s *reusingSource) outcome(result []byte, ordinal int64) *records.Outcome {
	if s.last {
		return &records.Outcome{Value: result, Reused: true}
	}
	return &records.Outcome{Line: ledger.ReusedLine(ordinal, result), Reused: true}
}

// noteReuse notes an item for a later run, and what this one had of it. o is its outcome, and index counts from the first
// item that is not recorded.
func (e *execution) noteReuse(p *assignment, index int, o calls.Span) error {
	r := e.reuse
	one, err := e.lookedUp(p, index)
	if err != nil || r.notes == nil {
		return err
	}
	switch reused := o.Known != nil && o.Known.Reused; {
	case reused:
		e.entry.Reused++
	case one.Match == reuse.Changed:
		e.entry.Changed++
	case one.Match != reuse.New:
		e.entry.Again++
	}
	if one.Match != reuse.New && !one.None {
		r.notes.Matched(one.Item)
	}
	if known := o.Known; known != nil && known.Line != nil && known.Line.Twin != nil {
		return nil // it is noted with the outcome that it waits for
	}
	switch hasResult := o.Fault == nil && !o.Drop && (o.Known == nil || o.Known.Line == nil); {
	case hasResult && (o.Skipped || !one.valid):
		return r.notes.Bytes(e.ctx, p.answer.Bytes(o)) // no later run takes it
	case hasResult:
		return r.notes.Result(e.ctx, one.digest, p.answer.Bytes(o))
	case one.valid:
		return r.notes.None(e.ctx, one.digest)
	}
	return nil
}

// lookedUp returns what the index has of an item. In a pipeline the last step looks the item up as the job got it.
func (e *execution) lookedUp(p *assignment, index int) (one looked, err error) {
	r, b := e.reuse, p.block
	if e.in.Batch.From == nil {
		one, r.read = r.read[0], r.read[1:]
		return one, nil
	}
	ordinal := e.in.Batch.First + e.entry.Count + int64(index)
	origin, err := e.source.Origin(e.ctx, ordinal, b.convert.Shape, &b.chunk.Items[b.recorded+index])
	if err != nil {
		return one, err
	}
	if one, err = r.look(origin.Shape, origin.Item); err != nil {
		err = ledger.StoreError(job.ErrorInput, err)
	}
	return one, err
}

// keepResults leaves what a run has recorded for the next run of the job. Nothing depends on that: if it cannot be kept
// for good, the next run runs all items. It returns how many items of the earlier run, with a result, none of this one has
// matched.
func (a *Activities) keepResults(ctx context.Context, in wire.FinishInput, dir store.Dir, links ledger.Links, books wire.Books) (gone int64, err error) {
	if in.Spec.Reuse == nil || in.Ref.Sources == "" {
		return 0, nil
	}
	gone, err = a.publishResults(ctx, in.Ref, dir, links, books)
	_, ofStore := errors.AsType[*store.OpError](err)
	again := ofStore && !store.Permanent(err) && !store.Full(err) && in.Spec.Reuse.Store == in.Ref.Store // no other store holds the job up
	if err == nil || again {
		return gone, ledger.StoreError(job.ErrorOutput, err)
	}
	activity.GetLogger(ctx).Warn("the results of this run cannot be kept for the next one, which will run all items", "error", err)
	return 0, nil
}

func (a *Activities) publishResults(ctx context.Context, ref wire.Ref, dir store.Dir, links ledger.Links, books wire.Books) (gone int64, err error) {
	table, err := a.inputs.Table(ctx, dir, ref.Sources)
	if err != nil || table.Reuse == nil {
		return 0, err
	}
	to, err := a.openReuse(ctx, table.Reuse.Store)
	if err != nil {
		return 0, err
	}
	to = store.Narrow(to, ref.Perm)
	results := reuse.Results{
		Ref: ref, Reuse: table.Reuse, Dir: dir, To: to, Items: books.Items, Reused: books.Reused, Bytes: books.Bytes,
		Entries: func(ctx context.Context, fn func(ledger.OwnedEntry) error) error {
			return ledger.Entries(ctx, dir, links, fn)
		},
	}
	if table.Reuse.Adds {
		results.Before = table.Reuse.From
	}
	return results.Publish(ctx)
}
