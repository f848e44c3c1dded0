package local_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// What a run has copied that was stopped before it had committed anything goes when the job has completed.
func TestRun_RemovesCopiesOfARunThatCommittedNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte("stand\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	spec := b.spec()
	spec.Files.Input = []string{filepath.Join(b.dir, "in.txt.gz")}
	require.NoError(t, os.WriteFile(spec.Files.Input[0], packed.Bytes(), 0o600))
	spec.Output, spec.Grace = filepath.Join(b.dir, "out")+"/", time.Millisecond
	copies := func() []string {
		found, err := filepath.Glob(filepath.Join(spec.Output, "*", "spool-*"))
		require.NoError(t, err)
		return found
	}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		report, err := local.Run(ctx, spec, worker.Each(func(ctx context.Context, item string) (string, error) {
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}), b.options())
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, report.Manifests)
	}
	require.Len(t, copies(), 2)
	report, err := local.Run(t.Context(), spec, worker.Each(func(_ context.Context, item string) (string, error) { return item, nil }), b.options())
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.Empty(t, copies())
	runs, err := filepath.Glob(filepath.Join(spec.Output, "*", "*"))
	require.NoError(t, err)
	for _, run := range runs {
		require.Equal(t, report.Run, filepath.Base(filepath.Dir(run)))
	}
}
