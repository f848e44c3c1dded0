// Package feedstore reads the results of feeds from where they are stored. A client of a feed ([jobs.NewFeed]) reaches
// a Temporal server only; results that do not fit into an answer, or that were not asked for in time, are in the feed's
// store. Give such a client a Store, and it reads them:
//
//	store := feedstore.New(feedstore.Options{})
//	defer store.Close()
//	feed := jobs.NewFeed[In, Out](client, "risk", jobs.FeedOptions{Store: store})
//
// Where the store is, the job says; credentials are those of the environment, as for workers.
//
//   - store.go: the outcomes of single items, and parts, as they are kept in memory
//   - cache.go: parts and manifests that have been read
//   - find.go: the part of an item, by the manifests
//   - follow.go: all results, in order
package feedstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// Options may be left zero.
type Options struct {
	// Allow lists the roots below which stores must lie: absolute paths and bucket URLs, as for a worker. Default:
	// whatever the process's credentials reach.
	Allow []string
	// CacheBytes bounds what is kept of parts that have been read. A part of up to a quarter of it is read once for all
	// its items; of a larger one, each item is read by itself. Default: [DefaultCacheBytes]; below 0: nothing is kept.
	CacheBytes int64
}

// DefaultCacheBytes is what is kept of parts that have been read, at most.
const DefaultCacheBytes = 32 << 20

// Store reads what feeds have written to their stores. It is safe for concurrent use, and made to be shared by all
// feeds of a process: many callers with a result in one part read it once, and four parts are read at a time. It has to
// be closed.
type Store struct {
	access    store.Access
	parts     cache[wire.StoredPart, *part]
	manifests cache[manifestKey, *manifest]
	reads     chan struct{} // one for each part that is being read
}

var _ jobs.FeedStore = (*Store)(nil)

// New returns a Store. It opens nothing yet.
func New(o Options) *Store {
	o.CacheBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes)
	s := &Store{access: store.Access{Allow: o.Allow}, reads: make(chan struct{}, maxReads)}
	s.parts.init(max(0, o.CacheBytes), func(p *part) int64 { return p.size })
	s.manifests.init(maxManifests, func(*manifest) int64 { return 1 })
	return s
}

// Close closes what was opened. Feeds must not use the Store any more. It can be repeated.
func (s *Store) Close() error { return s.access.Close() }

// Outcome returns the outcome of an item from its part. Errors: fs.ErrNotExist if there is no such part any more,
// because the feed has finished; others if it cannot be read, or is not what was accepted.
func (s *Store) Outcome(ctx context.Context, at wire.StoredPart, item int64) (wire.ItemResult, error) {
	outcome := wire.ItemResult{Item: item}
	dir, err := s.access.Open(ctx, at.Store)
	if err != nil {
		return outcome, fmt.Errorf("opening the feed's store: %w", err)
	}
	loaded, err := s.parts.get(ctx, at, func() (*part, error) {
		return inTurn(ctx, s.reads, func() (*part, error) { return readPart(ctx, dir, at, s.parts.most/maxReads) })
	})
	if err != nil {
		return outcome, fmt.Errorf("reading the results of the feed: %w", ledger.Plain(err))
	}
	if item < at.First || item >= at.First+int64(len(loaded.items)) {
		return outcome, fmt.Errorf("item %d is not in its part", item)
	}
	o := loaded.items[item-at.First]
	switch {
	case o.dropped:
		outcome.Dropped = true
		return outcome, nil
	case o.failure != nil:
		outcome.Failure = o.failure
		return outcome, nil
	}
	var line []byte
	if loaded.results != nil {
		line = loaded.results[o.from:o.to:o.to]
	} else if line, err = inTurn(ctx, s.reads, func() ([]byte, error) {
		return readRange(ctx, dir, ledger.ResultsKey(at.Run, entryOf(at)), o.from, o.to-o.from)
	}); err != nil {
		return outcome, fmt.Errorf("reading the result of item %d: %w", item, ledger.Plain(err))
	}
	outcome.Result = wire.ResultValue(line)
	return outcome, nil
}

