package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Open opens the run's store.
func OpenStore(ctx context.Context, r wire.Ref, access Access) (store.Dir, error) {
	dir, err := access.Open(ctx, r.Store)
	if err != nil {
		return nil, StoreError(job.ErrorOutput, err)
	}
	return store.Narrow(dir, r.Perm), nil
}

// CurrentKey is the object that names the run which may publish: the newest one that has claimed the store.
const CurrentKey = "CURRENT"

// NewSourcesKey returns a new key for a source table of the run.
func NewSourcesKey(r wire.Ref) string { return path.Join(r.Run, "sources-"+NewToken()+".json") }

// SpoolKey returns the key prefix of the copy of a source, for the table at the key that [Ref.NewSourcesKey]
// has returned. A copy belongs to its table: another attempt may have found another listing.
func SpoolKey(sources string, index int) string { return SpoolsPrefix(sources) + strconv.Itoa(index) }

// SpoolsPrefix returns what the keys of all copies for a table begin with.
func SpoolsPrefix(sources string) string {
	token := strings.TrimSuffix(strings.TrimPrefix(path.Base(sources), "sources-"), ".json")
	return path.Join(path.Dir(sources), "spool-"+token) + "/"
}

// NewStdinKey returns a new key prefix for the copy of the standard input of one process.
func NewStdinKey(r wire.Ref) string { return path.Join(r.Run, "stdin-"+NewToken()) }

// NewSpillKey returns a new key prefix for items of a feed that have no outcome.
func NewSpillKey(r wire.Ref) string { return path.Join(r.Run, "spill-"+NewToken()) }

// newManifestKey returns a new key for a manifest of the run.
func newManifestKey(r wire.Ref) string { return ManifestsPrefix(r.Run) + NewToken() + ".jsonl" }

// ManifestsPrefix returns what the keys of a run's manifests begin with.
func ManifestsPrefix(run string) string { return run + "/manifests/" }

// Claim makes the run the one that may publish in its store, unless a newer one has claimed it: the
// error is then permanent, of the kind [job.ErrorFenced].
func Claim(ctx context.Context, r wire.Ref, dir store.Dir) error {
	err := dir.Claim(ctx, CurrentKey, current(r), func(held string) error {
		if compare(r, held) < 0 {
			return &store.FencedError{Key: CurrentKey, Want: current(r), Have: held}
		}
		return nil
	})
	if err != nil {
		return StoreError(job.ErrorOutput, fmt.Errorf("claiming the store: %w", err))
	}
	return nil
}

// current returns what CURRENT holds while it names the run.
func current(r wire.Ref) string { return fmt.Sprintf("%s born %d", r.Run, r.Born) }

// compare returns whether the run is older than the one that CURRENT names, which holds held (-1), newer (1), or the
// same (0). Of two that started in one millisecond the one with the greater ID is the newer one. It returns 0 if held
// names no run.
func compare(r wire.Ref, held string) int {
	var other wire.Ref
	if _, err := fmt.Sscanf(held, "%s born %d", &other.Run, &other.Born); err != nil {
		return 0
	}
	return cmp.Or(cmp.Compare(r.Born, other.Born), cmp.Compare(r.Run, other.Run))
}

// maxClaims bounds how often WhileCurrent claims Again: each time another execution of an older run must have been
// under way.
const maxClaims = 10

// WhileCurrent runs fn while no newer run has claimed the store. An older one may have: its claim was under way while
// this run made its own, and a bucket has no lock for all machines. Then the store is claimed again.
func WhileCurrent(ctx context.Context, r wire.Ref, dir store.Dir, fn func(context.Context) error) error {
	for claims := 0; ; claims++ {
		began := false
		err := dir.Guard(ctx, CurrentKey, current(r), func(ctx context.Context) error {
			began = true
			return fn(ctx)
		})
		var fenced *store.FencedError
		if began || !errors.As(err, &fenced) || compare(r, fenced.Have) <= 0 || claims == maxClaims {
			return StoreError(job.ErrorOutput, err)
		}
		if err := Claim(ctx, r, dir); err != nil {
			return err
		}
	}
}

// UnlessOvertaken runs fn unless a newer run has claimed the store, which is no error: for what a run writes that may
// have claimed nothing, and without which it has ended all the same.
func UnlessOvertaken(ctx context.Context, r wire.Ref, dir store.Dir, fn func(context.Context) error) error {
	held, err := dir.Get(ctx, CurrentKey)
	switch {
	case err != nil: // nobody has claimed it, or it cannot be read
		return StoreError(job.ErrorOutput, fn(ctx))
	case compare(r, string(held)) < 0:
		return nil
	}
	err = dir.Guard(ctx, CurrentKey, string(held), fn)
	if fenced := new(store.FencedError); errors.As(err, &fenced) {
		return UnlessOvertaken(ctx, r, dir, fn)
	}
	return StoreError(job.ErrorOutput, err)
}

// NewToken returns 64 random bits, unique to an execution, so that no two ever write the same key.
func NewToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return hex.EncodeToString(b[:])
}

// Access opens stores and inputs: a [store.Access], or one that is simulated. It is safe for concurrent use.
type Access interface {
	Open(ctx context.Context, location string) (store.Dir, error)
	Expand(ctx context.Context, args []string) iter.Seq2[store.Input, error]
	StatInput(ctx context.Context, url string) (store.Info, error)
	OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error)
}

// ReadDone returns what a run has published; nil if it has not published yet.
func ReadDone(ctx context.Context, dir store.Dir, run string) (*wire.Done, error) {
	key := wire.Ref{Run: run}.DoneKey()
	data, err := dir.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, StoreError(job.ErrorOutput, err)
	}
	var d wire.Done
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, Permanent(job.ErrorCorrupt, fmt.Errorf("reading %s: %w", key, err))
	}
	return &d, nil
}

// Write records in the store what the run has published.
func WriteDone(ctx context.Context, d *wire.Done, dir store.Dir, ref wire.Ref) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("writing DONE: %w", err)
	}
	return StoreError(job.ErrorOutput, dir.Put(ctx, ref.DoneKey(), data))
}
