package activities

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func gzipped(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// lines returns n lines that begin with name.
func lines(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %d\n", name, i)
	}
	return b.String()
}

// lost plans a page whose result nobody gets.
func (f *fixture) lost(n int) wire.PlanResult {
	f.t.Helper()
	result, err := f.acts.Plan(f.t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Batches: n})
	require.NoError(f.t, err)
	return result
}

// finishAll does the batches and publishes.
func (f *fixture) finishAll(batches []wire.Batch) {
	f.t.Helper()
	f.finish(f.commit(nil, f.processAll(batches)...))
}

func setupLines(t *testing.T, inputs ...string) *fixture {
	f := setup(t, inputs...)
	f.spec.BatchItems = 10
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	return f
}

// The first page is planned again after an input has come that sorts before the others.
func TestPlan_RepeatedTakesNoCopyOfAnotherListing(t *testing.T) {
	t.Parallel()
	f := setupLines(t, "in/b.txt.gz", gzipped(t, lines("b", 30)), "in/c.txt.gz", gzipped(t, lines("c", 30)))
	f.spec.Files.Input = []string{f.path("in") + "/*.gz"}
	f.lost(1000)
	f.write("in/a.txt.gz", gzipped(t, lines("a", 30)))
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	f.finishAll(f.plan())
	require.Equal(t, lines("a", 30)+lines("b", 30)+lines("c", 30), f.read("out.jsonl"))
}

// An input is replaced before the first page is planned again.
func TestPlan_RepeatedTakesNoCopyOfAnotherContent(t *testing.T) {
	t.Parallel()
	f := setupLines(t, "in.txt.gz", gzipped(t, lines("old", 30)))
	f.lost(1000)
	f.write("in.txt.gz", gzipped(t, lines("new", 40)))
	f.finishAll(f.plan())
	require.Equal(t, lines("new", 40), f.read("out.jsonl"))
}

// The first page was planned by a worker, but another worker's listing is the one that counts.
func TestPlan_GoesOnWithAcceptedTableOnly(t *testing.T) {
	t.Parallel()
	f := setupLines(t, "in/b.txt", lines("b", 20), "in/c.txt", lines("c", 20))
	f.spec.Files.Input = []string{f.path("in") + "/*.txt"}
	f.lost(2)
	first := f.acts
	f.acts = nil
	f.write("in/a.txt", lines("a", 20))
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	batches, _ := f.page(2)
	require.Len(t, batches, 2)
	second := f.acts
	f.acts = first
	batches = append(batches, f.plan()...)
	f.acts = second
	f.finishAll(batches)
	require.Equal(t, lines("a", 20)+lines("b", 20)+lines("c", 20), f.read("out.jsonl"))
}

// smallReader gives a few bytes at a time, and counts.
type smallReader struct {
	from  io.Reader
	total int
}

func (r *smallReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p[:min(len(p), 1000)])
	r.total += n
	return n, err
}

// Attempts at the first page are given up half way through the standard input: the process continues where it was.
func TestPlan_RepeatedHalfWayThroughStdin(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input, f.spec.BatchItems = []string{"-"}, 10
	r, w := io.Pipe()
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: r})
	text := lines("line", 500)
	for i := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		planned := make(chan error, 1)
		go func() {
			_, err := f.acts.Plan(ctx, wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
			planned <- err
		}()
		_, err := io.WriteString(w, text[i*100:i*100+100])
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, <-planned, context.Canceled)
	}
	go func() {
		_, _ = io.WriteString(w, text[500:])
		_ = w.Close()
	}()
	f.lost(3)
	f.finishAll(f.plan())
	require.Equal(t, text, f.read("out.jsonl"))
}

// A process was killed while it read the standard input: that of another process is not taken in its place.
func TestPlan_OtherProcessLeavesStdinAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input, f.spec.BatchItems = []string{"-"}, 10
	r, w := io.Pipe()
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: r})
	go func() {
		line := strings.Repeat("x", 1023) + "\n"
		for range int(inputs.SpoolChunk)/len(line) + 1 {
			_, _ = io.WriteString(w, line)
		}
	}()
	f.page(2)
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: strings.NewReader("new\n")})
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Batches: 1000})
	jobtest.RequireType(t, err, job.ErrorInput)
	require.ErrorContains(t, err, "--fresh")
	require.NoError(t, w.Close())

	f.newRun("run-2")
	f.finishAll(f.plan())
	require.Equal(t, "new\n", f.read("out.jsonl"))
}

// Nobody reads the standard input before it is decided whose it is.
func TestPlan_StdinIsOfTheRunThatWasDecidedOn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input, f.spec.BatchItems = []string{"-"}, 10
	from := &smallReader{from: strings.NewReader(lines("line", 50))}
	stdin := inputs.Reserve(from)
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: stdin})
	in := wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1000}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := f.acts.Plan(ctx, in)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	stdin.For("run-2")
	_, err = f.acts.Plan(t.Context(), in)
	jobtest.RequireType(t, err, job.ErrorInput)
	require.Zero(t, from.total)
	f.newRun("run-2")
	f.finishAll(f.plan())
	require.Equal(t, lines("line", 50), f.read("out.jsonl"))
}

// The first page of an older run is late: the newer one keeps the store.
func TestPlan_OlderRunDoesNotClaimAfterNewerOne(t *testing.T) {
	t.Parallel()
	f := setupLines(t, "in.txt", lines("a", 20))
	old := f.ref
	f.newRun("run-0")
	batches := f.plan()
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: old, Spec: f.spec, Batches: 16})
	jobtest.RequireType(t, err, job.ErrorFenced)
	f.finishAll(batches)
	require.Equal(t, lines("a", 20), f.read("out.jsonl"))

	f.newRun("run-00") // of two of one age the greater ID is the newer one
	f.ref.Born = 2
	f.plan()
	require.Equal(t, wire.Ref{Run: "run-00", Born: 2}.Run, strings.Fields(f.mustGet(ledger.CurrentKey))[0])
	f.newRun("run-0")
	f.ref.Born = 2
	_, err = f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
	jobtest.RequireType(t, err, job.ErrorFenced)
}

// A copy is continued by another worker only if the input is what it was.
func TestPlan_CopyOfReplacedInputIsNotContinued(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1023) + "\n"
	content := strings.Repeat(line, int(inputs.SpoolChunk)/len(line)+8)
	f := setupLines(t, "in.txt.gz", gzipped(t, content))
	f.page(2)
	f.write("in.txt.gz", gzipped(t, "short\n"))
	require.NoError(t, os.Chtimes(f.path("in.txt.gz"), time.Time{}, time.Unix(1, 0)))
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	var err error
	for err == nil {
		var result wire.PlanResult
		result, err = f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, From: f.next, Batches: 1000})
		require.False(t, err == nil && result.Done)
		f.next = result.Next
	}
	jobtest.RequireType(t, err, job.ErrorChanged)
}
