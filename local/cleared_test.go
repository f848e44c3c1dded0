package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

// A job whose data somebody has removed from the state is not continued for ever in vain: its own command starts it
// afresh and says so, and resume says what works.
func TestD48_TheStoreWasRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := filepath.Join(dir, "in.jsonl")
	require.NoError(t, os.WriteFile(input, []byte(jobtest.Lines(40)), 0o600))
	spec := job.Spec{Name: "job", Files: &job.Files{Input: []string{input}}, Output: filepath.Join(dir, "out.jsonl"), BatchItems: 10, OnError: job.OnErrorStop}
	var fails atomic.Bool
	var calls atomic.Int64
	handler := worker.Each(func(_ context.Context, item any) (any, error) {
		if calls.Add(1) > 30 && fails.Load() {
			return nil, &job.Error{Type: "Bad", Message: "bad"}
		}
		return item, nil
	})
	var notes []string
	o := Options{State: filepath.Join(dir, "state"), Note: func(text string) { notes = append(notes, text) }}
	o.Worker.Slots = 1
	fails.Store(true)
	report, err := Run(t.Context(), spec, handler, o)
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	require.Positive(t, report.OK)
	require.NoError(t, os.RemoveAll(StoreDir(o.State, "job")))

	_, err = Resume(t.Context(), "job", handler, job.Settings{}, o)
	require.ErrorContains(t, err, "give its own command again, which starts it afresh")
	fails.Store(false)
	calls.Store(0)
	report, err = Run(t.Context(), spec, handler, o)
	require.NoError(t, err)
	require.EqualValues(t, 40, report.OK)
	require.EqualValues(t, 40, calls.Load())
	require.Contains(t, notes, "what job had done is gone from its store: starting afresh")
}

// What another version of stint has begun is not continued, and the error says what works.
func TestD48_AStateOfAnotherVersion(t *testing.T) {
	t.Parallel()
	r := &run{spec: job.Spec{Name: "job"}}
	require.ErrorContains(t, r.explain(fmt.Errorf("asking: %w", serviceerror.NewWorkflowNotReady("Unable to query workflow due to Workflow Task in failed state."))), "--fresh")
	other := errors.New("other")
	require.Equal(t, other, r.explain(other))
	require.NoError(t, r.explain(nil))
}
