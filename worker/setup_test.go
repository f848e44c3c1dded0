package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// fixture runs a handler over items as a job does, but without Temporal.
type fixture struct {
	t       *testing.T
	dir     string
	options Options
	limits  activities.CallLimits
	batch   int64
	runs    int
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{
		t: t, dir: t.TempDir(),
		limits: activities.CallLimits{Timeout: time.Minute, Attempts: 3, ItemAttempts: 1, Backoff: time.Millisecond},
	}
}

// outcome is what has become of the items.
type outcome struct {
	output   string
	failures []job.Failure
	totals   job.Totals
}

// run runs the handler over the items of a file with this name and content.
func (f *fixture) run(h Handler, name, content string) outcome {
	f.t.Helper()
	require.NoError(f.t, h.Check(f.options))
	handler, shut, err := h.open(f.options.withDefaults())
	require.NoError(f.t, err)
	if shut != nil {
		defer shut()
	}
	acts := activities.New(activities.Options{Access: &store.Access{}, Handler: handler})
	defer acts.Close()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.WriteFile(path, []byte(content), 0o600))
	f.runs++
	output := filepath.Join(f.dir, "out"+strconv.Itoa(f.runs))
	spec := job.Spec{Name: "job", Pool: "pool", Input: []string{path}, Output: output, BatchItems: f.batch}.WithDefaults()
	return f.flow(acts, spec)
}

// flow does what the workflows have done.
func (f *fixture) flow(acts *activities.Activities, spec job.Spec) outcome {
	f.t.Helper()
	ctx := f.t.Context()
	ref := activities.Ref{Job: spec.Name, Run: "run", Store: spec.Store}
	plan, err := acts.Plan(ctx, activities.PlanInput{Ref: ref, Spec: spec, Batches: 1000})
	require.NoError(f.t, err)
	require.True(f.t, plan.Done)
	ref.Sources = plan.Sources
	batches, err := activities.DecodePage(plan.Page)
	require.NoError(f.t, err)
	var result outcome
	var entries []activities.Entry
	for _, batch := range batches {
		done, err := acts.Process(ctx, activities.ProcessInput{Ref: ref, Batch: batch, Calls: f.limits})
		require.NoError(f.t, err)
		require.Nil(f.t, done.Rest)
		entries = append(entries, done.Entry)
		result.totals.Add(done.Totals)
	}
	committed, err := acts.Commit(ctx, activities.CommitInput{Ref: ref, Entries: entries})
	require.NoError(f.t, err)
	_, err = acts.Finish(ctx, activities.FinishInput{Ref: ref, Spec: spec, Manifests: []string{committed.Manifest}, Planned: plan.Next.Item})
	require.NoError(f.t, err)
	result.output = f.read(spec.Output)
	for line := range strings.Lines(f.read(spec.Errors)) {
		var failure job.Failure
		require.NoError(f.t, json.Unmarshal([]byte(line), &failure))
		result.failures = append(result.failures, failure)
	}
	return result
}

// read returns a file's content, "" where there is none.
func (f *fixture) read(path string) string {
	f.t.Helper()
	data, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(f.t, err)
	}
	return string(data)
}

// script makes a program of a shell script; $BOX is the fixture's directory.
func (f *fixture) script(body string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, "script")
	require.NoError(f.t, os.WriteFile(path, []byte("#!/bin/sh\nBOX='"+f.dir+"'\n"+body+"\n"), 0o700))
	return path
}

// lines makes a text of lines.
func lines(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// items lists the ordinals of the failures.
func (o outcome) items() []int64 {
	var items []int64
	for _, f := range o.failures {
		items = append(items, f.Item)
	}
	slices.Sort(items)
	return items
}
