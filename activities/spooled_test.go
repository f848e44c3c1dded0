package activities

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestPlan_Compressed(t *testing.T) {
	t.Parallel()
	text := jobtest.Lines(2000)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	zst, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = zst.Close() })

	for name, content := range map[string]string{"in.jsonl.gz": gz.String(), "in.jsonl.zst": string(zst.EncodeAll([]byte(text), nil))} {
		f := setup(t, name, content)
		f.spec.BatchItems = 77
		var batches []wire.Batch
		for {
			f.serve(&callstest.Handler{}, Options{}) // the copy made so far serves every worker
			page, result := f.page(5)
			batches = append(batches, page...)
			if result.Done {
				break
			}
		}
		requireTiles(t, batches, 2000)
		require.Equal(t, strings.Split(strings.TrimSpace(text), "\n"), f.itemsIn(batches))
		require.Equal(t, text, f.processedText(batches))
	}
}

// processedText runs the batches and returns all that comes out, in order.
func (f *fixture) processedText(batches []wire.Batch) string {
	f.t.Helper()
	var out strings.Builder
	for _, e := range f.processAll(batches) {
		out.WriteString(f.output(e))
	}
	return out.String()
}

func TestPlan_CompressedBroken(t *testing.T) {
	t.Parallel()
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	random := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		fmt.Fprintln(w, random.Uint64())
	}
	require.NoError(t, w.Close())
	for name, content := range map[string]string{"empty": "", "no gzip": "plain text\n", "cut short": gz.String()[:gz.Len()/2]} {
		f := setup(t, "in.txt.gz", content)
		_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 1000})
		require.Error(t, err, name)
		jobtest.RequireType(t, err, job.ErrorInput)
	}
}

func TestPlan_Stdin(t *testing.T) {
	t.Parallel()
	text := corpus(jobtest.Seeded(t, 3), records.Text, 500)
	f := setup(t, "in.txt", "a file\n")
	f.spec.Files.Input = append(f.spec.Files.Input, "-")
	f.spec.BatchItems = 9
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{Stdin: strings.NewReader(text)})
	batches, result := f.page(10)
	require.Zero(t, result.Total, "the size of the standard input is not known beforehand")
	batches = append(batches, f.plan()...)
	head, err := records.Look(strings.NewReader(text), wire.Shape{Format: records.Text})
	require.NoError(t, err)
	want := append([]string{"a file"}, itemsOf(t, strings.NewReader(text[head.Start:]), head.Shape)...)
	requireTiles(t, batches, int64(len(want)))
	require.Equal(t, want, f.itemsIn(batches))

	complete, err := inputs.StdinComplete(t.Context(), &store.Access{}, job.Report{Store: f.spec.Store, Run: f.ref.Run, Planned: f.next.Item, PlanDone: true})
	require.NoError(t, err)
	require.True(t, complete)
}

func TestPlan_StdinOfNobody(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{"-"}
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
	jobtest.RequireType(t, err, job.ErrorInput)
	require.ErrorContains(t, err, "stint run")
}

func TestPlan_StdinOnlyOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{"-"}
	f.serve(&callstest.Handler{}, Options{Stdin: strings.NewReader("1\n")})
	f.plan()
	f.newRun("run-2")
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
	jobtest.RequireType(t, err, job.ErrorInput)
	require.ErrorContains(t, err, "--fresh")
}

// A standard input that was not read to its end cannot be gone on with.
func TestStdinComplete_NotYet(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spec.Files.Input = []string{"-"}
	r, w := io.Pipe()
	f.serve(&callstest.Handler{}, Options{Stdin: r})
	ctx, cancel := context.WithCancel(t.Context())
	planned := make(chan error, 1)
	go func() {
		_, err := f.acts.Plan(ctx, wire.PlanInput{Ref: f.ref, Spec: f.spec, Batches: 16})
		planned <- err
	}()
	_, err := io.WriteString(w, "1\n2\n")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-planned, context.Canceled, "whoever waits for the standard input can be cancelled")
	require.NoError(t, w.CloseWithError(errors.New("broken pipe")))

	access := &store.Access{}
	complete, err := inputs.StdinComplete(t.Context(), access, job.Report{Store: f.spec.Store, Run: f.ref.Run, Planned: f.next.Item, PlanDone: true})
	require.NoError(t, err)
	require.False(t, complete)
	complete, err = inputs.StdinComplete(t.Context(), access, job.Report{Store: f.spec.Store, Run: "another", Planned: 1})
	require.NoError(t, err)
	require.False(t, complete)
}

// The first page needs less than a chunk of the standard input: it must not wait for its end.
func TestPlan_StdinChunks(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1023) + "\n"
	r, w := io.Pipe()
	f := setup(t)
	f.spec.Files.Input, f.spec.BatchItems = []string{"-"}, 10
	f.spec.Files.Flush = time.Hour // a page that is not full waits for more
	f.serve(&callstest.Handler{}, Options{Stdin: r})
	written, planned := make(chan error, 1), make(chan struct{})
	go func() {
		for range int(inputs.SpoolChunk)/len(line) + 8 {
			if _, err := io.WriteString(w, line); err != nil {
				written <- err
				return
			}
		}
		<-planned
		written <- w.Close()
	}()
	batches, result := f.page(16)
	require.Len(t, batches, 16)
	require.False(t, result.Done)
	close(planned)
	batches = append(batches, f.plan()...)
	require.NoError(t, <-written)
	requireTiles(t, batches, int64(int(inputs.SpoolChunk)/len(line)+8))
	require.Len(t, f.keys("run-1/stdin-"), 3, "two chunks and the end")
}
