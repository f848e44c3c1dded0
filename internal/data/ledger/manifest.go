package ledger

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Results and errors of one execution are two objects; one that would be empty does not exist. Their
// names sort by ordinal.
func ResultsKey(run string, e wire.Entry) string { return partKey(run, e, "out") }

// ErrorsKey returns the key of the errors of an entry, whose part lies below the run.
func ErrorsKey(run string, e wire.Entry) string { return partKey(run, e, "err") }

// DigestsKey returns the key of the digests of an entry's items, which a job keeps that has its results used again.
func DigestsKey(run string, e wire.Entry) string { return partKey(run, e, "digests") }

// Piece is the object of the results, which must not be empty.
func PieceOf(e wire.Entry, run string) store.Piece {
	return store.Piece{Key: ResultsKey(run, e), Length: e.Bytes, Sum: e.Sum}
}

func partKey(run string, e wire.Entry, kind string) string {
	return path.Join(run, "parts", fmt.Sprintf("%015d-%s.%s", e.First, e.Part, kind))
}

// WriteManifest writes a manifest of the entries, which it sorts, under a new key, which it returns.
// previous are the manifests that it names.
func WriteManifest(ctx context.Context, dir store.Dir, ref wire.Ref, leg int, previous []string, entries []wire.Entry, besides wire.Besides) (string, error) {
	key := newManifestKey(ref)
	return key, PutManifest(ctx, dir, key, ref, leg, previous, entries, besides)
}

// PutManifest is [WriteManifest] with a given key. It returns a permanent error, and writes nothing, if a batch of an
// entry is not as it was when it was sealed.
func PutManifest(ctx context.Context, dir store.Dir, key string, ref wire.Ref, leg int, previous []string, entries []wire.Entry, besides wire.Besides) error {
	slices.SortFunc(entries, byOrdinal)
	if err := verifyBatches(entries, besides.Between); err != nil {
		return err
	}
	head := wire.Head{Run: ref.Run, Leg: leg, Sources: ref.Sources, Entries: len(entries), Besides: besides, Logic: ref.Logic}
	if len(entries) > 0 {
		head.First = entries[0].First
	}
	for i := range entries {
		head.End = max(head.End, entries[i].End())
	}
	if err := index(ctx, &head, dir, previous); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	var data bytes.Buffer
	lines := json.NewEncoder(&data)
	if err := lines.Encode(head); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	for _, e := range entries {
		if err := lines.Encode(e); err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
	}
	if err := dir.Put(ctx, key, data.Bytes()); err != nil {
		return StoreError(job.ErrorOutput, store.Doing("writing a manifest", err))
	}
	return nil
}

// verifyBatches returns a permanent error unless all batches are as they were when they were sealed.
func verifyBatches(entries []wire.Entry, between []wire.Batch) error {
	for i := range entries {
		if err := entries[i].Verify(); err != nil {
			return Permanent(job.ErrorDamaged, fmt.Errorf("recording %w", err))
		}
	}
	for i := range between {
		if err := between[i].Verify(); err != nil {
			return Permanent(job.ErrorDamaged, fmt.Errorf("recording what is left of %w", err))
		}
	}
	return nil
}

func byOrdinal(a, b wire.Entry) int { return cmp.Compare(a.First, b.First) }

// Link is one manifest of a chain, without its entries.
type Link struct {
	Key string
	wire.Head
}

// Links are manifests in the order of InOrder.
type Links interface {
	// Each calls fn with one after the other, until it returns an error, which Each returns. It can be called again,
	// and by several at once.
	Each(ctx context.Context, fn func(Link) error) error
}

// List is some manifests, in the order of InOrder.
type List []Link

// Each is that of [Links].
func (l List) Each(_ context.Context, fn func(Link) error) error {
	for _, link := range l {
		if err := fn(link); err != nil {
			return err
		}
	}
	return nil
}

// First returns the first of some manifests; nil if there is none.
func First(ctx context.Context, links Links) (*Link, error) {
	var first *Link
	err := links.Each(ctx, func(l Link) error {
		first = &l
		return errEnough
	})
	return first, ended(err)
}

// Chain follows the manifests from heads and returns every one, in the order of InOrder: some 200 bytes for each. The
// chain of a feed has a manifest for every ten seconds of its life: [Along] finds them anew each time, and holds few.
func Chain(ctx context.Context, dir store.Dir, heads []string) (List, error) {
	return ChainBeyond(ctx, dir, heads, map[string]bool{})
}

// ChainBeyond is [Chain] without the manifests in seen, to which it adds those that it returns. Manifests do not change
// once they are written, so those before one that was seen were seen, too.
func ChainBeyond(ctx context.Context, dir store.Dir, heads []string, seen map[string]bool) (List, error) {
	w, err := newWalk(ctx, dir, heads, 0, func(key string) bool { return seen[key] }, nil)
	if err != nil {
		return nil, err
	}
	var links List
	err = w.each(ctx, func(l Link) error {
		links = append(links, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		seen[l.Key] = true
	}
	return links, nil
}

// InOrder compares links by the order in which [Entries] takes them.
func InOrder(a, b Link) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Key, b.Key)) }

