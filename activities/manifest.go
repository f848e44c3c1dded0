package activities

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Entry is one accepted execution of a batch: a line of a manifest.
type Entry struct {
	job.Batch
	// Part is the random token of the execution; its objects are named by it.
	Part string `json:"p"`
	// Run is the run whose prefix the part lies below, where that is not the manifest's own.
	Run string `json:"r,omitempty"`

	OK      int64 `json:"k,omitempty"` // dropped ones included
	Failed  int64 `json:"e,omitempty"`
	Dropped int64 `json:"d,omitempty"`

	Bytes    int64  `json:"b,omitempty"` // of the results
	Sum      uint32 `json:"c,omitempty"` // CRC-32C of the results
	ErrBytes int64  `json:"eb,omitempty"`
	ErrSum   uint32 `json:"ec,omitempty"`
}

// Results and errors of one execution are two objects, either of them absent when it would be
// empty. Their names sort by ordinal.
func resultsKey(run string, e Entry) string { return partKey(run, e, "out") }
func errorsKey(run string, e Entry) string  { return partKey(run, e, "err") }

// piece is the object of the results, which must not be empty.
func (e Entry) piece(run string) store.Piece {
	return store.Piece{Key: resultsKey(run, e), Length: e.Bytes, Sum: e.Sum}
}

func partKey(run string, e Entry, kind string) string {
	return path.Join(run, "parts", fmt.Sprintf("%015d-%s.%s", e.First, e.Part, kind))
}

// manifestHead is the first line of a manifest.
type manifestHead struct {
	Run     string `json:"run"`     // whose parts the entries name
	Leg     int    `json:"leg"`     // 0: the leg that the job runs itself
	Sources string `json:"sources"` // key of the source table that the entries refer to
	// Previous lists the manifests that were complete, and named by none other, when this one's
	// leg was started. Following them from the job's heads reaches every manifest.
	Previous []string `json:"previous,omitempty"`
	First    int64    `json:"first"` // smallest ordinal of the entries
	Entries  int      `json:"entries"`
}

// CommitInput names the executions that count.
type CommitInput struct {
	Ref      Ref      `json:"ref"`
	Leg      int      `json:"leg"`
	Previous []string `json:"previous,omitempty"`
	Entries  []Entry  `json:"entries"`
}

// CommitResult names the manifest that has been written.
type CommitResult struct {
	Manifest string `json:"manifest"`
}

// Commit writes a manifest. Only when its result has been accepted does the manifest count, so a
// repetition leaves at most an object that nothing names.
func (a *Activities) Commit(ctx context.Context, in CommitInput) (CommitResult, error) {
	defer beating(ctx)()
	dir, err := a.opts.Access.Open(ctx, in.Ref.Store)
	if err != nil {
		return CommitResult{}, storeError(job.ErrorOutput, err)
	}
	slices.SortFunc(in.Entries, byOrdinal)
	head := manifestHead{Run: in.Ref.Run, Leg: in.Leg, Sources: in.Ref.Sources, Previous: in.Previous, Entries: len(in.Entries)}
	if len(in.Entries) > 0 {
		head.First = in.Entries[0].First
	}
	var data bytes.Buffer
	lines := json.NewEncoder(&data)
	if err := lines.Encode(head); err != nil {
		return CommitResult{}, fmt.Errorf("writing a manifest: %w", err)
	}
	for _, e := range in.Entries {
		if err := lines.Encode(e); err != nil {
			return CommitResult{}, fmt.Errorf("writing a manifest: %w", err)
		}
	}
	key := in.Ref.manifestKey(newToken())
	if err := dir.Put(ctx, key, data.Bytes()); err != nil {
		return CommitResult{}, storeError(job.ErrorOutput, fmt.Errorf("writing a manifest: %w", err))
	}
	return CommitResult{Manifest: key}, nil
}

func byOrdinal(a, b Entry) int { return cmp.Compare(a.First, b.First) }

// link is one manifest of a chain, without its entries.
type link struct {
	key string
	manifestHead
}

// chain follows the manifests from heads and returns every one, ordered by run, leg and ordinal.
// It holds heads only: some hundred bytes for a thousand batches.
func chain(ctx context.Context, dir store.Dir, heads []string) ([]link, error) {
	seen := map[string]bool{}
	var links []link
	todo := slices.Clone(heads)
	for len(todo) > 0 {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		head, err := readHead(ctx, dir, key)
		if err != nil {
			return nil, err
		}
		links = append(links, link{key, head})
		todo = append(todo, head.Previous...)
	}
	slices.SortFunc(links, func(a, b link) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.key, b.key)) })
	return links, nil
}

func readHead(ctx context.Context, dir store.Dir, key string) (manifestHead, error) {
	var head manifestHead
	err := readManifest(ctx, dir, key, func(h manifestHead) bool { head = h; return false }, nil)
	return head, err
}

// readManifest gives the head, and if that is wanted each entry, to the functions.
func readManifest(ctx context.Context, dir store.Dir, key string, onHead func(manifestHead) bool, onEntry func(Entry)) error {
	r, err := dir.Open(ctx, key, 0, -1)
	if err != nil {
		return storeError(job.ErrorBooks, fmt.Errorf("reading manifest %s: %w", key, err))
	}
	defer r.Close()
	dec := json.NewDecoder(bufio.NewReader(r))
	var head manifestHead
	if err := dec.Decode(&head); err != nil {
		return manifestError(key, err)
	}
	if !onHead(head) {
		return nil
	}
	for range head.Entries {
		var e Entry
		if err := dec.Decode(&e); err != nil {
			return manifestError(key, err)
		}
		onEntry(e)
	}
	return nil
}

func manifestError(key string, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return permanent(job.ErrorCorrupt, fmt.Errorf("reading manifest %s: %w", key, err))
}

// ownedEntry is an entry with the run whose prefix its part lies below.
type ownedEntry struct {
	Entry
	run string
}

// entries gives every entry of the chain, in the order of their ordinals. The entries of manifests
// that may overlap (a leg's own, those of two legs at once, a resumed job's) are read together; the
// others one manifest at a time, so that memory holds some thousand entries at any input size.
func entries(ctx context.Context, dir store.Dir, links []link, yield func(ownedEntry) error) error {
	var held []ownedEntry // read, not yet given: sorted by ordinal
	for _, l := range links {
		// What begins before this manifest's first ordinal can be in no later one.
		n, _ := slices.BinarySearchFunc(held, l.First, func(e ownedEntry, first int64) int { return cmp.Compare(e.First, first) })
		for _, e := range held[:n] {
			if err := yield(e); err != nil {
				return err
			}
		}
		held = slices.Clone(held[n:])
		err := readManifest(ctx, dir, l.key,
			func(manifestHead) bool { return true },
			func(e Entry) { held = append(held, ownedEntry{e, cmp.Or(e.Run, l.Run)}) })
		if err != nil {
			return err
		}
		slices.SortStableFunc(held, func(a, b ownedEntry) int { return byOrdinal(a.Entry, b.Entry) })
	}
	for _, e := range held {
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}
