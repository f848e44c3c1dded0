package outputs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"

	"github.com/stint-run/stint/internal/data/failures"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Selection says which of a job's results are wanted.
type Selection struct {
	Errors  bool  // the error records, not the results
	Session int64 // of a feed; 0: all
	// From is the ordinal to begin at: 0, or one that an earlier call of [Results] has returned.
	From int64
}

// Results copies a job's results, or its error records, to w in the order of its items. Of a job that
// has not finished it copies those that have been committed, up to the first item that has not, or that waits for the
// outcome of an equal one. It returns the ordinal at which it ended; with a later report there may be more.
func Results(ctx context.Context, access ledger.Access, report job.Report, want Selection, w io.Writer) (int64, error) {
	if report.Loop != nil {
		return loopResults(ctx, access, report, want, w)
	}
	location, whole := wholeFile(report.Output, want.Errors)
	whole = whole && !isSink(ctx, access, location) && (want.Errors || !partsKept(ctx, access, report))
	if whole && want.From == 0 && want.Session == 0 {
		return report.Planned, copyFile(ctx, access, location, 0, w)
	}
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return want.From, err
	}
	next := want.From // ordinal
	if whole {
		next = 0
	}
	found := pieces{0} // in the whole file
	var failed error
	err = new(ledger.Reader).Entries(ctx, dir, committed(report), next, func(e ledger.OwnedEntry) bool {
		if e.First != next || e.Waiting > 0 {
			return false
		}
		next = e.End()
		wanted := e.First >= want.From && (want.Session == 0 || e.Session == want.Session)
		switch {
		case whole && want.Errors:
			found.add(e.Failed, wanted)
		case whole:
			found.add(e.Bytes, wanted)
		case wanted:
			failed = copyPart(ctx, dir, e, want.Errors, w)
			if hasMoved(failed, report) {
				next, failed = e.First, nil
				return false
			}
		}
		return failed == nil
	})
	err = cmp.Or(failed, err)
	if err == nil && whole {
		err = copyPieces(ctx, access, location, want.Errors, found, w)
	}
	return max(next, want.From), err
}

// committed returns the heads of all manifests of a job.
func committed(report job.Report) []string {
	return slices.Concat(report.Manifests, report.LegManifests)
}

// SelectsNone reports whether an expression is known to select none of the failed items of a completed job. Where the
// error records cannot be read, or there are none, it is not known.
func SelectsNone(ctx context.Context, access ledger.Access, report job.Report, where job.Where) bool {
	matches, err := where.Matcher()
	if err != nil || report.State != job.Completed || report.Failed == 0 {
		return false
	}
	errFound, read := errors.New("found"), false
	reading := &failures.Records{Each: func(_ []byte, f *job.Failure) error {
		if read = true; matches(f) {
			return errFound
		}
		return nil
	}}
	_, err = Results(ctx, access, report, Selection{Errors: true}, reading)
	return err == nil && read
}

// pieces are lengths in a file, in bytes or in lines: in turns of what is left out and what is wanted. The first is
// left out.
type pieces []int64

// add adds what follows.
func (p *pieces) add(n int64, wanted bool) {
	last := len(*p) - 1
	if (last%2 == 1) == wanted {
		(*p)[last] += n
		return
	}
	*p = append(*p, n)
}