// ReadHead reads the first line of the manifest at key.
func ReadHead(ctx context.Context, dir store.Dir, key string) (wire.Head, error) {
	var head wire.Head
	err := readManifest(ctx, dir, key, func(h wire.Head) bool { head = h; return false }, nil)
	return head, err
}

// ReadManifest reads the manifest at key: its head, and its entries by ordinal.
func ReadManifest(ctx context.Context, dir store.Dir, key string) (head wire.Head, entries []OwnedEntry, err error) {
	err = readManifest(ctx, dir, key,
		func(h wire.Head) bool { head = h; return true },
		func(e wire.Entry) { entries = append(entries, OwnedEntry{e, cmp.Or(e.Run, head.Run)}) })
	return head, entries, err
}

// needsRelease is the error of a manifest of a version of the logic that this program does not know. Another worker may
// know it, so it costs no attempt.
func needsRelease(key string, logic int) error {
	why := fmt.Errorf("manifest %s %s: this program has %s", key, wire.NeedsRelease(logic), wire.Release(wire.LogicVersion))
	return &Judged{kind: job.ErrorOutage, cause: why}
}

// readManifest calls onHead with the head and, if that returns true, onEntry with each entry.
func readManifest(ctx context.Context, dir store.Dir, key string, onHead func(wire.Head) bool, onEntry func(wire.Entry)) error {
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return StoreError(job.ErrorBooks, store.Doing("reading manifest "+key, err))
	}
	body := NewSummedReader(key, r)
	defer body.Close()
	dec := json.NewDecoder(bufio.NewReader(body))
	var head wire.Head
	if err := dec.Decode(&head); err != nil {
		return manifestError(body, err)
	}
	if !wire.Knows(head.Logic) {
		return needsRelease(key, head.Logic)
	}
	if !onHead(head) {
		return nil
	}
	for range head.Entries {
		var e wire.Entry
		if err := dec.Decode(&e); err != nil {
			return manifestError(body, err)
		}
		onEntry(e)
	}
	return nil
}

// manifestError is the error of a manifest that cannot be read: the store's, if that is why, or that it is damaged.
func manifestError(body *SummedReader, err error) error {
	if body.err != nil {
		return StoreError(job.ErrorBooks, store.Doing("reading manifest "+body.Key, body.err))
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return Permanent(job.ErrorCorrupt, fmt.Errorf("reading manifest %s: %w", body.Key, err))
}

// OwnedEntry is an entry and the run that owns it: its part lies below the prefix of that run.
type OwnedEntry struct {
	wire.Entry
	Owner string
}

// Entries calls yield with every entry of the chain, in the order of their ordinals, until it returns an error, which
// Entries returns. An entry whose batch is not as it was when it was sealed accounts for nothing: it is left out, so
// that the books have a gap, which a resumed job fills. The entries of manifests that may overlap (a leg's own, those
// of two legs at once, a resumed job's) are read together; the others one manifest at a time, so that memory holds some
// thousand entries at any input size.
func Entries(ctx context.Context, dir store.Dir, links Links, yield func(OwnedEntry) error) error {
	return inTurn(ctx, dir, links.Each, yield)
}

// inTurn is [Entries] of the links that each gives.
func inTurn(ctx context.Context, dir store.Dir, each func(context.Context, func(Link) error) error, yield func(OwnedEntry) error) error {
	var held []OwnedEntry // read, not yet given: sorted by ordinal
	give := func(n int) error {
		for _, e := range held[:n] {
			if err := yield(e); err != nil {
				return err
			}
		}
		held = slices.Clone(held[n:])
		return nil
	}
	err := each(ctx, func(l Link) error {
		// Entries that begin before this manifest's first ordinal cannot be in a later one.
		n, _ := slices.BinarySearchFunc(held, l.First, func(e OwnedEntry, first int64) int { return cmp.Compare(e.First, first) })
		if err := give(n); err != nil {
			return err
		}
		err := readManifest(ctx, dir, l.Key,
			func(wire.Head) bool { return true },
			func(e wire.Entry) {
				if e.Verify() == nil {
					held = append(held, OwnedEntry{e, cmp.Or(e.Run, l.Run)})
				}
			})
		slices.SortStableFunc(held, func(a, b OwnedEntry) int { return byOrdinal(a.Entry, b.Entry) })
		return err
	})
	if err == nil {
		err = give(len(held))
	}
	return ended(err)
}

// errEnough ends a walk over entries without an error.
var errEnough = errors.New("no more wanted")

func ended(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// EntriesUntil is [Entries] until yield returns false.
func EntriesUntil(ctx context.Context, dir store.Dir, links Links, yield func(OwnedEntry) bool) error {
	return Entries(ctx, dir, links, func(e OwnedEntry) error {
		if !yield(e) {
			return errEnough
		}
		return nil
	})
}
