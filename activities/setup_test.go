package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a job in a directory of its own, with activities that run it.
type fixture struct {
	t    *testing.T
	dir  string // of inputs, output and store
	acts *Activities
	ref  Ref
	spec job.Spec
	next Cursor // of plan

	redrive *job.Redrive // of the run
}

// setup returns a fixture whose handler answers each item with itself. inputs are file names and contents.
func setup(t *testing.T, inputs ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	f.spec = job.Spec{Name: "test", Pool: "pool", Output: f.path("out.jsonl"), Backoff: time.Millisecond}
	for i := 0; i < len(inputs); i += 2 {
		f.spec.Input = append(f.spec.Input, f.write(inputs[i], inputs[i+1]))
	}
	f.serve(&fake{}, Options{})
	f.newRun("run-1")
	return f
}

// serve replaces the activities by those of another worker.
func (f *fixture) serve(h Handler, o Options) *Activities {
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
	f.ref = Ref{Job: f.spec.Name, Run: run, Store: f.spec.Store}
	f.next = Cursor{}
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
func (f *fixture) page(n int, resume ...string) ([]job.Batch, PlanResult) {
	f.t.Helper()
	result, err := f.acts.Plan(context.Background(), PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Resume: resume, Redrive: f.redrive, Batches: n})
	require.NoError(f.t, err)
	if result.Sources != "" {
		f.ref.Sources = result.Sources
	}
	f.next = result.Next
	batches, err := DecodePage(result.Page)
	require.NoError(f.t, err)
	require.LessOrEqual(f.t, len(batches), n)
	return batches, result
}

// plan plans all that is left.
func (f *fixture) plan(resume ...string) []job.Batch {
	f.t.Helper()
	var all []job.Batch
	for {
		batches, result := f.page(1000, resume...)
		all = append(all, batches...)
		if result.Done {
			return all
		}
	}
}

func (f *fixture) input(b job.Batch) ProcessInput {
	return ProcessInput{
		Ref: f.ref, Batch: b, Grace: f.spec.Grace,
		Calls: CallLimits{Attempts: f.spec.Attempts, ItemAttempts: f.spec.ItemAttempts, Backoff: f.spec.Backoff},
	}
}

// process runs a batch, which must not fail.
func (f *fixture) process(b job.Batch) ProcessResult {
	f.t.Helper()
	result, err := f.acts.Process(context.Background(), f.input(b))
	require.NoError(f.t, err)
	return result
}

// processAll runs batches to their ends.
func (f *fixture) processAll(batches []job.Batch) []Entry {
	f.t.Helper()
	var entries []Entry
	for _, b := range batches {
		for rest := &b; rest != nil; {
			result := f.process(*rest)
			entries = append(entries, result.Entry)
			rest = result.Rest
		}
	}
	return entries
}

func (f *fixture) commit(previous []string, entries ...Entry) string {
	f.t.Helper()
	result, err := f.acts.Commit(context.Background(), CommitInput{Ref: f.ref, Previous: previous, Entries: entries})
	require.NoError(f.t, err)
	return result.Manifest
}

func (f *fixture) finishInput(heads ...string) FinishInput {
	return FinishInput{Ref: f.ref, Spec: f.spec, Manifests: heads, Planned: f.next.Item, Redrive: f.redrive}
}

// finish publishes the output, which must not fail.
func (f *fixture) finish(heads ...string) FinishResult {
	f.t.Helper()
	result, err := f.acts.Finish(context.Background(), f.finishInput(heads...))
	require.NoError(f.t, err)
	return result
}

// output is what the part of an entry holds.
func (f *fixture) output(e Entry) string { return f.object(resultsKey(f.ref.Run, e), e.Bytes) }

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
func (f *fixture) failures(e Entry) []failureLine {
	f.t.Helper()
	var lines []failureLine
	dec := json.NewDecoder(strings.NewReader(f.object(errorsKey(f.ref.Run, e), e.ErrBytes)))
	for {
		var line failureLine
		err := dec.Decode(&line)
		if err == io.EOF {
			return lines
		}
		require.NoError(f.t, err)
		lines = append(lines, line)
	}
}

// requireType fails unless err is an application error of the type that is not retried.
func requireType(t testing.TB, err error, kind string) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, kind, app.Type(), "%v", err)
	require.True(t, app.NonRetryable(), "%v", err)
}

// fake is a handler. It answers each item with itself unless it is told otherwise.
type fake struct {
	traits Traits
	size   CallSize                 // default 100 items
	each   func(c *Call, item Item) // answers one item; may leave the answer out where the batch ends
	call   func(c *Call) error      // answers them all; each is then not used

	mu    sync.Mutex
	sizes []int // of the calls so far
}

func (h *fake) Traits() Traits { return h.traits }

func (h *fake) CallSize() CallSize {
	size := h.size
	return CallSize{Items: cmp.Or(size.Items, 100), Bytes: cmp.Or(size.Bytes, 1<<20)}
}

func (h *fake) Call(c *Call) error {
	h.mu.Lock()
	h.sizes = append(h.sizes, len(c.Items))
	h.mu.Unlock()
	if h.call != nil {
		return h.call(c)
	}
	for _, item := range c.Items {
		if h.each == nil {
			c.Answer.Line(item.Data)
			continue
		}
		h.each(c, item)
	}
	return nil
}

func (h *fake) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sizes)
}

// echo answers items with themselves.
func echo(c *Call) error {
	for _, item := range c.Items {
		c.Answer.Line(item.Data)
	}
	return nil
}

// seeded returns a source of randomness whose seed the test's log names.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// lines returns n different lines.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"n":`)
		b.WriteString(job.Thousands(int64(i)))
		b.WriteString("}\n")
	}
	return strings.ReplaceAll(b.String(), ",", "")
}

// itemsOf returns what a range of a source holds, as package records reads it.
func itemsOf(t testing.TB, r io.Reader, shape records.Shape) []string {
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

// fuse is a context that is cancelled with the n-th look at it: a failure at the n-th step.
type fuse struct {
	context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	left int
}

func newFuse(n int) *fuse {
	ctx, cancel := context.WithCancel(context.Background())
	return &fuse{Context: ctx, cancel: cancel, left: n}
}

func (f *fuse) Err() error {
	f.mu.Lock()
	if f.left--; f.left < 0 {
		f.cancel()
	}
	f.mu.Unlock()
	return f.Context.Err()
}

func (f *fuse) burnt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left < 0
}

// shuffled returns the elements in a random order.
func shuffled[T any](random *rand.Rand, s []T) []T {
	s = slices.Clone(s)
	random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return s
}

func sortBatches(batches []job.Batch) {
	slices.SortFunc(batches, func(a, b job.Batch) int { return cmp.Compare(a.First, b.First) })
}
