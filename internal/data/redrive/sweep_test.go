package redrive

import (
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// A redrive that a newer run has overtaken removes nothing of the runs that it has merged: the newer one may need it.
func TestSweepMerged_LeavesAllToANewerRun(t *testing.T) {
	t.Parallel()
	access := &store.Access{}
	dir, err := access.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	own, newer := wire.Ref{Run: "run-2", Born: 2}, wire.Ref{Run: "run-3", Born: 3}
	f := &finisher{Publication: &outputs.Publication{Access: access, Dir: dir, Ref: own, Links: ledger.List{}, Merged: wire.Merged{Before: []string{"run-1"}}}}
	keys := []string{"run-1/parts/000000000000000-a.out", "run-2/parts/000000000000000-b.out"}
	for _, key := range keys {
		require.NoError(t, dir.Put(t.Context(), key, nil))
	}
	there := func() (n int) {
		for _, key := range keys {
			if _, err := dir.Stat(t.Context(), key); err == nil {
				n++
			}
		}
		return n
	}
	require.NoError(t, ledger.Claim(t.Context(), own, dir))
	require.NoError(t, ledger.Claim(t.Context(), newer, dir))
	jobtest.RequireType(t, f.sweepMerged(t.Context()), job.ErrorFenced)
	require.Equal(t, 2, there())

	require.NoError(t, dir.Delete(t.Context(), ledger.CurrentKey))
	require.NoError(t, ledger.Claim(t.Context(), own, dir))
	require.NoError(t, f.sweepMerged(t.Context()))
	require.Zero(t, there())
}

// Of two attempts that have published the latest counts: it may still be removing what the one before it had.
func TestPublished_TheLatestAttemptCounts(t *testing.T) {
	t.Parallel()
	access := &store.Access{}
	dir, err := access.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	of := job.Redrive{Runs: []string{"run-1", "run-2", "run-3"}} // the completed job's, and two attempts
	p := &outputs.Publication{Access: access, Dir: dir, Ref: wire.Ref{Run: "run-4", Born: 4}}
	for _, run := range of.Runs {
		require.NoError(t, ledger.WriteDone(t.Context(), &wire.Done{}, dir, wire.Ref{Run: run}))
	}
	d, run, err := published(t.Context(), p, of)
	require.NoError(t, err)
	require.NotNil(t, d)
	require.Equal(t, "run-3", run)

	require.NoError(t, ledger.WriteDone(t.Context(), &wire.Done{}, dir, p.Ref))
	_, run, err = published(t.Context(), p, of)
	require.NoError(t, err)
	require.Equal(t, "run-4", run, "its own state before any other's")
}
