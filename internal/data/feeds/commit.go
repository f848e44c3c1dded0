package feeds

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"golang.org/x/sync/errgroup"
)

// Commit writes inline outcomes to parts, those of neighbours together, unfinished items to spills, and a manifest of
// all, whose key it returns. The manifest counts only when that has been accepted: a repetition leaves at most objects
// that nothing names. Previous are named by it.
func Commit(ctx context.Context, dir store.Dir, in wire.CommitFeedInput) (manifest string, err error) {
	in.Unfinished = slices.Clone(in.Unfinished)
	pieces, err := gather(in)
	if err != nil {
		return "", err
	}
	if err := writeParts(ctx, dir, in.Ref.Run, pieces); err != nil {
		return "", err
	}
	var entries []wire.Entry
	for i := range pieces {
		entries = append(entries, pieces[i].Entry)
	}
	var spills []wire.Spill
	for left := in.Unfinished; len(left) > 0; {
		n := 1
		for n < len(left) && left[n].First == left[n-1].End() && left[n].Session == left[n-1].Session {
			n++
		}
		spill, err := writeSpill(ctx, dir, ledger.NewSpillKey(in.Ref), in.Format, left[:n])
		if err != nil {
			return "", err
		}
		spills, left = append(spills, spill), left[n:]
	}
	return ledger.WriteManifest(ctx, dir, in.Ref, in.Leg, in.Previous, entries, wire.Besides{Below: in.Accepted, Spills: spills})
}

// gather checks what is to be committed, and joins neighbours: inline outcomes of one session, and discarded items. It
// sorts all by ordinal.
func gather(in wire.CommitFeedInput) ([]wire.FeedEntry, error) {
	all := slices.Clone(in.Entries)
	for _, r := range in.Discarded {
		all = append(all, wire.FeedEntry{Entry: wire.Entry{Batch: wire.Batch{First: r.First, Count: r.Count}.Sealed(), Discarded: r.Count, Session: r.Session}})
	}
	slices.SortFunc(all, func(a, b wire.FeedEntry) int { return cmp.Compare(a.First, b.First) })
	slices.SortFunc(in.Unfinished, func(a, b wire.FeedItems) int { return cmp.Compare(a.First, b.First) })
	if err := checkRanges(all, in.Unfinished); err != nil {
		return nil, err
	}
	var joined []wire.FeedEntry
	for i := range all {
		e := &all[i]
		if err := checkEntry(e); err != nil {
			return nil, err
		}
		if n := len(joined); n > 0 && joins(&joined[n-1], e) {
			join(&joined[n-1], e)
			continue
		}
		if e.Inline != nil { // the caller's stays as it is
			own := wire.Inline{Results: slices.Clip(e.Inline.Results), Notes: slices.Clip(e.Inline.Notes)}
			e.Inline = &own
		}
		joined = append(joined, *e)
	}
	return joined, nil
}

// checkRanges returns a permanent error if ranges overlap, or are empty. Both lists are sorted.
func checkRanges(entries []wire.FeedEntry, unfinished []wire.FeedItems) error {
	type span struct{ first, end int64 }
	var spans []span
	for i := range entries {
		spans = append(spans, span{entries[i].First, entries[i].End()})
	}
	for i := range unfinished {
		spans = append(spans, span{unfinished[i].First, unfinished[i].End()})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.end, b.end)) })
	for i, s := range spans {
		if s.first < 0 || s.end <= s.first {
			return ledger.Unbalanced("the range of items from %d to before %d is not one", s.first, s.end)
		}
		if i > 0 && s.first < spans[i-1].end {
			return ledger.Unbalanced("items %d to %d are committed twice", s.first, min(s.end, spans[i-1].end)-1)
		}
	}
	return nil
}

// check returns a permanent error if the entry contradicts itself.
func checkEntry(e *wire.FeedEntry) error {
	if err := e.Verify(); err != nil {
		return ledger.Permanent(job.ErrorDamaged, fmt.Errorf("recording %w", err))
	}
	switch {
	case e.Part == "" && (e.Source != 0 || e.Offset != 0 || e.Length != 0): // what an earlier run has left is read from its spills
		return ledger.Permanent(job.ErrorInvalid, fmt.Errorf("%s of a feed are a range of bytes", e.Batch))
	case e.OK+e.Failed+e.Discarded != e.Count:
		return ledger.Unbalanced("%s have %d outcomes", e.Batch, e.OK+e.Failed+e.Discarded)
	case e.Discarded > 0 && (e.Discarded != e.Count || e.Part != "" || e.Inline != nil):
		return ledger.Unbalanced("%d of %s are discarded, and others have outcomes", e.Discarded, e.Batch)
	case e.Discarded > 0 || e.Part != "" && e.Inline == nil:
		return nil
	case e.Part != "" || e.Inline == nil:
		return ledger.Unbalanced("the outcomes of %s are to be in a part or inline, and are in %s", e.Batch, map[bool]string{true: "both", false: "neither"}[e.Part != ""])
	}
	return ledger.CheckInline(e.Inline, e.Entry)
}

// joins reports whether next, the entry after this one, belongs into the same entry of the manifest.
func joins(e *wire.FeedEntry, next *wire.FeedEntry) bool {
	sameKind := e.Inline != nil && next.Inline != nil || e.Discarded > 0 && next.Discarded > 0
	return sameKind && e.End() == next.First && e.Session == next.Session
}

// join adds the entry that follows.
func join(e *wire.FeedEntry, next *wire.FeedEntry) {
	e.Batch = e.Upto(e.Count+next.Count, 0)
	e.OK += next.OK
	e.Failed += next.Failed
	e.Dropped += next.Dropped
	e.Discarded += next.Discarded
	if e.Inline != nil {
		e.Inline.Append(next.Inline)
	}
}

// writers is how many parts are written at once: a commit may have some hundred, in a bucket.
const writers = 8

// writeParts writes the inline outcomes of entries to parts of the run.
func writeParts(ctx context.Context, dir store.Dir, run string, entries []wire.FeedEntry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range entries {
		if e := &entries[i]; e.Inline != nil {
			group.Go(func() error {
				return trap.Call("writing a part", func() error { return writeEntry(ctx, e, dir, run) })
			})
		}
	}
	return group.Wait()
}

// write writes inline outcomes to a part of the run.
func writeEntry(ctx context.Context, e *wire.FeedEntry, dir store.Dir, run string) error {
	e.Part = ledger.NewToken()
	notes, err := e.Inline.EncodeNotes()
	if err != nil {
		return err
	}
	for _, o := range []struct {
		key  string
		data []byte
	}{{ledger.ResultsKey(run, e.Entry), e.Inline.Results}, {ledger.ErrorsKey(run, e.Entry), notes}} {
		if len(o.data) == 0 {
			continue
		}
		if err := dir.Put(ctx, o.key, o.data); err != nil {
			return ledger.StoreError(job.ErrorOutput, err)
		}
	}
	return e.Inline.Sums(&e.Entry)
}
