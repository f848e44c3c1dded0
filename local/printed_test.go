package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// fullWriter takes a number of bytes.
type fullWriter struct{ left int }

var errFull = errors.New("no space left on device")

func (w *fullWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// A job whose results were not printed as a whole has not finished: the same command prints what is kept, and runs
// nothing.
func TestD24_ResultsThatWereNotPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := filepath.Join(dir, "in.jsonl")
	require.NoError(t, os.WriteFile(input, []byte(jobtest.Lines(100)), 0o600))
	var calls atomic.Int64
	handler := worker.Each(func(_ context.Context, item any) (any, error) {
		calls.Add(1)
		return item, nil
	})
	var notes []string
	spec := job.Spec{Name: "job", Files: &job.Files{Input: []string{input}}, Errors: filepath.Join(dir, "errors.jsonl"), BatchItems: 20}
	run := func(results io.Writer) error {
		notes = nil
		o := Options{State: filepath.Join(dir, "state"), Results: results, Note: func(text string) { notes = append(notes, text) }}
		_, err := Run(t.Context(), spec, handler, o)
		return err
	}
	for range 2 {
		err := run(&fullWriter{left: 500})
		require.ErrorIs(t, err, errFull)
		require.ErrorContains(t, err, "the same command prints them")
		require.EqualValues(t, 100, calls.Load())
	}
	var out bytes.Buffer
	_, err := Resume(t.Context(), "job", handler, job.Settings{}, Options{State: filepath.Join(dir, "state"), Results: &fullWriter{}})
	require.ErrorIs(t, err, errFull)
	require.NoError(t, run(&out))
	require.EqualValues(t, 100, calls.Load())
	require.Equal(t, 100, strings.Count(out.String(), "\n"))
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "printing those that are kept (--fresh runs it anew)")

	require.NoError(t, run(io.Discard))
	require.EqualValues(t, 200, calls.Load(), "finished, it starts afresh")
	require.Error(t, run(&fullWriter{}))
	require.NoError(t, os.WriteFile(input, []byte(jobtest.Lines(101)), 0o600))
	require.Error(t, run(&fullWriter{}))
	require.Contains(t, notes[0], "an input has changed since, or is gone (--fresh runs it anew)")
	require.NoError(t, os.WriteFile(input, []byte(jobtest.Lines(100)), 0o600))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "state", "jobs")))
	require.NoError(t, run(io.Discard))
	require.EqualValues(t, 400, calls.Load(), "nothing is kept")
}

// The output is compressed while the job runs, part by part.
func TestD27_CompressedWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := filepath.Join(dir, "in.jsonl")
	require.NoError(t, os.WriteFile(input, []byte(jobtest.Lines(500)), 0o600))
	spec := job.Spec{Name: "job", Files: &job.Files{Input: []string{input}}, Output: filepath.Join(dir, "out.jsonl.zst"), BatchItems: 20}
	report, err := Run(t.Context(), spec, worker.Each(func(_ context.Context, item any) (any, error) { return item, nil }), Options{})
	require.NoError(t, err)
	raw, err := os.ReadFile(spec.Output)
	require.NoError(t, err)
	require.EqualValues(t, len(raw), report.Output.Bytes)
	plain, err := outputs.Decode(spec.Output, io.NopCloser(bytes.NewReader(raw)))
	require.NoError(t, err)
	text, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.JSONEq(t, "["+strings.ReplaceAll(strings.TrimSpace(jobtest.Lines(500)), "\n", ",")+"]", "["+strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",")+"]")
}
