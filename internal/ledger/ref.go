package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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
func SpoolKey(sources string, index int) string { return SpoolsPrefix(sources) + strconv.Itoa(index) }

// SpoolsPrefix is what the keys of all copies for a table begin with.
func SpoolsPrefix(sources string) string {
	token := strings.TrimSuffix(strings.TrimPrefix(path.Base(sources), "sources-"), ".json")
	return path.Join(path.Dir(sources), "spool-"+token) + "/"
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
		if r.compare(held) < 0 {
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

// compare returns whether the run is older than the one that CURRENT names, which holds held (-1), newer (1), or the same (0). Of two that
// started in one millisecond the one with the greater ID is the newer one. It returns 0 if held names no run.
func (r Ref) compare(held string) int {
	var other Ref
	if _, err := fmt.Sscanf(held, "%s born %d", &other.Run, &other.Born); err != nil {
		return 0
	}
	return cmp.Or(cmp.Compare(r.Born, other.Born), cmp.Compare(r.Run, other.Run))
}

// maxClaims bounds how often WhileCurrent claims again: each time another execution of an older run must have been under way.
const maxClaims = 10

// WhileCurrent runs fn while no newer run has claimed the store. An older one may have: its claim was under way while this run made its
// own, and a bucket has no lock for all machines. Then the store is claimed again.
func (r Ref) WhileCurrent(ctx context.Context, dir store.Dir, fn func(context.Context) error) error {
	for claims := 0; ; claims++ {
		began := false
		err := dir.Guard(ctx, CurrentKey, r.current(), func(ctx context.Context) error {
			began = true
			return fn(ctx)
		})
		var fenced *store.FencedError
		if began || !errors.As(err, &fenced) || r.compare(fenced.Have) <= 0 || claims == maxClaims {
			return StoreError(job.ErrorOutput, err)
		}
		if err := r.Claim(ctx, dir); err != nil {
			return err
		}
	}
}

// UnlessOvertaken runs fn unless a newer run has claimed the store, which is no error: for what a run writes that may
// have claimed nothing, and without which it has ended all the same.
func (r Ref) UnlessOvertaken(ctx context.Context, dir store.Dir, fn func(context.Context) error) error {
	held, err := dir.Get(ctx, CurrentKey)
	switch {
	case err != nil: // nobody has claimed it, or it cannot be read
		return StoreError(job.ErrorOutput, fn(ctx))
	case r.compare(string(held)) < 0:
		return nil
	}
	err = dir.Guard(ctx, CurrentKey, string(held), fn)
	if fenced := new(store.FencedError); errors.As(err, &fenced) {
		return r.UnlessOvertaken(ctx, dir, fn)
	}
	return StoreError(job.ErrorOutput, err)
}

// NewToken returns 64 random bits, unique to an execution, so that no two ever write the same key.
func NewToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return hex.EncodeToString(b[:])
}
