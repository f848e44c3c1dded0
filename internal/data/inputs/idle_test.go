package inputs

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// countingAccess counts the inputs that are open.
type countingAccess struct {
	ledger.Access
	open atomic.Int32
}

type countedReader struct {
	io.ReadCloser
	open *atomic.Int32
}

func (r countedReader) Close() error {
	r.open.Add(-1)
	return r.ReadCloser.Close()
}

func (a *countingAccess) OpenInput(ctx context.Context, url string, offset, length int64) (io.ReadCloser, error) {
	r, err := a.Access.OpenInput(ctx, url, offset, length)
	if err != nil {
		return nil, err
	}
	a.open.Add(1)
	return countedReader{r, &a.open}, nil
}

// A worker that has planned a page, and not the one after it, does not keep the input open.
func TestPlan_ClosesWhatNobodyGoesOnWith(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "in.txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("some line\n", 1<<20)), 0o666))
	synctest.Test(t, func(t *testing.T) {
		access := &countingAccess{Access: &store.Access{}}
		n := New(access, nil)
		defer n.Close()
		dir, err := access.Open(t.Context(), filepath.Dir(file)+"/store")
		require.NoError(t, err)
		in := wire.PlanInput{Spec: job.Spec{Files: &job.Files{Input: []string{file}}, BatchItems: 1000}.WithDefaults(), Ref: wire.Ref{Run: "run"}, Batches: 2}
		first, err := n.Plan(t.Context(), dir, in, n)
		require.NoError(t, err)
		require.EqualValues(t, 1, access.open.Load(), "for the next page")

		time.Sleep(plannerIdle - time.Second)
		in.Ref.Sources, in.From = first.Sources, first.Next
		second, err := n.Plan(t.Context(), dir, in, n)
		require.NoError(t, err)
		require.EqualValues(t, 1, access.open.Load())
		time.Sleep(plannerIdle - time.Second)
		require.EqualValues(t, 1, access.open.Load(), "its time begins anew with each page")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, access.open.Load())

		in.From = second.Next // as if nothing had been closed
		third, err := n.Plan(t.Context(), dir, in, n)
		require.NoError(t, err)
		require.EqualValues(t, 6000, third.Next.Item)
	})
}
