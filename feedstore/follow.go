package feedstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// Follow returns a reader of all results from a cursor on.
func (s *Store) Follow(from jobs.FeedCursor) jobs.FeedFollower {
	return &follower{store: s, at: from}
}

// follower reads results in order. It reads manifests as their turn comes, and holds no entries between two calls. It
// is not safe for concurrent use.
type follower struct {
	store  *Store
	at     jobs.FeedCursor
	heads  []string // of manifests: there is nothing more in these, and in all that they reach
	reader ledger.Reader
}

// Next calls yield with each line of results that the report's manifests add, and the cursor after it, up to the first
// item that has no outcome yet. The line is valid during the call, and has no end.
func (f *follower) Next(ctx context.Context, report job.Report, yield func(line []byte, next jobs.FeedCursor) error) error {
	if slices.Equal(report.Manifests, f.heads) {
		return nil
	}
	dir, err := f.store.access.Open(ctx, report.Store)
	if err != nil {
		return fmt.Errorf("opening the feed's store: %w", err)
	}
	var out *output
	location, whole := wholeOutput(report)
	var failed error
	err = f.reader.Entries(ctx, dir, report.Manifests, f.at.Item, func(e ledger.OwnedEntry) bool {
		if e.First > f.at.Item {
			return false // those before it are not there yet
		}
		if e.First < f.at.Item {
			failed = fmt.Errorf("the cursor %s is in the middle of items %d to %d: it is another feed's", f.at, e.First, e.End()-1)
			return false
		}
		if whole && out == nil {
			out = &output{store: f.store, location: location}
			if out.bytes, failed = outputOffset(ctx, dir, report.Manifests, e.First); failed != nil {
				return false
			}
		}
		if failed = f.entry(ctx, dir, e, out, yield); failed != nil {
			return false
		}
		f.at.Item, f.at.Line = e.End(), 0
		if out != nil {
			out.bytes += e.Bytes
		}
		return true
	})
	switch {
	case errors.Is(failed, fs.ErrNotExist) && out == nil && !report.State.Final() && report.Redrive == nil:
		return nil // Finish has just put it into the output, which a later report names
	case failed != nil:
		return ledger.Plain(failed)
	case err != nil:
		return ledger.Plain(err)
	}
	f.heads = slices.Clone(report.Manifests)
	return nil
}

// entry yields the results of one entry.
func (f *follower) entry(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, out *output, yield func([]byte, jobs.FeedCursor) error) error {
	if e.Bytes == 0 || f.at.Session != 0 && f.at.Session != e.Session {
		return nil
	}
	var lines *partLines
	var err error
	if out != nil {
		lines, err = out.lines(ctx, e)
	} else {
		lines, err = openLines(ctx, dir, e)
	}
	if err != nil {
		return err
	}
	defer lines.Close()
	for n := int64(0); ; n++ {
		line, err := lines.next()
		if err == io.EOF {
			return lines.Verify(e.Bytes, e.Sum)
		}
		if err != nil {
			return err
		}
		if n < f.at.Line {
			continue
		}
		f.at.Item, f.at.Line = e.First, n+1
		if err := yield(line[:len(line)-1], f.at); err != nil {
			return err
		}
	}
}

// output is the whole output of a feed that has finished.
type output struct {
	store    *Store
	location string
	bytes    int64 // results before the entry that comes next
}

// lines opens the results of the entry that comes next.
func (o *output) lines(ctx context.Context, e ledger.OwnedEntry) (*partLines, error) {
	r, err := outputs.OpenFile(ctx, &o.store.access, o.location, o.bytes, e.Bytes)
	if err != nil {
		return nil, err
	}
	s := ledger.NewSummedReader(o.location, r)
	return &partLines{SummedReader: s, in: ledger.NewLines(s, 64<<10)}, nil
}
