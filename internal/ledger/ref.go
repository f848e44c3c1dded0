package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// Ref says which data a job run owns.
type Ref struct {
	Job string `json:"job"`
	// Run is the first run ID of the job's chain of runs: everything that the chain writes lies
	// below it in the store.
	Run string `json:"run"`
	// Born is when that run started, in Unix milliseconds of the server's clock: it says which of two
	// runs is the newer one.
	Born  int64  `json:"born,omitempty"`
	Store string `json:"store"`
	// Sources is the key of the source table in the store; empty before the first page.
	Sources string `json:"sources,omitempty"`
	// Perm are the access rights that all inputs grant: local files made of them get no others. 0: any,
	// or unknown before the first page.
	Perm fs.FileMode `json:"perm,omitempty"`
}

// Open opens the run's store.
func (r Ref) Open(ctx context.Context, access Access) (store.Dir, error) {
	dir, err := access.Open(ctx, r.Store)
	if err != nil {
		return nil, StoreError(job.ErrorOutput, err)
	}
	return store.Narrow(dir, r.Perm), nil
}

// CurrentKey is the object that names the run which may publish: the newest one that has claimed the store.
const CurrentKey = "CURRENT"

// NewSourcesKey is a new key for a source table of the run.
func (r Ref) NewSourcesKey() string { return path.Join(r.Run, "sources-"+NewToken()+".json") }

// SpoolKey is the key prefix of the copy of a source, for the table at the key that [Ref.NewSourcesKey]
// has returned. A copy belongs to its table: another attempt may have found another listing.
func SpoolKey(sources string, index int) string {
	token := strings.TrimSuffix(strings.TrimPrefix(path.Base(sources), "sources-"), ".json")
	return path.Join(path.Dir(sources), "spool-"+token, strconv.Itoa(index))
}

// NewStdinKey is a new key prefix for the copy of the standard input of one process.
func (r Ref) NewStdinKey() string { return path.Join(r.Run, "stdin-"+NewToken()) }

// NewSpillKey is a new key prefix for items of a feed that have no outcome.
func (r Ref) NewSpillKey() string { return path.Join(r.Run, "spill-"+NewToken()) }

// newManifestKey is a new key for a manifest of the run.
func (r Ref) newManifestKey() string { return ManifestsPrefix(r.Run) + NewToken() + ".jsonl" }

// ManifestsPrefix is what the keys of a run's manifests begin with.
func ManifestsPrefix(run string) string { return run + "/manifests/" }

// MergedSourcesKey and MergedManifestKey are the keys of the state that a redrive, of which there is one
// in a run, leaves: the source table, and manifest n of it.
func (r Ref) MergedSourcesKey() string { return path.Join(r.Run, "sources-merged.json") }

// MergedManifestKey is described with [Ref.MergedSourcesKey].
func (r Ref) MergedManifestKey(n int) string {
	return path.Join(r.Run, "manifests", fmt.Sprintf("merged-%08d.jsonl", n))
}

// DoneKey is the object that says what the run has published.
func (r Ref) DoneKey() string { return path.Join(r.Run, "DONE") }

// Claim makes the run the one that may publish in its store, unless a newer one has claimed it: the
// error is then permanent, of the kind [job.ErrorFenced].
func (r Ref) Claim(ctx context.Context, dir store.Dir) error {
	err := dir.Claim(ctx, CurrentKey, r.current(), func(held string) error {
		if r.olderThan(held) {
			return &store.FencedError{Key: CurrentKey, Want: r.current(), Have: held}
		}
		return nil
	})
	if err != nil {
		return StoreError(job.ErrorOutput, fmt.Errorf("claiming the store: %w", err))
	}
	return nil
}

// current is what CURRENT holds while it names the run.
func (r Ref) current() string { return fmt.Sprintf("%s born %d", r.Run, r.Born) }

// olderThan reports whether CURRENT, which holds held, names a newer run. Of two that started in one
// millisecond the one with the greater ID is the newer one.
func (r Ref) olderThan(held string) bool {
	var other Ref
	if _, err := fmt.Sscanf(held, "%s born %d", &other.Run, &other.Born); err != nil {
		return false // it does not name a run
	}
	return cmp.Or(cmp.Compare(r.Born, other.Born), cmp.Compare(r.Run, other.Run)) < 0
}

// WhileCurrent runs fn while no newer run has claimed the store.
func (r Ref) WhileCurrent(ctx context.Context, dir store.Dir, fn func(context.Context) error) error {
	return StoreError(job.ErrorOutput, dir.Guard(ctx, CurrentKey, r.current(), fn))
}

// NewToken returns 64 random bits, unique to an execution, so that no two ever write the same key.
func NewToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return hex.EncodeToString(b[:])
}
