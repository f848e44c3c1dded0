package activities

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// G2, S11, S12: whatever the earlier runs have had accepted, the plan is exactly the complement.
func TestPlan_ResumeSkipsExactlyWhatIsAccepted(t *testing.T) {
	t.Parallel()
	const seed = 1000
	exts := []string{"jsonl", "csv", "txt", "txt.gz"}
	for round := range jobtest.Rounds(40) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			ext := exts[round%uint64(len(exts))]
			var files []string
			for i := range 1 + random.IntN(3) {
				format := map[string]wire.Format{"jsonl": records.JSONL, "csv": records.CSV}[ext]
				text := corpus(random, format, 5+random.IntN(80))
				if strings.HasSuffix(ext, ".gz") {
					var gz bytes.Buffer
					w := gzip.NewWriter(&gz)
					_, _ = io.WriteString(w, text)
					require.NoError(t, w.Close())
					text = gz.String()
				}
				files = append(files, fmt.Sprintf("in-%d.%s", i, ext), text)
			}
			f := setup(t, files...)
			stopAfter := 0 // items of a batch; 0: all
			h := &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 1}}
			f.serve(h, Options{})
			var accepted []wire.Entry
			var heads []string
			for run := 1; ; run++ {
				f.newRun(fmt.Sprintf("run-%d", run))
				f.spec.BatchItems = 1 + random.Int64N(9)
				batches, first := f.page(1+random.IntN(20), heads...)
				require.EqualValues(t, count(accepted), first.Resumed.Done())
				for !first.Done && random.IntN(5) > 0 || run == 6 && !first.Done {
					if random.IntN(3) == 0 {
						f.serve(h, Options{})
					}
					var page []wire.Batch
					page, first = f.page(1+random.IntN(20), heads...)
					batches = append(batches, page...)
				}
				if run == 6 { // the last run does what is left
					all := accepted
					for _, b := range batches {
						all = append(all, wire.Entry{Batch: b})
					}
					requireTiles(t, batchesOf(all), f.next.Item)
					heads = append(heads, f.commit(nil, f.processAll(batches)...))
					result := f.finish(heads...)
					require.EqualValues(t, f.next.Item, result.Books.OK)
					return
				}
				// Some of what was planned is accepted: whole batches, and beginnings of batches.
				var now []wire.Entry
				for _, b := range batches {
					if random.IntN(2) == 0 {
						continue
					}
					stopAfter = random.IntN(int(b.Count)) // 0: all
					entry := f.processSome(b, stopAfter)
					now = append(now, entry)
				}
				accepted = append(accepted, now...)
				for _, group := range jobtest.Groups(random, jobtest.Shuffled(random, now)) {
					// Manifests name earlier ones, or do not, as legs come to overlap.
					var previous []string
					if random.IntN(2) == 0 {
						previous, heads = heads, nil
					}
					heads = append(heads, f.commit(previous, group...))
				}
			}
		})
	}
}

func count(entries []wire.Entry) int64 {
	var n int64
	for _, e := range entries {
		n += e.Count
	}
	return n
}

// batchesOf returns the ranges of entries in order.
func batchesOf(entries []wire.Entry) []wire.Batch {
	batches := make([]wire.Batch, len(entries))
	for i, e := range entries {
		batches[i] = e.Batch
	}
	sortBatches(batches)
	return batches
}

// processSome runs a batch that ends early, after n of its items; 0: at its end.
func (f *fixture) processSome(b wire.Batch, n int) wire.Entry {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := 0
	h := f.acts.opts.Handler.(*callstest.Handler)
	h.Do = func(c *calls.Call) error {
		if n > 0 && done == n {
			cancel()
			for !c.Ending() {
				c.Wait(20) // ends with the batch
			}
			return nil
		}
		done++
		return callstest.Echo(c)
	}
	defer func() { h.Do = nil }()
	result, err := f.acts.Process(ctx, f.input(b))
	require.NoError(f.t, err)
	want := b.Count
	if n > 0 {
		want = int64(n)
	}
	require.Equal(f.t, want, result.Entry.Count)
	return result.Entry
}

func TestPlan_ResumeOfMissingManifest(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.jsonl", jobtest.Lines(1))
	_, err := f.acts.Plan(t.Context(), wire.PlanInput{Ref: f.ref, Spec: f.spec, Resume: []string{"run-0/manifests/gone.jsonl"}, Batches: 16})
	require.Error(t, err)
	jobtest.RequireType(t, err, job.ErrorBooks)
}

// D1: what a manifest says of a damaged batch is lost when the job is resumed: its items, and no others, are planned
// and run again, and the job completes.
func TestD1_ResumeRunsWhatADamagedEntryNames(t *testing.T) {
	t.Parallel()
	f := setup(t, "in.txt", strings.Repeat("line\n", 30))
	f.spec.BatchItems = 10
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	batches := f.plan()
	require.Len(t, batches, 3)
	head := f.commit(nil, f.processAll(batches)...)
	f.rewrite(head, func(text string) string {
		damaged := strings.Replace(text, `"o":50,`, "", 1)
		require.NotEqual(t, text, damaged)
		return damaged
	})
	_, err := f.finishOnce(t.Context(), f.finishInput(head))
	jobtest.RequireType(t, err, job.ErrorBooks)

	f.newRun("run-2")
	again := f.plan(head)
	require.Equal(t, batches[1:2], again)
	result := f.finish(head, f.commit(nil, f.processAll(again)...))
	require.EqualValues(t, 30, result.Books.OK)

	_, err = f.acts.Process(t.Context(), f.input(batches[1].Upto(5, 25)))
	require.NoError(t, err)
	moved := batches[1]
	moved.Offset = 0
	_, err = f.acts.Process(t.Context(), f.input(moved))
	jobtest.RequireType(t, err, job.ErrorDamaged)
}
