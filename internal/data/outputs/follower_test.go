package outputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// In whatever order legs commit, and however often it is looked, each result is copied once, in order, as soon as all
// before it have been committed.
func TestFollower_AnyOrder(t *testing.T) {
	t.Parallel()
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			f, batches, want := setupJoin(t, "out.txt")
			entries := f.processAll(batches)
			var heads []string
			var got bytes.Buffer
			var follower Follower
			done := map[int]bool{}
			for leg, i := range random.Perm(len(entries)) {
				previous := heads[:random.IntN(len(heads)+1)]
				key, err := ledger.WriteManifest(t.Context(), f.store, f.ref, leg, previous, entries[i:i+1], wire.Besides{})
				require.NoError(t, err)
				heads = append([]string{key}, heads[len(previous):]...)
				done[i] = true
				last := leg == len(entries)-1
				if random.IntN(2) == 0 && !last {
					continue
				}
				shown := heads
				if random.IntN(4) == 0 && !last { // a leg that has taken the rest over is not known yet
					shown = heads[:1]
				}
				report := job.Report{Store: f.spec.Store, Manifests: shown}
				require.NoError(t, follower.Copy(t.Context(), &store.Access{}, report, &got))
				if len(shown) == len(heads) {
					next := 0
					for done[next] {
						next++
					}
					require.Equal(t, strings.Join(f.items[:next*50], ""), got.String())
				}
			}
			require.Equal(t, want, got.String())
			require.EqualValues(t, 1000, follower.Next())
		})
	}
}

// A manifest is read once: how long a job has run says nothing of how long the next look takes.
func TestFollower_ReadsManifestsOnce(t *testing.T) {
	t.Parallel()
	f, batches, want := setupJoin(t, "out.txt")
	entries := f.processAll(batches)
	report := job.Report{Store: f.spec.Store}
	var follower Follower
	var got bytes.Buffer
	for leg := range entries {
		key, err := ledger.WriteManifest(t.Context(), f.store, f.ref, leg, report.Manifests, entries[leg:leg+1], wire.Besides{})
		require.NoError(t, err)
		for _, before := range report.Manifests {
			require.NoError(t, f.store.Delete(t.Context(), before))
		}
		report.Manifests = []string{key}
		require.NoError(t, follower.Copy(t.Context(), &store.Access{}, report, &got))
	}
	require.Equal(t, want, got.String())
}

// An error of the writer is the follower's.
func TestFollower_WriterFails(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupJoin(t, "out.txt")
	report := job.Report{Store: f.spec.Store, Manifests: []string{f.commit(f.processAll(batches)...)}}
	broken := errors.New("broken")
	var follower Follower
	require.ErrorIs(t, follower.Copy(t.Context(), &store.Access{}, report, failing{broken}), broken)
	require.Zero(t, follower.Next())
}

// A part that Finish has just moved into the output is not copied by the follower: whoever reads the output has it from
// there.
func TestFollower_PartIsGone(t *testing.T) {
	t.Parallel()
	f, batches, _ := setupJoin(t, "out.txt")
	entries := f.processAll(batches)
	report := job.Report{Store: f.spec.Store, State: job.Running, Manifests: []string{f.commit(entries...)}}
	require.NoError(t, f.store.Delete(t.Context(), ledger.ResultsKey(f.ref.Run, entries[3])))
	var follower Follower
	var got bytes.Buffer
	require.NoError(t, follower.Copy(t.Context(), &store.Access{}, report, &got))
	require.Equal(t, strings.Join(f.items[:150], ""), got.String())
	require.EqualValues(t, 150, follower.Next())
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A part that has gone in the middle of being copied has not moved: what has been written would be written again.
func TestCopyPart_GoesMeanwhile(t *testing.T) {
	t.Parallel()
	running := job.Report{State: job.Running}
	for _, errorRecords := range []bool{false, true} {
		e := ledger.OwnedEntry{Entry: wire.Entry{Bytes: 100, ErrBytes: 100}}
		var got bytes.Buffer
		err := copyPart(t.Context(), goneDir{}, e, errorRecords, &got)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.True(t, hasMoved(err, running))
		require.False(t, hasMoved(err, job.Report{State: job.Completed}))

		begun := goneDir{begin: `{"failure":{"error":"x"}}` + "\n"}
		err = copyPart(t.Context(), begun, e, errorRecords, &got)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NotEmpty(t, got.String())
		require.False(t, hasMoved(err, running))
	}
}

// goneDir is a directory whose objects go after so much of them has been read.
type goneDir struct {
	store.Dir
	begin string
}

func (d goneDir) Open(context.Context, string, int64, int64) (io.ReadCloser, error) {
	if d.begin == "" {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(io.MultiReader(strings.NewReader(d.begin), iotest.ErrReader(fs.ErrNotExist))), nil
}
