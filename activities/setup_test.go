package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	inputs.SpoolChunk = 256 << 10 // so that small inputs have several
	goleak.VerifyTestMain(m)
}

// fixture is a job in its own directory, with activities that run it.
type fixture struct {
	t    *testing.T
	dir  string // of inputs, output and store
	acts *Activities
	ref  wire.Ref
	born int64 // of the newest run
	spec job.Spec
	next wire.Cursor // of plan

	redrive *job.Redrive // of the run
}

// setup returns a fixture whose handler answers each item with itself. inputs are file names and contents.
func setup(t *testing.T, inputs ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	f.spec = job.Spec{Name: "test", Pool: "pool", Files: &job.Files{}, Output: f.path("out.jsonl"), Backoff: time.Millisecond}
	for i := 0; i < len(inputs); i += 2 {
		f.spec.Files.Input = append(f.spec.Files.Input, f.write(inputs[i], inputs[i+1]))
	}
	f.serve(&callstest.Handler{}, Options{})
	f.newRun("run-1")
	return f
}

// serve replaces the activities by those of another worker.
func (f *fixture) serve(h calls.Handler, o Options) *Activities {
	if f.acts != nil {
		f.acts.Close()
	}
	o.Access, o.Handler = &store.Access{}, h
	f.acts = New(o)
	acts := f.acts
	f.t.Cleanup(acts.Close)
	return acts
}

// newRun begins another run of the job.
func (f *fixture) newRun(run string) {
	f.spec = f.spec.WithDefaults()
	f.born++
	f.ref = wire.Ref{Job: f.spec.Name, Run: run, Born: f.born, Store: f.spec.Store}
	f.next = wire.Cursor{}
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) write(name, content string) string {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(filepath.Dir(f.path(name)), 0o777))
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(content), 0o666))
	return f.path(name)
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(f.path(name))
	require.NoError(f.t, err)
	return string(data)
}

// store opens the job's store.
func (f *fixture) store() store.Dir {
	f.t.Helper()
	dir, err := f.acts.opts.Access.Open(context.Background(), f.spec.Store)
	require.NoError(f.t, err)
	return dir
}

