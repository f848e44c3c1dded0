package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// splittable makes a result with some value of the field k, or none.
func splittable(random *rand.Rand, ordinal int64) string {
	values := []string{`"a"`, `"b"`, `1`, `1.50`, `true`, `null`, `[1]`, `"A/b c"`, `""`, `"_none"`, `"..\\"`, `"é"`, `{"k":"x"}`}
	switch n := random.IntN(len(values) + 3); {
	case n < len(values):
		return fmt.Sprintf(`{"i":%d,"k":%s}`, ordinal, values[n])
	case n == len(values):
		return fmt.Sprintf(`{"i":%d,"K":"a","k":"b","x":{"k":"c"},"k":"a"}`, ordinal)
	case n == len(values)+1:
		return fmt.Sprintf(`{"\u006b":"a","i":%d}`, ordinal)
	}
	return fmt.Sprintf(`"k%d"`, ordinal)
}

// splitByHand returns what the files of such results must be.
func splitByHand(text, field string) map[string]string {
	known := map[string]string{
		"A/b c": "A%2Fb%20c", "": "_empty", "_none": "%5Fnone", `..\`: "%2E.%5C",
	}
	files := map[string]string{}
	for line := range strings.Lines(text) {
		var object map[string]any
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		name := "_none"
		if dec.Decode(&object) == nil {
			switch v := object[field].(type) {
			case string, json.Number, bool:
				name = fmt.Sprint(v)
				if other, ok := known[name]; ok {
					name = other
				}
			}
		}
		files[name] += line
	}
	return files
}

// splitFiles reads the files that results are split into, by what stands for the value in their names.
func (f *fixture) splitFiles() map[string]string {
	f.t.Helper()
	prefix, suffix, _ := strings.Cut(f.spec.Output, "{}")
	found, err := filepath.Glob(prefix + "*" + suffix)
	require.NoError(f.t, err)
	files := map[string]string{}
	for _, path := range found {
		name := strings.TrimSuffix(strings.TrimPrefix(path, prefix), suffix)
		if name != "_errors" {
			data, err := os.ReadFile(path)
			require.NoError(f.t, err)
			files[name] = string(data)
		}
	}
	return files
}

// setupSplit returns a job whose n results have so many values, in turns.
func setupSplit(t *testing.T, n, values int) (f *fixture, text string) {
	t.Helper()
	text = splitInput(n, values, "")
	f = setup(t, "in.jsonl", text)
	f.spec.Split, f.spec.Output, f.spec.Errors, f.spec.Store, f.spec.BatchItems = "k", f.path("out")+"/{}.jsonl", "", "", int64(n/4+1)
	f.newRun("run-1")
	return f, text
}

// splitInput is n items with so many values, in turns, and a note.
func splitInput(n, values int, note string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\": %d, \"k\": \"v%d\", \"note\":%q}\n", i, i%max(1, values), note)
	}
	return b.String()
}

// The files of a split are the single output split by hand, whatever the number of values. The parts stay, for redrives
// and readers.
func TestSplit_AnyNumberOfValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ items, values int }{{0, 0}, {5, 1}, {20, 3}, {2500, 1000}} {
		t.Run(fmt.Sprint(c.values), func(t *testing.T) {
			t.Parallel()
			f, text := setupSplit(t, c.items, c.values)
			var heads []string
			if batches := f.plan(); len(batches) > 0 {
				heads = append(heads, f.commit(nil, f.processAll(batches)...))
			}
			result := f.finish(heads...)
			files := f.splitFiles()
			require.Equal(t, splitByHand(text, "k"), files)
			require.Len(t, files, c.values)
			require.Equal(t, job.Output{
				Location: f.spec.Output, Bytes: int64(len(text)), Checksum: sumOf(text), Split: "k", Files: c.values,
			}, result.Output)
			require.Empty(t, f.keys("run-1/split-"), "nothing is left of the work")
			all, _ := f.results(job.Report{Store: f.spec.Store, Manifests: heads, Planned: int64(c.items), State: job.Completed, Output: &result.Output}, false, 0)
			require.Equal(t, text, all, "in input order")
			require.Equal(t, result, f.finish(heads...), "it can be repeated")
			require.Equal(t, files, f.splitFiles())
		})
	}
}

// With more values than files are allowed the job fails, names the limit, and has published nothing; what it has done
// is kept.
func TestSplit_TooManyValues(t *testing.T) {
	t.Parallel()
	f, text := setupSplit(t, 1001, 1001)
	head := f.commit(nil, f.processAll(f.plan())...)
	_, err := f.acts.Finish(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorOutput)
	require.ErrorContains(t, err, "more than 1000 values of k")
	require.ErrorContains(t, err, "stint results")
	require.Empty(t, f.splitFiles())
	require.Empty(t, f.keys("SPLIT"))
	all, _ := f.results(job.Report{Store: f.spec.Store, Manifests: []string{head}, Planned: 1001, State: job.Failed}, false, 0)
	require.Equal(t, text, all)
}

// Results that do not fit into memory go through the store, and come out in their order.
func TestSplit_ThroughTheStore(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("230 MB of results")
	}
	f, _ := setupSplit(t, 900, 3)
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		c.Answer.Line(append(bytes.TrimSuffix(item.Data, []byte("}")), `,"x":"`+strings.Repeat("x", 256<<10)+`"}`...))
	}}, Options{})
	head := f.commit(nil, f.processAll(f.plan())...)
	result := f.finish(head)
	text, _ := f.results(job.Report{Store: f.spec.Store, Manifests: []string{head}, Planned: 900, State: job.Completed, Output: &result.Output}, false, 0)
	require.Greater(t, len(text), 128<<20, "more than is held")
	want, got := splitByHand(text, "k"), f.splitFiles()
	for name, content := range want {
		require.True(t, content == got[name], name)
	}
	require.Len(t, got, 3)
	require.Empty(t, f.keys("run-1/split-"))
}

// G2: whatever step of Finish fails, between two files, too: each file is whole, of before or of now, and a repetition
// ends with all of them, and without those of an earlier run that this one does not have.
func TestSplit_RepeatableAtEveryStep(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	between := 0 // failures with some files published
	for step := 0; ; step++ {
		f, text := setupSplit(t, 24, 6)
		f.spec.Dropped = f.path("dropped.jsonl")
		f.finishEarlier(t, text)
		want := splitByHand(text, "k")
		before := f.splitFiles()
		head := f.commit(nil, f.processAll(f.plan())...)
		ctx := jobtest.NewFuse(step)
		result, err := f.acts.Finish(ctx, f.finishInput(head))
		if !ctx.Burnt() {
			require.NoError(t, err)
			require.Equal(t, want, f.splitFiles())
			require.Greater(t, step, 20, "there were steps to fail at")
			require.Greater(t, between, 3)
			return
		}
		published := 0
		for name, content := range f.splitFiles() {
			require.Contains(t, []string{want[name], before[name]}, content, "step %d, %s", step, name)
			if content == want[name] {
				published++
			}
		}
		if published > 0 && published < len(want) {
			between++
		}
		require.Empty(t, f.temporariesIn("out"), "step %d", step)
		again := f.finish(head)
		require.Equal(t, want, f.splitFiles(), "step %d", step)
		if err == nil {
			require.Equal(t, result, again)
		}
		require.Equal(t, again, f.finish(head), "and once more")
		require.Equal(t, want, f.splitFiles())
	}
}

// finishEarlier has an earlier run of the job publish files: some that the next run has, too, and one that it does not
// have.
func (f *fixture) finishEarlier(t *testing.T, text string) {
	t.Helper()
	input := f.read("in.jsonl")
	f.write("in.jsonl", `{"k":"v1","old":true}`+"\n"+`{"k":"old"}`+"\n")
	f.newRun("run-0")
	f.finish(f.commit(nil, f.processAll(f.plan())...))
	require.Len(t, f.splitFiles(), 2)
	f.write("in.jsonl", input)
	require.Equal(t, text, input)
	f.newRun("run-1")
}

// What a run has published that was ended between two files is not among the files of the next one, which has other
// values.
func TestSplit_AfterOneThatWasEndedHalfWay(t *testing.T) {
	t.Parallel()
	half := 0
	for step := 0; ; step++ {
		f, _ := setupSplit(t, 12, 6)
		head := f.commit(nil, f.processAll(f.plan())...)
		ctx := jobtest.NewFuse(step)
		_, _ = f.acts.Finish(ctx, f.finishInput(head))
		if !ctx.Burnt() {
			require.Greater(t, half, 3)
			return
		}
		if n := len(f.splitFiles()); n > 0 && n < 6 {
			half++
		}
		f.write("in.jsonl", "{\"k\":\"v1\"}\n{\"k\":\"w\"}\n")
		f.newRun("run-2")
		f.finish(f.commit(nil, f.processAll(f.plan())...))
		require.Equal(t, map[string]string{"v1": "{\"k\":\"v1\"}\n", "w": "{\"k\":\"w\"}\n"}, f.splitFiles(), "step %d", step)
	}
}

func (f *fixture) temporariesIn(dir string) []string {
	f.t.Helper()
	found, err := filepath.Glob(f.path(dir) + "/.*")
	require.NoError(f.t, err)
	return found
}

// Two executions of Finish at once both succeed, at whatever step of the second the first one begins.
func TestSplit_TwoFinishesAtOnce(t *testing.T) {
	t.Parallel()
	for step := 0; ; step++ {
		f, text := setupSplit(t, 24, 6)
		f.finishEarlier(t, text)
		head := f.commit(nil, f.processAll(f.plan())...)
		ctx := &interrupted{Context: t.Context(), left: step}
		var first wire.FinishResult
		ctx.do = func() { first = f.finishThrough(t.Context(), []string{head}) }
		second := f.finishThrough(ctx, []string{head})
		begun := ctx.begun()
		require.Equal(t, splitByHand(text, "k"), f.splitFiles(), "step %d", step)
		if !begun {
			require.Greater(t, step, 20)
			return
		}
		require.Equal(t, first, second, "step %d", step)
	}
}

// An input that a file of the split could replace is refused, however it was found, and is as it was.
func TestSplit_OverItsInputs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("data/a.jsonl", `{"k":"a"}`)
	for _, input := range []string{"data", "data/a*"} {
		f.spec.Files.Input, f.spec.Split, f.spec.Output, f.spec.Errors, f.spec.Store = []string{f.path(input)}, "k", f.path("data/{}.jsonl"), "", ""
		f.newRun("run-1")
		require.NoError(t, f.spec.Validate(), "that does not show yet")
		_, err := f.planOnce(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1})
		jobtest.RequireType(t, err, job.ErrorInput)
		require.ErrorContains(t, err, "data/a.jsonl could also be a file of the output")
		require.Equal(t, `{"k":"a"}`, f.read("data/a.jsonl"))
	}
}

// A run that was overtaken publishes no file of its split.
func TestSplit_Fenced(t *testing.T) {
	t.Parallel()
	f, _ := setupSplit(t, 20, 3)
	head := f.commit(nil, f.processAll(f.plan())...)
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9 born 9", nil))
	_, err := f.acts.Finish(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Empty(t, f.splitFiles())
}

// In a bucket, where nothing has a temporary name, the files are the same.
func TestSplit_InABucket(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := ""
	for i := range 30 {
		text += fmt.Sprintf("{\"k\":%d}\n", i%3)
	}
	f.inBucket("in.jsonl", text)
	f.spec.Split, f.spec.Output = "k", strings.TrimSuffix(f.spec.Output, "out.jsonl")
	f.spec.Store, f.spec.Errors = "", ""
	f.newRun("run-1")
	require.NoError(t, f.spec.Validate())
	head := f.commit(nil, f.processAll(f.plan())...)
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, "run-9 born 9", nil))
	_, err := f.acts.Finish(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorFenced)
	require.Empty(t, f.fetch(strings.Replace(f.spec.Output, "{}", "0", 1)), "another run has claimed the store")
	require.NoError(t, f.store().Claim(t.Context(), ledger.CurrentKey, fmt.Sprint("run-1 born ", f.ref.Born), nil))
	for range 2 {
		require.Equal(t, 3, f.finish(head).Output.Files)
		for name, content := range splitByHand(text, "k") {
			require.Equal(t, content, f.fetch(strings.Replace(f.spec.Output, "{}", name, 1)))
		}
	}
}

// G2 in a bucket: each file is whole, of before or of now, whatever step fails.
func TestSplit_RepeatableInABucket(t *testing.T) {
	t.Parallel()
	for step := 0; ; step++ {
		f := setup(t)
		f.inBucket("in.jsonl", splitInput(24, 6, "old"))
		bucket := strings.TrimSuffix(f.spec.Output, "out.jsonl")
		in, err := f.acts.opts.Access.Open(t.Context(), strings.TrimSuffix(f.spec.Files.Input[0], "/in.jsonl"))
		require.NoError(t, err)
		f.spec.Split, f.spec.Output, f.spec.Store, f.spec.Errors = "k", fmt.Sprint(bucket, step, "/"), "", ""
		f.newRun("run-0")
		f.finish(f.commit(nil, f.processAll(f.plan())...))
		text := splitInput(24, 5, "new")
		require.NoError(t, in.Put(t.Context(), "in.jsonl", []byte(text)))
		f.newRun("run-1")
		head := f.commit(nil, f.processAll(f.plan())...)
		faulty := &faultyAccess{Access: f.acts.opts.Access}
		faulty.left.Store(int64(step))
		f.acts.opts.Access = faulty
		_, err = f.acts.Finish(t.Context(), f.finishInput(head))
		f.acts.opts.Access = faulty.Access
		want, before := splitByHand(text, "k"), splitByHand(splitInput(24, 6, "old"), "k")
		fetch := func(name string) string { return f.fetch(strings.Replace(f.spec.Output, "{}", name, 1)) }
		for name := range before {
			require.Contains(t, []string{want[name], before[name]}, fetch(name), "step %d, %s", step, name)
		}
		if err != nil {
			f.finish(head)
		}
		for name := range before { // which has one more
			require.Equal(t, want[name], fetch(name), "step %d, %s", step, name)
		}
		if err == nil {
			require.Greater(t, step, 10, "there were steps to fail at")
			return
		}
	}
}

// faultyAccess opens stores that fail for good, in everything that writes, once so much has been written.
type faultyAccess struct {
	ledger.Access
	left atomic.Int64
}

func (a *faultyAccess) Open(ctx context.Context, location string) (store.Dir, error) {
	dir, err := a.Access.Open(ctx, location)
	return &faultyDir{dir, a}, err
}

func (a *faultyAccess) fault() error {
	if a.left.Add(-1) < 0 {
		return fs.ErrPermission
	}
	return nil
}

type faultyDir struct {
	store.Dir
	access *faultyAccess
}

func (d *faultyDir) Put(ctx context.Context, key string, data []byte) error {
	if err := d.access.fault(); err != nil {
		return err
	}
	return d.Dir.Put(ctx, key, data)
}

func (d *faultyDir) Delete(ctx context.Context, key string) error {
	if err := d.access.fault(); err != nil {
		return err
	}
	return d.Dir.Delete(ctx, key)
}

func (d *faultyDir) Create(ctx context.Context, key string) (store.Writer, error) {
	w, err := d.Dir.Create(ctx, key)
	return &faultyWriter{w, d.access}, err
}

type faultyWriter struct {
	store.Writer
	access *faultyAccess
}

func (w *faultyWriter) Commit() error {
	if err := w.access.fault(); err != nil {
		w.Abort()
		return err
	}
	return w.Writer.Commit()
}

// Dropped items go to their file as a filter would be given them, byte for byte, in their order: CSV as objects.
func TestDropped_HasTheItems(t *testing.T) {
	t.Parallel()
	f := setup(t, "a.txt", "keep\nno \xff\r\n\"x\"\nno <&>\n", "b.csv", "id,name\n1,\"a,b\"\n2,no\n", "c.jsonl", "{ \"no\" : 1.50 }\n{\"bad\":\n3\n")
	f.spec.Dropped, f.spec.BatchItems = f.path("dropped"), 2
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Each: func(c *calls.Call, item calls.Item) {
		if bytes.Contains(item.Data, []byte("no")) {
			c.Answer.Drop()
			return
		}
		c.Answer.Line(item.Data)
	}}, Options{})
	head := f.commit(nil, f.processAll(f.plan())...)
	result := f.finish(head)
	require.Equal(t, "no \xff\r\nno <&>\n"+`{"id":"2","name":"no"}`+"\n"+`{ "no" : 1.50 }`+"\n", f.read("dropped"))
	require.Equal(t, f.spec.Dropped, result.Output.Dropped)
	require.EqualValues(t, 4, result.Books.Dropped)
	require.NoError(t, os.Remove(f.path("dropped")))
	require.Equal(t, result, f.finish(head), "a repetition restores it")
	require.Contains(t, f.read("dropped"), "no <&>")
}