// copyPieces copies the wanted pieces of a whole file: bytes of results, or lines of error records.
func copyPieces(ctx context.Context, access ledger.Access, location string, errorRecords bool, p pieces, w io.Writer) error {
	offset := int64(0)
	if !errorRecords {
		offset, p[0] = p[0], 0
	}
	r, err := OpenFile(ctx, access, location, offset, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	lines := bufio.NewReader(r)
	for i, n := range p {
		to := w
		if i%2 == 0 {
			to = io.Discard
		}
		if errorRecords {
			err = copyLines(to, lines, n)
		} else {
			_, err = io.CopyN(to, lines, n)
		}
		if err != nil {
			return inputs.IgnoreEOF(err)
		}
	}
	return nil
}

func copyLines(w io.Writer, lines *bufio.Reader, n int64) error {
	for range n {
		for more := true; more; {
			piece, err := lines.ReadSlice('\n')
			more = errors.Is(err, bufio.ErrBufferFull)
			if err != nil && !more {
				return err
			}
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// loopResults is [Results] of a loop: part by part, in the order of their first ticks. Of a loop that runs it copies
// only parts that begin before the first tick that some slot has not recorded: no part can come in between any more.
// From, and what it returns, count ticks of a slot.
func loopResults(ctx context.Context, access ledger.Access, report job.Report, want Selection, w io.Writer) (int64, error) {
	if report.Store == "" {
		return want.From, errors.New("the loop keeps no results: start it with --output")
	}
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return want.From, err
	}
	links := ledger.Along(dir, report.Manifests)
	until := int64(math.MaxInt64)
	if !report.State.Final() {
		until = report.Loop.Recorded()
	}
	var together []ledger.OwnedEntry // parts of different slots that begin with the same tick
	copyThem := func() error {
		slices.SortFunc(together, func(a, b ledger.OwnedEntry) int { return cmp.Compare(a.Source, b.Source) })
		for _, e := range together {
			if err := copyPart(ctx, dir, e, want.Errors, w); err != nil {
				return err
			}
		}
		together = together[:0]
		return nil
	}
	next := make([]int64, report.Loop.Slots) // of each slot
	err = ledger.Entries(ctx, dir, links, func(e ledger.OwnedEntry) error {
		if e.Source < 0 || e.Source >= len(next) || e.First != next[e.Source] {
			return ledger.Unbalanced("slot %d has a part that begins with tick %d, and none before it", e.Source, e.First)
		}
		next[e.Source] = e.End()
		if e.First < want.From || e.First >= until {
			return nil
		}
		if len(together) > 0 && together[0].First != e.First {
			if err := copyThem(); err != nil {
				return err
			}
		}
		together = append(together, e)
		return nil
	})
	if err == nil {
		err = copyThem()
	}
	return max(want.From, until), err
}

// hasMoved reports whether copyPart has found no part because Finish has just put it into the output, which a later
// report names.
func hasMoved(err error, report job.Report) bool {
	return errors.Is(err, errNoPart) && !report.State.Final() && report.Redrive == nil
}

// errNoPart is about a part of which nothing has been copied, because it is not there.
var errNoPart = errors.New("no such part")

func copyPart(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, errorRecords bool, w io.Writer) error {
	begun := &noting{w: w}
	err := copyAll(ctx, dir, e, errorRecords, begun)
	if errors.Is(err, fs.ErrNotExist) && !begun.written {
		return fmt.Errorf("%w: %w", errNoPart, err)
	}
	return err
}

// noting notes whether something has been written.
type noting struct {
	w       io.Writer
	written bool
}

// Write implements io.Writer.
func (n *noting) Write(b []byte) (int, error) {
	n.written = true
	return n.w.Write(b)
}

func copyAll(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, errorRecords bool, w io.Writer) error {
	if errorRecords {
		if e.ErrBytes == 0 {
			return nil
		}
		return ledger.CopyPartErrors(ctx, dir, ledger.ErrorsKey(e.Owner, e.Entry), e.Entry, w)
	}
	if e.Bytes == 0 {
		return nil
	}
	key := ledger.ResultsKey(e.Owner, e.Entry)
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := crc32.New(wire.CRC32C)
	n, err := io.Copy(w, io.TeeReader(r, sum))
	return ledger.Verified(key, n, e.Bytes, sum.Sum32(), e.Sum, err)
}

// wholeFile returns the one file that holds all results, or all error records, if there is one. A table holds them in
// another form.
func wholeFile(o *job.Output, errorRecords bool) (location string, whole bool) {
	switch {
	case o == nil:
		return "", false
	case errorRecords:
		return o.Errors, o.Errors != ""
	}
	return o.Location, Joined(o)
}

// partsKept reports whether the output went into a device or a pipe: a file in its place now is another one. If that is
// not known, it did not.
func partsKept(ctx context.Context, access ledger.Access, report job.Report) bool {
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return false
	}
	done, err := ledger.ReadDone(ctx, dir, report.Run)
	return err == nil && done != nil && done.Kept
}

func copyFile(ctx context.Context, access ledger.Access, location string, offset int64, w io.Writer) error {
	r, err := OpenFile(ctx, access, location, offset, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// Follower copies the results of a job of files, or its error records, while that runs, each once, in the order of its
// items. It begins with the first; what it has not copied when the job has ended [Results] copies, from [Follower.Next]
// on. It reads each manifest once, and holds what those that it has read say of items behind one that is not committed
// yet.
type Follower struct {
	Errors bool // the error records, not the results

	seen    map[string]bool     // manifests
	waiting []ledger.OwnedEntry // of them, in order
	next    int64               // ordinal
}

// Follows reports whether a job is one that a Follower copies from now: one of files that runs, and is no redrive,
// which changes results in the middle.
func Follows(report job.Report) bool {
	return !report.State.Final() && report.Feed == nil && report.Loop == nil && report.Redrive == nil
}

// Next returns the ordinal of the first item whose result has not been copied.
func (f *Follower) Next() int64 { return f.next }

// Copy copies to w, of a job that it [Follows], what has been committed by the time of the report and was not copied
// before, up to the first item that has not been committed. After an error of w it is not known what w has got.
func (f *Follower) Copy(ctx context.Context, access ledger.Access, report job.Report, w io.Writer) error {
	heads := committed(report)
	if !slices.ContainsFunc(heads, func(key string) bool { return !f.seen[key] }) {
		return nil
	}
	dir, err := access.Open(ctx, report.Store)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	maps.Copy(seen, f.seen)
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
	for len(f.waiting) > 0 && f.waiting[0].First == f.next && f.waiting[0].Waiting == 0 {
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
