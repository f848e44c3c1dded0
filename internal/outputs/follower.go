package outputs

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/job"
)

// Follower copies the results of a job of files, or its error records, while that runs, each once, in the order of its items. It
// begins with the first; what it has not copied when the job has ended [Results] copies, from [Follower.Next] on. It reads each manifest
// once, and holds what those that it has read say of items behind one that is not committed yet.
type Follower struct {
	Errors bool // the error records, not the results

	seen    map[string]bool     // manifests
	waiting []ledger.OwnedEntry // of them, in order
	next    int64               // ordinal
}

// Follows reports whether a job is one that a Follower copies from now: one of files that runs, and is no redrive, which changes results
// in the middle.
func Follows(report job.Report) bool {
	return !report.State.Final() && report.Feed == nil && report.Loop == nil && report.Redrive == nil
}

// Next is the ordinal of the first item whose result has not been copied.
func (f *Follower) Next() int64 { return f.next }

// Copy copies to w, of a job that it [Follows], what has been committed by the time of the report and was not copied before, up to the first item that has
// not been committed. After an error of w it is not known what w has got.
func (f *Follower) Copy(ctx context.Context, access ledger.Access, report job.Report, w io.Writer) error {
	heads := committed(report)
	if !slices.ContainsFunc(heads, func(key string) bool { return !f.seen[key] }) {
		return nil
	}
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return err
	}
	seen := maps.Clone(f.seen)
	if seen == nil {
		seen = map[string]bool{}
	}
	links, err := ledger.ChainBeyond(ctx, dir, heads, seen)
	if err != nil {
		return err
	}
	waiting := slices.Clone(f.waiting)
	err = ledger.Entries(ctx, dir, links, func(e ledger.OwnedEntry) error {
		waiting = append(waiting, e)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(waiting, func(a, b ledger.OwnedEntry) int { return cmp.Compare(a.First, b.First) })
	f.seen, f.waiting = seen, waiting
	for len(f.waiting) > 0 && f.waiting[0].First == f.next {
		err := copyPart(ctx, dir, f.waiting[0], f.Errors, w)
		if hasMoved(err, report) {
			return nil
		}
		if err != nil {
			return err
		}
		f.next = f.waiting[0].End()
		f.waiting = f.waiting[1:]
	}
	return nil
}
