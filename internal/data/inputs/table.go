package inputs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"golang.org/x/sync/errgroup"
)

const stdinName = job.StandardInput

// Table is a job's list of inputs as they were when the job was planned. It is written once, as
// one object of the store, and never changed.
type Table struct {
	wire.SourceTable
	names []byte   // set only if the items are names and no store is used
	lists []byte   // of the inputs in bundles: they stay encoded, since few are looked at by one worker at a time
	notes []string // of listing them
}

// narrow leaves no access rights but those of an input, if these are known.
func (t *Table) narrow(perm fs.FileMode) {
	if perm != 0 {
		t.Perm = cmp.Or(t.Perm, fs.ModePerm) & perm
	}
}

// plainSource returns a source of one input.
func plainSource(input store.Input, shape wire.Shape) wire.Source {
	return wire.Source{URL: input.URL, Size: input.Size, ModTime: input.ModTime, ETag: input.ETag, Inode: input.Inode, Changed: input.Changed, Digest: input.Digest, Shape: shape}
}

// input is the only one of a source that is no bundle.
func inputOf(s *wire.Source) store.Input {
	return store.Input{URL: s.URL, Digest: s.Digest, Info: store.Info{
		Size: s.Size, ModTime: s.ModTime, ETag: s.ETag, Inode: s.Inode, Changed: s.Changed,
	}}
}

// fixed reports whether the source cannot change, because nobody else has it, or whether it cannot be known.
func fixed(s *wire.Source) bool { return s.URL == stdinName || s.Own || s.Unsized }

// changeable reports whether the bytes of a batch may be others when it is run than when it was planned, and nothing
// else would show that: an object's ETag does, and a copy in the store does not change.
func changeable(s *wire.Source) bool {
	return s.Bundle != nil || s.Spool == "" && s.ETag == "" && !fixed(s)
}

// sized reports whether Size is how many bytes the items take.
func sized(s *wire.Source) bool { return s.Spool == "" || s.Own }

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
		if fixed(s) {
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

// totalBytes returns the size of all inputs, or 0 if it cannot be known beforehand.
func (t *Table) totalBytes() int64 {
	var total int64
	for i := range t.Sources {
		if !sized(&t.Sources[i]) {
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

// Inputs opens the inputs of jobs for one worker. It is safe for concurrent use.
type Inputs struct {
	access   ledger.Access
	standard io.Reader // the standard input; nil if there is none

	mu         sync.Mutex
	planners   map[string]*planner       // by run: where its last page ended
	tables     map[string]*Table         // by key: source tables are never changed once written
	tableBytes int                       // of all tables, as they lie in their stores
	bundles    map[*wire.Source][]member // of bundles that batches were read of lately
	seen       map[string]store.Input    // by URL: files that are what they were, although their inode or change is another
	stdin      *stdinSpool               // nil until the standard input is asked for
}

// New returns the inputs that access reaches. stdin is the input "-"; nil if there is none. The
// caller must close them.
func New(access ledger.Access, stdin io.Reader) *Inputs {
	return &Inputs{access: access, standard: stdin, planners: map[string]*planner{}, tables: map[string]*Table{}, bundles: map[*wire.Source][]member{}, seen: map[string]store.Input{}}
}

// Close frees the readers that are kept open between pages.
func (n *Inputs) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for run := range n.planners {
		n.dropPlanner(run)
	}
	if n.stdin != nil {
		n.stdin.reader.close()
	}
}

// What a worker remembers of jobs between activities is bounded.
const (
	maxCached     = 64 // planners, tables
	maxTableBytes = 64 << 20
	maxBundles    = 16 // lists of inputs, some hundred KiB each
)

// membersOf returns the inputs of a bundle, from memory if another batch of it was read lately.
func (n *Inputs) membersOf(t *Table, s *wire.Source) ([]member, error) {
	n.mu.Lock()
	members := n.bundles[s]
	n.mu.Unlock()
	if members != nil {
		return members, nil
	}
	members, err := t.members(s)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bundles) >= maxBundles {
		clear(n.bundles)
	}
	n.bundles[s] = members
	return members, nil
}

// plannerIdle is how long a planner is kept for its next page: another worker may plan the rest of the job. One
// that is needed after all opens its input again, and reads a compressed one again.
const plannerIdle = 30 * time.Minute

// takePlanner returns what is kept of the run's planning; nil if there is nothing. A planner of another
// source table than the accepted one is closed: its attempt at the first page was not the one that counts.
func (n *Inputs) takePlanner(ref wire.Ref) *planner {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.planners[ref.Run]
	delete(n.planners, ref.Run)
	if p == nil {
		return nil
	}
	p.idle.Stop()
	if p.sources != ref.Sources {
		p.Close()
		return nil
	}
	return p
}

func (n *Inputs) keepPlanner(run string, p *planner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropPlanner(run) // of another attempt
	for other := range n.planners {
		if len(n.planners) < maxCached {
			break
		}
		n.dropPlanner(other)
	}
	n.planners[run] = p
	p.idle = trap.After(plannerIdle, "closing an idle planner", nil, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.planners[run] == p {
			n.dropPlanner(run)
		}
	})
}

// dropPlanner closes the kept planner of a run, if there is one. The caller holds the lock.
func (n *Inputs) dropPlanner(run string) {
	if p := n.planners[run]; p != nil {
		p.idle.Stop()
		p.Close()
		delete(n.planners, run)
	}
}