// entryOf returns a part as the ledger names it.
func entryOf(at wire.StoredPart) wire.Entry {
	return wire.Entry{
		Batch: wire.Batch{First: at.First, Count: at.Count}, Part: at.Part,
		Bytes: at.Bytes, Sum: at.Sum, ErrBytes: at.ErrBytes, ErrSum: at.ErrSum,
	}
}

// readRange reads a piece of an object.
func readRange(ctx context.Context, dir store.Dir, key string, offset, length int64) ([]byte, error) {
	r, err := dir.Open(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	return data, nil
}

// gone is the error of a part that does not exist any more.
func gone(key string) error { return fmt.Errorf("part %s: %w", key, fs.ErrNotExist) }

// part is what is known of a part. It does not change.
type part struct {
	results []byte // nil: they are too many to be kept
	items   []outcome
	size    int64 // in memory
}

// outcome is where that of an item is.
type outcome struct {
	from, to int64           // of the results, without the end of the line
	failure  json.RawMessage // not nil: there is no result
	dropped  bool
}

const outcomeSize = 56

// readPart reads a part and checks that it is what was accepted. It keeps results of up to whole bytes.
func readPart(ctx context.Context, dir store.Dir, at wire.StoredPart, whole int64) (*part, error) {
	e := ledger.OwnedEntry{Entry: entryOf(at), Owner: at.Run}
	p := &part{}
	notes, err := readNotes(ctx, dir, e)
	if err != nil {
		return nil, err
	}
	lines, err := openLines(ctx, dir, e)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	if at.Bytes <= whole {
		p.results = make([]byte, 0, at.Bytes)
	}
	var offset int64
	for {
		for len(notes) > 0 && notes[0].At == offset {
			p.items = append(p.items, outcome{failure: notes[0].failure, dropped: notes[0].Dropped})
			p.size += int64(len(notes[0].failure)) + outcomeSize
			notes = notes[1:]
		}
		line, err := lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if at.Bytes <= whole {
			p.results = append(p.results, line...)
		}
		length := int64(len(line))
		p.items = append(p.items, outcome{from: offset, to: offset + length - 1})
		p.size += outcomeSize
		offset += length
	}
	if err := lines.Verify(at.Bytes, at.Sum); err != nil {
		return nil, err
	}
	if int64(len(p.items)) != at.Count || len(notes) > 0 {
		return nil, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("part %s has %d outcomes and %d notes too many, and had %d items", lines.Key, len(p.items), len(notes), at.Count))
	}
	p.size += int64(len(p.results))
	return p, nil
}

// note is a line about an item without a result.
type note struct {
	wire.ErrorLine
	failure json.RawMessage
}

func readNotes(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) ([]note, error) {
	var notes []note
	err := ledger.EachErrorLine(ctx, dir, e, func(line wire.ErrorLine) error {
		n := note{ErrorLine: line}
		if !line.Dropped {
			f := line.Failure
			f.Source, f.Offset, f.Input = "", 0, nil
			data, err := text.JSON(f)
			if err != nil {
				return err
			}
			n.failure = data
		}
		n.Failure, n.Raw = job.Failure{}, ""
		notes = append(notes, n)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone(ledger.ErrorsKey(e.Owner, e.Entry))
	}
	return notes, err
}

// partLines reads the lines of a part's results.
type partLines struct {
	*ledger.SummedReader
	in *ledger.Lines
}

// openLines opens the results of a part; without any, no object is read. The caller must close it.
func openLines(ctx context.Context, dir store.Dir, e ledger.OwnedEntry) (*partLines, error) {
	key := ledger.ResultsKey(e.Owner, e.Entry)
	body := io.NopCloser(bytes.NewReader(nil))
	if e.Bytes > 0 {
		opened, err := dir.Open(ctx, key, 0, -1)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, gone(key)
		}
		if err != nil {
			return nil, err
		}
		body = opened
	}
	s := ledger.NewSummedReader(key, body)
	return &partLines{SummedReader: s, in: ledger.NewLines(s, 64<<10)}, nil
}

// next returns the next line with its end; it is valid until the next call. io.EOF: there is none.
func (l *partLines) next() ([]byte, error) {
	line, err := l.in.Next()
	if err != nil && err != io.EOF {
		err = l.Broken(err)
	}
	return line, err
}
