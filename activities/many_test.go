package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// manyFiles returns a fixture with n files of a line each, and the lines.
func manyFiles(t *testing.T, n int) (*fixture, string) {
	t.Helper()
	f := setup(t)
	var all strings.Builder
	for i := range n {
		line := fmt.Sprintf("{\"id\":%d}\n", i)
		all.WriteString(line)
		f.write(fmt.Sprintf("in/%05d.jsonl", i), line[:len(line)-i%2]) // every other one without a line end
	}
	f.spec.Files.Input = []string{f.path("in")}
	return f, all.String()
}

// Files of one line become neither a batch each, nor a source each, nor a call each.
func TestPlan_ManySmallFiles(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	const n = 10_000
	f, want := manyFiles(t, n)
	f.spec.BatchItems = 1000
	batches := f.plan()
	requireTiles(t, batches, n)
	require.Less(t, len(batches), 15)
	table, err := f.store().Get(context.Background(), f.ref.Sources)
	require.NoError(t, err)
	require.Less(t, len(table), 40*n, "bytes of the source table")

	h := &callstest.Handler{}
	f.serve(h, Options{})
	f.finish(f.commit(nil, f.processAll(batches)...))
	require.Equal(t, want, f.read("out.jsonl"))
	require.Less(t, h.Calls(), 2*n/100)
}

// A job over many files that was stopped goes on with the files, and the parts of files, that are left.
func TestPlan_ManySmallFilesResumed(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	const seed, n = 11, 300
	for round := range uint64(20) {
		random := jobtest.Seeded(t, seed+round)
		f, _ := manyFiles(t, n)
		var want strings.Builder
		for i := range n { // some are empty, some have several items
			text := corpus(random, "jsonl", random.IntN(4))
			f.write(fmt.Sprintf("in/%05d.jsonl", i), text)
			for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
				if strings.TrimSpace(line) != "" {
					want.WriteString(strings.TrimSuffix(line, "\n") + "\n")
				}
			}
		}
		f.spec.BatchItems = 1 + random.Int64N(20)
		var entries []wire.Entry
		for _, b := range f.plan() {
			in := f.input(b)
			in.Take = random.Int64N(b.Count + 1) // none: all of it
			result, err := f.acts.Process(context.Background(), in)
			require.NoError(t, err)
			if random.IntN(2) == 0 {
				entries = append(entries, result.Entry)
			}
		}
		head := f.commit(nil, entries...)
		f.newRun("run-2")
		f.spec.BatchItems = 1 + random.Int64N(50)
		batches := f.plan(head)
		if len(batches) == 0 {
			continue
		}
		f.finish(f.commit([]string{head}, f.processAll(batches)...))
		require.Equal(t, want.String(), f.read("out.jsonl"))
	}
}

// An error record of an item in a bundle names its own file, and its offset there.
func TestProcess_ItemOfASmallFileIsLocated(t *testing.T) {
	t.Parallel()
	f := setup(t, "a.csv", "id,text\n1,x\n2,y\n", "b.csv", "text,id\n\nu,3\nv,4\n", "c.csv", "text,id\nw,5")
	f.spec.BatchItems = 100
	var seen []string
	f.serve(&callstest.Handler{Each: func(c *calls.Call, item calls.Item) {
		seen = append(seen, string(item.Data))
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Bad", Message: "bad"}}, 1)
	}, As: calls.Traits{Form: calls.JSONValues}}, Options{})
	batches := f.plan()
	require.Len(t, batches, 1)
	entry := f.process(batches[0]).Entry
	require.Equal(t, []string{
		`{"id":"1","text":"x"}`, `{"id":"2","text":"y"}`, `{"text":"u","id":"3"}`, `{"text":"v","id":"4"}`, `{"text":"w","id":"5"}`,
	}, seen, "each with the header of its own file")
	var places []string
	for _, line := range f.failures(entry) {
		places = append(places, fmt.Sprint(strings.TrimPrefix(line.Failure.Source, f.dir+"/"), " ", line.Failure.Offset))
	}
	require.Equal(t, []string{"a.csv 8", "a.csv 12", "b.csv 9", "b.csv 13", "c.csv 8"}, places)
}

// A file of a bundle that has changed since it was planned is not processed.
func TestProcess_SmallFileChanged(t *testing.T) {
	t.Parallel()
	f, _ := manyFiles(t, 10)
	batches := f.plan()
	changed := f.write("in/00007.jsonl", "{\"id\":8}\n")
	for _, b := range batches {
		_, err := f.acts.Process(context.Background(), f.input(b))
		if b.First <= 7 && 7 < b.End() {
			require.ErrorContains(t, err, changed)
			jobtest.RequireType(t, err, job.ErrorChanged)
		} else {
			require.NoError(t, err)
		}
	}
}

// A page of many small files ends with what it has when its time is over, also within a batch.
func TestPlan_ManySmallFilesInAHurry(t *testing.T) {
	t.Parallel()
	f, _ := manyFiles(t, 50)
	f.spec.BatchItems = 50
	in := wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16}
	in.Hurry = time.Nanosecond
	result, err := f.planOnce(context.Background(), in)
	require.NoError(t, err)
	require.False(t, result.Done)
	require.Equal(t, int64(1), result.Next.Item)
	f.ref.Sources, f.next = result.Sources, result.Next
	requireTiles(t, append([]wire.Batch{wire.Batch{Offset: 0, Length: result.Next.Offset, Count: 1}.Sealed()}, f.plan()...), 50)
}
