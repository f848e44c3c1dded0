package page

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
)

// Error records that could not be read are read later, though the job has ended; but not at each look.
func TestFailures_AreReadAgain(t *testing.T) {
	t.Parallel()
	access := &store.Access{}
	defer access.Close()
	p := &Page{options: Options{Access: access}}
	path := filepath.Join(t.TempDir(), "errors.jsonl")
	r := job.Report{State: job.Completed, Output: &job.Output{Location: path, Errors: path}}
	r.Failed = 1
	var known memory
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p.failures(gone, &known, r)
	require.Zero(t, known.failuresAt, "nobody waited for it")

	require.NotEmpty(t, p.failures(t.Context(), &known, r).Trouble)
	require.NoError(t, os.WriteFile(path, []byte(`{"item":7,"input":"bad","error":{"type":"E","message":"m"},"attempts":1}`+"\n"), 0o600))
	found := p.failures(t.Context(), &known, r)
	require.NotEmpty(t, found.Trouble, "not at each look")
	require.True(t, found.Partial)
	known.failuresAt = time.Now()
	found = p.failures(t.Context(), &known, r)
	require.Empty(t, found.Trouble)
	require.False(t, found.Partial)
	require.Len(t, found.Groups, 1)
	require.Equal(t, int64(7), found.Groups[0].Examples[0].Item)
	require.NoError(t, os.Remove(path))
	known.failuresAt = time.Now()
	require.Equal(t, found, p.failures(t.Context(), &known, r), "once is enough")
}