// keys lists the store.
func (f *fixture) keys(prefix string) []string {
	f.t.Helper()
	var keys []string
	for info, err := range f.store().List(context.Background(), prefix) {
		require.NoError(f.t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

// page plans the next page of at most n batches.
func (f *fixture) page(n int, resume ...string) ([]wire.Batch, wire.PlanResult) {
	f.t.Helper()
	in := wire.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Resume: resume, Batches: n}
	result, err := f.planOnce(context.Background(), in)
	require.NoError(f.t, err)
	if result.Sources != "" {
		f.ref.Sources, f.ref.Perm = result.Sources, result.Perm
	}
	f.next = result.Next
	batches, err := wire.DecodePage(result.Page)
	require.NoError(f.t, err)
	require.LessOrEqual(f.t, len(batches), n)
	return batches, result
}

// planOnce plans a page, of a redrive if the run is one.
func (f *fixture) planOnce(ctx context.Context, in wire.PlanInput) (wire.PlanResult, error) {
	if f.redrive != nil {
		return f.acts.PlanRedrive(ctx, wire.PlanRedriveInput{PlanInput: in, Redrive: *f.redrive})
	}
	return f.acts.Plan(ctx, in)
}

// finishOnce publishes the output, of a redrive if the run is one.
func (f *fixture) finishOnce(ctx context.Context, in wire.FinishInput) (wire.FinishResult, error) {
	if f.redrive != nil {
		return f.acts.FinishRedrive(ctx, wire.FinishRedriveInput{FinishInput: in, Redrive: *f.redrive})
	}
	return f.acts.Finish(ctx, in)
}

// plan plans all that is left.
func (f *fixture) plan(resume ...string) []wire.Batch {
	f.t.Helper()
	var all []wire.Batch
	for {
		batches, result := f.page(1000, resume...)
		all = append(all, batches...)
		if result.Done {
			return all
		}
	}
}

func (f *fixture) input(b wire.Batch) wire.ProcessInput {
	return wire.ProcessInput{
		Ref: f.ref, Batch: b, Grace: f.spec.Grace, Flatten: f.spec.Flatten, KeepDrops: f.spec.Dropped != "",
		Calls: wire.CallLimits{Attempts: f.spec.Attempts, ItemAttempts: f.spec.ItemAttempts, Backoff: f.spec.Backoff},
	}
}

// process runs a batch, which must not fail.
func (f *fixture) process(b wire.Batch) wire.ProcessResult {
	f.t.Helper()
	result, err := f.acts.Process(context.Background(), f.input(b))
	require.NoError(f.t, err)
	return result
}

// processAll runs batches to their ends.
func (f *fixture) processAll(batches []wire.Batch) []wire.Entry {
	f.t.Helper()
	var entries []wire.Entry
	for _, b := range batches {
		for rest := &b; rest != nil; {
			result := f.process(*rest)
			entries = append(entries, result.Entry)
			rest = result.Rest
		}
	}
	return entries
}

func (f *fixture) commit(previous []string, entries ...wire.Entry) string {
	f.t.Helper()
	result, err := f.acts.Commit(context.Background(), wire.CommitInput{Ref: f.ref, Previous: previous, Entries: entries})
	require.NoError(f.t, err)
	return result.Manifest
}

func (f *fixture) finishInput(heads ...string) wire.FinishInput {
	return wire.FinishInput{Ref: f.ref, Spec: f.spec, Manifests: heads, Planned: f.next.Item}
}

// finish publishes the output, which must not fail.
func (f *fixture) finish(heads ...string) wire.FinishResult {
	f.t.Helper()
	result, err := f.finishOnce(context.Background(), f.finishInput(heads...))
	require.NoError(f.t, err)
	return result
}

// output is what the part of an entry holds.
func (f *fixture) output(e wire.Entry) string {
	return f.object(ledger.ResultsKey(f.ref.Run, e), e.Bytes)
}

func (f *fixture) object(key string, bytes int64) string {
	f.t.Helper()
	if bytes == 0 {
		return ""
	}
	data, err := f.store().Get(context.Background(), key)
	require.NoError(f.t, err)
	require.EqualValues(f.t, bytes, len(data))
	return string(data)
}

// failures is what the error part of an entry holds.
func (f *fixture) failures(e wire.Entry) []wire.ErrorLine {
	f.t.Helper()
	var lines []wire.ErrorLine
	dec := json.NewDecoder(strings.NewReader(f.object(ledger.ErrorsKey(cmp.Or(e.Run, f.ref.Run), e), e.ErrBytes)))
	for {
		var line wire.ErrorLine
		err := dec.Decode(&line)
		if err == io.EOF {
			return lines
		}
		require.NoError(f.t, err)
		lines = append(lines, line)
	}
}

// itemsOf returns what r holds, as package records reads it.
func itemsOf(t testing.TB, r io.Reader, shape wire.Shape) []string {
	t.Helper()
	var items []string
	var chunk records.Chunk
	reader := records.NewReader(r, shape)
	for {
		err := reader.Read(&chunk, 1000, 1<<20)
		if errors.Is(err, io.EOF) {
			return items
		}
		require.NoError(t, err)
		for _, item := range chunk.Items {
			items = append(items, string(bytes.Clone(item.Raw)))
		}
	}
}

// itemsOfRange returns what a range holds.
func itemsOfRange(t testing.TB, r *inputs.Range) []string {
	t.Helper()
	var items []string
	var chunk records.Chunk
	for {
		err := r.Next(&chunk, 1000, 1<<20)
		if errors.Is(err, io.EOF) {
			return items
		}
		require.NoError(t, err)
		for _, item := range chunk.Items {
			items = append(items, string(bytes.Clone(item.Raw)))
		}
		r.Done(chunk.Items)
	}
}

func sortBatches(batches []wire.Batch) {
	slices.SortFunc(batches, func(a, b wire.Batch) int { return cmp.Compare(a.First, b.First) })
}

// gather returns the entries of the chain from heads.
func (f *fixture) gather(heads ...string) []ledger.OwnedEntry {
	f.t.Helper()
	links, err := ledger.Chain(context.Background(), f.store(), heads)
	require.NoError(f.t, err)
	var all []ledger.OwnedEntry
	require.NoError(f.t, ledger.Entries(context.Background(), f.store(), links, func(e ledger.OwnedEntry) error {
		all = append(all, e)
		return nil
	}))
	return all
}
