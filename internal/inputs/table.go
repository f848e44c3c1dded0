package inputs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"golang.org/x/sync/errgroup"
)

const stdinName = job.StandardInput

// Table is a job's list of inputs as they were when the job was planned. It is written once, as
// one object of the store, and never changed.
type Table struct {
	Sources []Source `json:"sources"`
	// LeftOut is how many files were found that are none, because stint wrote them.
	LeftOut int `json:"left_out,omitempty"`
	// Machine is the name of the one that has listed the sources.
	Machine string `json:"machine,omitempty"`
	// Perm are the access rights that all sources grant which are local files; 0: there are none.
	Perm fs.FileMode `json:"perm,omitempty"`

	lists []byte // of the inputs in bundles: they stay encoded, since few are looked at by one worker at a time
}

// narrow leaves no access rights but those of an input, if these are known.
func (t *Table) narrow(perm fs.FileMode) {
	if perm != 0 {
		t.Perm = cmp.Or(t.Perm, fs.ModePerm) & perm
	}
}

// Source is one input object, or a bundle of small ones.
type Source struct {
	URL     string    `json:"url"`  // of a bundle: that of its first input
	Size    int64     `json:"size"` // bytes as stored; 0 for the standard input
	ModTime time.Time `json:"mod_time,omitzero"`
	ETag    string    `json:"etag,omitempty"`
	Inode   uint64    `json:"inode,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
	Digest  string    `json:"digest,omitempty"` // see [Inputs.digest]

	Shape records.Shape `json:"shape"`
	Start int64         `json:"start"` // offset of the first item
	// Hint is what the beginning shows that may be meant otherwise: see [records.Head]. Of a bundle each input has its own.
	Hint        string              `json:"hint,omitempty"`
	Compression records.Compression `json:"compression,omitempty"`
	// Unsized means that the file system gives the size of the input as 0 although it has bytes, as /proc does: it is read once, into
	// a copy, and is not looked at again.
	Unsized bool `json:"unsized,omitempty"`
	// Spool is the key prefix of the uncompressed copy of an input that cannot be read from the
	// middle; empty for others.
	Spool string `json:"spool,omitempty"`
	// MaxInput is the most bytes of the copy.
	MaxInput int64 `json:"max_input,omitempty"`
	// Own means that the run has written all of the source to the store itself: it cannot change,
	// and Size is what its items take.
	Own bool `json:"own,omitempty"`
	// Ordinals is the key prefix of the list of the ordinals that the items of all sources of the
	// table have in another job; empty if this job is the first to number them.
	Ordinals string `json:"ordinals,omitempty"`
	// Spilled means that the source is items of a feed that an earlier run had accepted: Spool has them as lines, which
	// are their values in JSON, whatever Shape.Format is. Session is theirs.
	Spilled bool  `json:"spilled,omitempty"`
	Session int64 `json:"session,omitempty"`
	// Bundle is nil if the source is one input. That of others, whose Shape has no columns since each
	// input has its own, begins at offset 0.
	Bundle *Bundle `json:"bundle,omitempty"`
}

// plainSource is a source of one input.
func plainSource(input store.Input, shape records.Shape) Source {
	return Source{URL: input.URL, Size: input.Size, ModTime: input.ModTime, ETag: input.ETag, Inode: input.Inode, Changed: input.Changed, Digest: input.Digest, Shape: shape}
}

// input is the only one of a source that is no bundle.
func (s *Source) input() store.Input {
	return store.Input{URL: s.URL, Digest: s.Digest, Info: store.Info{
		Size: s.Size, ModTime: s.ModTime, ETag: s.ETag, Inode: s.Inode, Changed: s.Changed,
	}}
}

// fixed reports whether the source cannot change, because nobody else has it, or whether it cannot be known.
func (s *Source) fixed() bool { return s.URL == stdinName || s.Own || s.Unsized }

// changeable reports whether the bytes of a batch may be others when it is run than when it was planned, and nothing
// else would show that: an object's ETag does, and a copy in the store does not change.
func (s *Source) changeable() bool {
	return s.Bundle != nil || s.Spool == "" && s.ETag == "" && !s.fixed()
}

// sized reports whether Size is how many bytes the items take.
func (s *Source) sized() bool { return s.Spool == "" || s.Own }

// unchanged returns a permanent error if an input is not what it was when it was planned.
func (n *Inputs) unchanged(ctx context.Context, before store.Input) error {
	info, err := n.access.StatInput(ctx, before.URL)
	if err != nil {
		return ledger.StoreError(job.ErrorInput, err)
	}
	if info.Size == 0 && before.Size == 0 && info.ETag == before.ETag {
		return nil
	}
	if info.Same(before.Info) {
		if err = n.alike(ctx, before, info); errors.Is(err, errReplaced) {
			return ledger.Permanent(job.ErrorChanged, fmt.Errorf("input %s changed while the job ran: %w (%d bytes, last modified %s); "+
				"put the old file back and resume, or start anew with --fresh",
				before.URL, err, info.Size, info.ModTime.UTC().Format(time.RFC3339Nano)))
		}
		return err
	}
	return ledger.Permanent(job.ErrorChanged, fmt.Errorf(
		"input %s changed while the job ran: it had %d bytes, last modified %s, and now has %d bytes, last modified %s; "+
			"%s, or start anew with --fresh",
		before.URL, before.Size, before.ModTime.UTC().Format(time.RFC3339Nano), info.Size, info.ModTime.UTC().Format(time.RFC3339Nano),
		remedy(before, info)))
}

// remedy says how a job whose input has changed can be resumed. The time counts, even if the size is the same: nothing
// is known that the content could be compared with, and each batch checks the time again, before and after it reads.
func remedy(before store.Input, now store.Info) string {
	if before.ETag != "" || now.Size != before.Size || !filepath.IsAbs(before.URL) {
		return "put the old file back, with its modification time, and resume"
	}
	return fmt.Sprintf("if its content is the same, give it its modification time back (touch -d %s %s) and resume; if it is not, put the old file back first",
		before.ModTime.UTC().Format(time.RFC3339Nano), "'"+strings.ReplaceAll(before.URL, "'", `'\''`)+"'")
}

// allUnchanged is unchanged for all inputs of a table.
func (n *Inputs) allUnchanged(ctx context.Context, t *Table) error {
	const together = 64 // inputs that one goroutine looks at
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(headReaders)
	for i := range t.Sources {
		s := &t.Sources[i]
		if s.fixed() {
			continue
		}
		members, err := t.members(s)
		if err != nil {
			_ = group.Wait()
			return err
		}
		for some := range slices.Chunk(members, together) {
			group.Go(func() error {
				return trap.Call("looking at inputs", func() error {
					for _, m := range some {
						if err := n.unchanged(ctx, m.Input); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
	return group.Wait()
}

// WriteTable writes a source table: a line of JSON, and the lists of its bundles.
func WriteTable(ctx context.Context, dir store.Dir, key string, t *Table) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("writing the source table: %w", err)
	}
	return ledger.StoreError(job.ErrorOutput, dir.Put(ctx, key, append(append(data, '\n'), t.lists...)))
}

// Table returns the source table of a run, from memory if it has been read before.
func (n *Inputs) Table(ctx context.Context, dir store.Dir, key string) (*Table, error) {
	cached := dir.Location() + "\x00" + key
	n.mu.Lock()
	t := n.tables[cached]
	n.mu.Unlock()
	if t != nil {
		return t, nil
	}
	data, err := dir.Get(ctx, key)
	if err != nil {
		return nil, ledger.StoreError(job.ErrorInput, fmt.Errorf("source table: %w", err))
	}
	line, lists, _ := bytes.Cut(data, []byte("\n"))
	t = &Table{lists: lists}
	if err := json.Unmarshal(line, t); err != nil {
		return nil, ledger.Permanent(job.ErrorCorrupt, fmt.Errorf("reading the source table %s: %w", key, err))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tableBytes += len(data); len(n.tables) >= maxCached || n.tableBytes > maxTableBytes {
		clear(n.tables) // tables are quickly read again
		n.tableBytes = len(data)
	}
	n.tables[cached] = t
	return t, nil
}

// totalBytes is the size of all inputs, or 0 if it cannot be known beforehand.
func (t *Table) totalBytes() int64 {
	var total int64
	for i := range t.Sources {
		if !t.Sources[i].sized() {
			return 0
		}
		total += t.Sources[i].Size - t.Sources[i].Start
	}
	return total
}

// Count returns how many inputs the table has.
func (t *Table) Count() int {
	count := 0
	for i := range t.Sources {
		if b := t.Sources[i].Bundle; b != nil {
			count += b.Inputs
		} else {
			count++
		}
	}
	return count
}
