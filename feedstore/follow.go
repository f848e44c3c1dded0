package feedstore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Follow returns a reader of all results from a cursor on.
func (s *Store) Follow(from job.FeedCursor) job.FeedFollower {
	return &follower{store: s, at: from}
}

// follower reads results in order. It reads each manifest once, and holds the entries that lie behind one that is not there
// yet. It is not safe for concurrent use.
type follower struct {
	store *Store
	at    job.FeedCursor
	heads []string            // of manifests: these, and all that they reach, have been read
	ahead []ledger.OwnedEntry // by ordinal; none is before the cursor
}

// Next calls yield with each line of results that the report's manifests add, and the cursor after it, up to the first item that has
// no outcome yet. The line is valid during the call, and has no end.
func (f *follower) Next(ctx context.Context, report job.Report, yield func(line []byte, next job.FeedCursor) error) error {
	if slices.Equal(report.Manifests, f.heads) && len(f.ahead) == 0 {
		return nil
	}
	dir, err := f.store.access.Open(ctx, report.Store)
	if err != nil {
		return fmt.Errorf("opening the feed's store: %w", err)
	}
	if err := f.readManifests(ctx, dir, report.Manifests); err != nil {
		return err
	}
	var out *output
	if location, whole := wholeOutput(report); whole && len(f.ahead) > 0 {
		out = &output{store: f.store, location: location}
		if out.bytes, err = outputOffset(ctx, dir, report.Manifests, f.ahead[0].First); err != nil {
			return err
		}
	}
	for len(f.ahead) > 0 && f.ahead[0].First <= f.at.Item {
		e := f.ahead[0]
		if e.End() > f.at.Item {
			if e.First < f.at.Item {
				return fmt.Errorf("the cursor %s is in the middle of items %d to %d: it is another feed's", f.at, e.First, e.End()-1)
			}
			err := f.entry(ctx, dir, e, out, yield)
			if isGone(err) && out == nil && !report.State.Final() && report.Redrive == nil {
				return nil // Finish has just put it into the output, which a later report names
			}
			if err != nil {
				return err
			}
			f.at.Item, f.at.Line = e.End(), 0
			if out != nil {
				out.bytes += e.Bytes
			}
		}
		f.ahead = f.ahead[1:]
	}
	f.ahead = slices.Clip(f.ahead)
	return nil
}

// readManifests adds the entries of manifests that have not been read.
func (f *follower) readManifests(ctx context.Context, dir store.Dir, heads []string) error {
	var added []ledger.OwnedEntry
	read := map[string]bool{}
	for todo := slices.Clone(heads); len(todo) > 0; {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if read[key] || slices.Contains(f.heads, key) {
			continue
		}
		read[key] = true
		m, err := readManifest(ctx, dir, key)
		if err != nil {
			return err
		}
		if m.endsBefore(f.at.Item) {
			continue
		}
		todo = append(todo, m.previous...)
		for _, e := range m.entries {
			if e.End() > f.at.Item {
				added = append(added, e)
			}
		}
	}
	f.heads = slices.Clone(heads) // all of them, or none
	f.ahead = append(f.ahead, added...)
	slices.SortFunc(f.ahead, func(a, b ledger.OwnedEntry) int { return cmp.Compare(a.First, b.First) })
	return nil
}

// entry yields the results of one entry.
func (f *follower) entry(ctx context.Context, dir store.Dir, e ledger.OwnedEntry, out *output, yield func([]byte, job.FeedCursor) error) error {
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
	var line []byte
	for n := int64(0); ; n++ {
		line = line[:0]
		_, err := lines.line(&line, true)
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
	r, err := o.store.access.OpenInput(ctx, o.location, o.bytes, e.Bytes)
	if err != nil {
		return nil, err
	}
	s := ledger.NewSummedReader(o.location, r)
	return &partLines{SummedReader: s, in: bufio.NewReaderSize(s, 64<<10)}, nil
}
