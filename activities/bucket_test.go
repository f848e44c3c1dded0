package activities

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// inBucket moves a fixture's input, output and store into a bucket that nothing else uses.
func (f *fixture) inBucket(name, input string) {
	f.t.Helper()
	bucket := "mem://" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(f.t.Name()))
	dir, err := f.acts.opts.Access.Open(context.Background(), bucket+"/in")
	require.NoError(f.t, err)
	require.NoError(f.t, dir.Put(context.Background(), name, []byte(input)))
	f.spec = job.Spec{Name: "test", Pool: "pool", Backoff: f.spec.Backoff, Files: &job.Files{Input: []string{bucket + "/in/" + name}}, Output: bucket + "/out/out.jsonl", BatchItems: 8}
	f.newRun("run-1")
}

// fetch reads an object; missing is "".
func (f *fixture) fetch(location string) string {
	f.t.Helper()
	r, err := f.acts.opts.Access.OpenInput(context.Background(), location, 0, -1)
	if err != nil {
		return ""
	}
	plain, err := outputs.Decode(location, r)
	require.NoError(f.t, err)
	defer plain.Close()
	data, err := io.ReadAll(plain)
	require.NoError(f.t, err)
	return string(data)
}

// All that is done in directories is done in buckets, too: plan, process, stop, resume and finish.
func TestBucket_WholeJob(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.inBucket("in.jsonl", jobtest.Lines(100))
	f.serve(&callstest.Handler{Size: calls.CallSize{Items: 3}, Each: func(c *calls.Call, item calls.Item) {
		if item.Ordinal%10 == 7 {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "seven"}}, 1)
			return
		}
		c.Answer.Line(item.Data)
	}}, Options{})
	batches := f.plan()
	first := f.processAll(batches[:4])
	head := f.commit(nil, first...)

	f.newRun("run-2")
	batches, planned := f.page(1000, head)
	require.EqualValues(t, 32, planned.Resumed.Done())
	requireTiles(t, batchesOf(append(first, entriesOf(batches)...)), 100)
	heads := []string{f.commit([]string{head}, f.processAll(batches)...)}

	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9", nil))
	_, err := f.acts.Finish(t.Context(), f.finishInput(heads...))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Empty(t, f.fetch(f.spec.Output))
	require.Empty(t, f.fetch(f.spec.Errors))

	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, fmt.Sprint("run-2 born ", f.ref.Born), nil))
	result := f.finish(heads...)
	var want strings.Builder
	for i, line := range strings.SplitAfter(jobtest.Lines(100), "\n") {
		if i%10 != 7 {
			want.WriteString(line)
		}
	}
	require.Equal(t, want.String(), f.fetch(f.spec.Output))
	require.Equal(t, 10, strings.Count(f.fetch(f.spec.Errors), "\n"))
	require.Equal(t, sumOf(want.String()), result.Output.Checksum)
	require.Equal(t, result, f.finish(heads...), "it can be repeated")
	for _, key := range f.keys("") {
		require.False(t, strings.HasSuffix(key, ".out"), "%s is in the output now", key)
	}
}

func entriesOf(batches []wire.Batch) []wire.Entry {
	entries := make([]wire.Entry, len(batches))
	for i, b := range batches {
		entries[i].Batch = b
	}
	return entries
}

// An object that was replaced has another ETag.
func TestBucket_InputChanged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.inBucket("in.txt", strings.Repeat("line\n", 20))
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	batch := f.plan()[0]
	dir, err := f.acts.opts.Access.Open(t.Context(), strings.TrimSuffix(f.spec.Files.Input[0], "/in.txt"))
	require.NoError(t, err)
	require.NoError(t, dir.Put(t.Context(), "in.txt", []byte(strings.Repeat("LINE\n", 20))))
	_, err = f.acts.Process(t.Context(), f.input(batch))
	jobtest.RequireType(t, err, job.ErrorChanged)
}

// A stop must not keep a part from being uploaded.
func TestBucket_StopGivesTheRest(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.inBucket("in.txt", strings.Repeat("line\n", 50))
	f.spec.BatchItems = 50
	reached := make(chan struct{})
	f.serve(stopAt(10, reached), Options{})
	batch := f.plan()[0]
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-reached; stop() }()
	result, err := f.acts.Process(ctx, f.input(batch))
	require.NoError(t, err)
	f.requireRest(batch, result, 10)
}
