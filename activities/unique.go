package activities

import (
	"context"
	"os"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/data/unique"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// findingTwins is a [inputs.Lister] of a job that calls equal items once: it finds out which are.
type findingTwins struct{ inputs.Lister }

// Complete is that of [inputs.Completer].
func (findingTwins) Complete(ctx context.Context, dir store.Dir, in wire.PlanInput, table *inputs.Table, each inputs.EachItem) error {
	scratch, err := scratchOf(dir, in.Ref)
	if err != nil {
		return err
	}
	finder := unique.NewFinder(scratch)
	defer finder.Close()
	if err = each(ctx, finder.Add); err == nil {
		table.Twins, err = unique.WriteList(ctx, dir, unique.Key(in.Ref.Sources), finder)
	}
	return ledger.StoreError(job.ErrorOutput, err)
}

// scratchOf returns the directory for temporary files of a run, which may be large; empty: where such files usually lie.
func scratchOf(dir store.Dir, ref wire.Ref) (string, error) {
	scratch := outputs.Scratch(dir, ref)
	if scratch == "" {
		return "", nil
	}
	return scratch, ledger.StoreError(job.ErrorOutput, os.MkdirAll(scratch, 0o777))
}

// hasTwins reports whether a run has items that equal one before them.
func (a *Activities) hasTwins(ctx context.Context, dir store.Dir, spec job.Spec, sources string) (bool, error) {
	if !spec.Unique || sources == "" {
		return false, nil
	}
	table, err := a.inputs.Table(ctx, dir, sources)
	return err == nil && table.Twins != nil, err
}

// twinSource is a source of a step that is the first: twins come with a note about what they wait for.
type twinSource struct {
	source
	ctx     context.Context
	twins   *unique.Cursor
	reuse   *reusing // nil: the job keeps no results
	ordinal int64    // of the next item
}

// awaiting has a source give twins with their outcome, if the batch has any.
func (e *execution) awaiting(from source, table *inputs.Table) (source, error) {
	e.awaited = table.Twins != nil
	if !e.awaited || e.in.Batch.From != nil {
		return from, nil
	}
	list, err := e.acts.twins.Open(e.ctx, e.dir, table.Twins)
	if err != nil {
		return nil, err
	}
	ctx, b := context.WithoutCancel(e.ctx), e.in.Batch
	twins := list.Cursor(ctx, b.First)
	if any, err := twins.Any(b.First, b.End()); err != nil || !any {
		return from, err
	}
	return &twinSource{source: from, ctx: ctx, twins: twins, reuse: e.reuse, ordinal: b.First}, nil
}

// Next is that of [source].
func (s *twinSource) Next(chunk *records.Chunk, items, bytes int) error {
	if err := s.source.Next(chunk, items, bytes); err != nil {
		return err
	}
	shape := s.Shape()
	for i := range chunk.Items {
		item, ordinal := &chunk.Items[i], s.ordinal
		s.ordinal++
		if item.Outcome != nil { // an earlier run has its result
			continue
		}
		first, ok, err := s.twins.Find(ordinal)
		if err == nil && ok {
			item.Outcome, err = s.outcome(ordinal, first, shape, item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outcome returns that of a twin.
func (s *twinSource) outcome(ordinal, first int64, shape *wire.Shape, item *records.Item) (*records.Outcome, error) {
	origin, err := s.Origin(s.ctx, ordinal, shape, item)
	if err != nil {
		return nil, err
	}
	var digest []byte
	if s.reuse != nil {
		if d, ok := s.reuse.hasher.Of(shape, item); ok {
			digest = d.Bytes()
		}
	}
	return &records.Outcome{Line: ledger.TwinLine(ordinal, first, origin, digest)}, nil
}

// withoutTwins returns the source that gives items as the job got them.
func withoutTwins(from source) source {
	if t, ok := from.(*twinSource); ok {
		return t.source
	}
	return from
}

// passOutcome notes an item that has its outcome without a call, and whose line has not come to the last step, or waits
// for that of an equal item.
func (e *execution) passOutcome(line wire.ErrorLine, at int64) error {
	e.entry.OK++
	if line.Twin != nil && !e.in.PassesOn() {
		e.entry.Dropped++
		e.entry.Waiting++
	}
	line.At = at
	return e.sink.Note(e.ctx, line)
}

// fill gives twins the outcomes of the items that they equal, and returns the heads of the manifests that have these.
func (a *Activities) fill(ctx context.Context, in wire.FinishInput, dir store.Dir, links ledger.Links) ([]string, error) {
	scratch, err := scratchOf(dir, in.Ref)
	if err != nil {
		return nil, err
	}
	filling := unique.Filling{
		Ref: in.Ref, Dir: dir, Links: links, Items: in.Planned, Flatten: in.Spec.Flatten, Notes: in.Spec.Reuse != nil, Scratch: scratch,
	}
	return filling.Fill(ctx)
}
