package local

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
)

// R28: a state that is used again and again keeps the history of the latest run of a job, and no parts of results that
// have been printed.
func TestR28_WhatACompletedJobLeaves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, input := filepath.Join(dir, "state"), filepath.Join(dir, "in.jsonl")
	require.NoError(t, os.WriteFile(input, []byte(jobtest.Lines(100)), 0o600))
	handler := worker.Each(func(_ context.Context, item any) (any, error) { return item, nil })
	run := func(spec job.Spec) (report job.Report, results string) {
		var out bytes.Buffer
		report, err := Run(t.Context(), spec, handler, Options{State: state, Results: &out, Note: func(string) {}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return report, out.String()
	}
	parts := func(report job.Report) []string {
		found, err := filepath.Glob(filepath.Join(report.Store, "*", "parts", "*"))
		require.NoError(t, err)
		return found
	}
	spec := job.Spec{Name: "job", Files: &job.Files{Input: []string{input}}, Errors: filepath.Join(dir, "errors.jsonl")}
	_, results := run(spec)
	require.NotEmpty(t, results)
	latest, again := run(spec)
	require.Equal(t, results, again)
	require.Empty(t, parts(latest))

	server, err := devserver.Start(t.Context(), devserver.Options{Dir: devserver.StateDir(state), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer server.Stop()
	c, err := sdkclient.DialContext(t.Context(), sdkclient.Options{HostPort: server.Address(), Namespace: server.Namespace()})
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool { // the server removes them by itself
		found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = 'job'"})
		return err == nil && len(found.GetExecutions()) == 1 && found.GetExecutions()[0].GetExecution().GetRunId() == latest.Run
	}, 10*time.Minute, 20*time.Millisecond)
}

// Printed parts of the runs that the last one continues go with its own; what says who owns the store, and what was
// published, stays.
func TestR28_PrintedPartsOfEarlierRuns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	kept := []string{"CURRENT", "PRINTED", "last/DONE"}
	for _, key := range append([]string{
		"first/DONE", "first/manifests/a.jsonl", "first/parts/000000000000000-x.out", "last/manifests/b.jsonl", "last/parts/000000000000007-y.out", "last/sources-z.json",
	}, kept...) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, key)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, key), []byte("x"), 0o666))
	}
	require.NoError(t, new(run).removePrinted(t.Context(), job.Report{Run: "last", Store: root}))
	var left []string
	require.NoError(t, filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, err = filepath.Rel(root, name)
			left = append(left, filepath.ToSlash(name))
		}
		return err
	}))
	require.ElementsMatch(t, kept, left)
	require.NoDirExists(t, filepath.Join(root, "first"))
}
