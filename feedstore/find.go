package feedstore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Find returns the outcome of an item by the manifests that a report names; found: it has been committed. Errors:
// fs.ErrNotExist if its part has gone while it was read, so that a later report names the output.
func (s *Store) Find(ctx context.Context, report job.Report, item int64) (outcome wire.ItemResult, found bool, err error) {
	outcome.Item = item
	dir, err := s.access.Open(ctx, report.Store)
	if err != nil {
		return outcome, false, fmt.Errorf("opening the feed's store: %w", err)
	}
	e, found, err := s.findEntry(ctx, dir, report.Store, report.Manifests, item)
	if err != nil || !found {
		return outcome, false, ledger.Plain(err)
	}
	outcome.Session, outcome.Discarded = e.Session, e.Discarded > 0
	if outcome.Discarded {
		return outcome, true, nil
	}
	if location, whole := wholeOutput(report); whole {
		outcome, err = s.fromOutput(ctx, dir, report, location, e, outcome)
		return outcome, err == nil, err
	}
	session := outcome.Session
	outcome, err = s.Outcome(ctx, partOf(report.Store, e), item)
	outcome.Session = session
	return outcome, err == nil, err
}

func partOf(location string, e ledger.OwnedEntry) wire.StoredPart {
	return wire.StoredPart{
		Store: location, Run: e.Owner, Part: e.Part, First: e.First, Count: e.Count,
		Bytes: e.Bytes, Sum: e.Sum, ErrBytes: e.ErrBytes, ErrSum: e.ErrSum,
	}
}

// findEntry finds the entry of an item. What is young is found first: the heads are those of the last commits.
// Manifests that were written before the item was accepted are not read, and of those that an index lists only the ones
// that may have it.
func (s *Store) findEntry(ctx context.Context, dir store.Dir, location string, heads []string, item int64) (ledger.OwnedEntry, bool, error) {
	seen := map[string]bool{}
	for todo := slices.Clone(heads); len(todo) > 0; todo = todo[1:] {
		key := todo[0]
		if seen[key] {
			continue
		}
		seen[key] = true
		m, err := s.manifest(ctx, dir, location, key)
		if err != nil {
			return ledger.OwnedEntry{}, false, err
		}
		i, exact := slices.BinarySearchFunc(m.entries, item, func(e ledger.OwnedEntry, item int64) int { return cmp.Compare(e.First, item) })
		if !exact {
			i--
		}
		if i >= 0 && item < m.entries[i].End() {
			return m.entries[i], true, nil
		}
		if !m.endsBefore(item) {
			todo = slices.Concat(todo[:1], m.head.Listing(item), todo[1:], m.head.Previous)
		}
	}
	return ledger.OwnedEntry{}, false, nil
}

// maxManifests bounds how many manifests are kept.
const maxManifests = 64

// manifestKey names a manifest.
type manifestKey struct{ location, key string }

type manifest struct {
	head    wire.Head
	entries []ledger.OwnedEntry // by ordinal
}

// endsBefore reports that neither the manifest nor any that it reaches has the item, or a later one.
func (m *manifest) endsBefore(item int64) bool { return m.head.Below > 0 && m.head.Below <= item }

// manifest returns a manifest. It is read once, however many look for their items in it.
func (s *Store) manifest(ctx context.Context, dir store.Dir, location, key string) (*manifest, error) {
	return s.manifests.get(ctx, manifestKey{location, key}, func() (*manifest, error) {
		head, entries, err := ledger.ReadManifest(ctx, dir, key)
		return &manifest{head, entries}, err
	})
}

// wholeOutput returns the file with all results of a feed that has finished. Results that are published one by one stay
// parts.
func wholeOutput(report job.Report) (location string, whole bool) {
	if !outputs.Joined(report.Output) {
		return "", false
	}
	return report.Output.Location, true
}

// errAmbiguous reports an item of a finished feed of which the output does not say what its outcome is.
var errAmbiguous = errors.New("the feed has finished, and its output does not say which results are of items beside one that was dropped")

// fromOutput reads the outcome of an item of a finished feed.
func (s *Store) fromOutput(ctx context.Context, dir store.Dir, report job.Report, location string, e ledger.OwnedEntry, outcome wire.ItemResult) (wire.ItemResult, error) {
	if e.Dropped > 0 && e.Dropped < e.Count {
		return outcome, errAmbiguous
	}
	if outcome.Dropped = e.Dropped > 0; outcome.Dropped {
		return outcome, nil
	}
	offset, err := outputOffset(ctx, dir, report.Manifests, e.First)
	if err != nil {
		return outcome, err
	}
	index := outcome.Item - e.First // of its line, among those of the entry
	if e.Failed > 0 {
		before, failure, err := s.failuresOf(ctx, report.Output.Errors, e, outcome.Item)
		if err != nil || failure != nil {
			outcome.Failure = failure
			return outcome, err
		}
		index -= before
	}
	lines, err := (&output{store: s, location: location, bytes: offset}).lines(ctx, e)
	if err != nil {
		return outcome, err
	}
	defer lines.Close()
	for {
		line, err := lines.next()
		if err == io.EOF {
			err = lines.Broken(io.ErrUnexpectedEOF)
		}
		if err != nil {
			return outcome, err
		}
		if index == 0 {
			outcome.Result = wire.ResultValue(bytes.Clone(line[:len(line)-1]))
			return outcome, nil
		}
		index--
	}
}

// outputOffset returns where the results of an entry begin in the output.
func outputOffset(ctx context.Context, dir store.Dir, heads []string, first int64) (int64, error) {
	var offset int64
	err := new(ledger.Reader).Entries(ctx, dir, heads, 0, func(e ledger.OwnedEntry) bool {
		if e.First >= first {
			return false
		}
		offset += e.Bytes
		return true
	})
	return offset, err
}

// failuresOf reads the file of error records: the item's own, or how many items of the entry before it have failed.
func (s *Store) failuresOf(ctx context.Context, location string, e ledger.OwnedEntry, item int64) (before int64, own json.RawMessage, err error) {
	if location == "" {
		return 0, nil, errAmbiguous // failures were dropped
	}
	r, err := outputs.OpenFile(ctx, &s.access, location, 0, -1)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	count := int64(0)
	for dec := json.NewDecoder(bufio.NewReader(r)); ; {
		var f job.Failure
		err := dec.Decode(&f)
		switch {
		case errors.Is(err, io.EOF):
			if count != e.Failed {
				return before, nil, errAmbiguous
			}
			return before, nil, nil
		case err != nil:
			return 0, nil, store.Doing("reading "+location, err)
		case f.Item < e.First || f.Item >= e.End():
			continue
		}
		count++
		if f.Item < item {
			before++
		}
		if f.Item == item {
			f.Source, f.Offset, f.Input = "", 0, nil
			own, err = text.JSON(f)
			return before, own, err
		}
	}
}
