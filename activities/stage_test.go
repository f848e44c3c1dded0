package activities

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/calls/callstest"
	"github.com/stint-run/stint/internal/jobtest"
	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// fate is what becomes of an item in a stage: it fails, it is dropped, or it passes.
type fate int

const (
	passes fate = iota
	fails
	dropped
)

// fateOf decides it, of 10 items for each of them so many.
func fateOf(stage int, item int64, failing, dropping uint32) fate {
	h := fnv.New32a()
	fmt.Fprint(h, stage, "/", item)
	switch n := h.Sum32() % 10; {
	case n < failing:
		return fails
	case n < failing+dropping:
		return dropped
	}
	return passes
}

// pipeline runs batches through stages of one worker, whose handler adds the stage's name to each item.
type pipeline struct {
	*fixture
	stages            int
	failing, dropping uint32
	stage             int // of the execution that runs
	seen              [][]int64
}

func setupPipeline(t *testing.T, stages int, failing, dropping uint32, inputs ...string) *pipeline {
	p := &pipeline{fixture: setup(t, inputs...), stages: stages, failing: failing, dropping: dropping, seen: make([][]int64, stages)}
	for stage := range stages {
		p.spec.Stages = append(p.spec.Stages, job.Stage{Name: stageName(stage), Pool: p.spec.Pool})
	}
	p.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 3}, Each: p.each}, Options{})
	return p
}

func (p *pipeline) each(c *calls.Call, item calls.Item) {
	p.seen[p.stage] = append(p.seen[p.stage], item.Ordinal)
	switch fateOf(p.stage, item.Ordinal, p.failing, p.dropping) {
	case fails:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Broken", Message: stageName(p.stage)}}, 1)
	case dropped:
		c.Answer.Drop()
	default:
		c.Answer.Line(append(bytes.Clone(item.Data), stageName(p.stage)...))
	}
}

func stageName(stage int) string { return string(rune('a' + stage)) }

// step runs one execution of a batch, of which take items are done; 0: all.
func (p *pipeline) step(b protocol.Batch, take int64) ProcessResult {
	p.t.Helper()
	p.stage = 0
	if b.From != nil {
		p.stage = b.From.Stage
	}
	in := p.input(b)
	in.Take, in.OnError = take, p.spec.OnError
	in.Stage = &protocol.Stage{Name: stageName(p.stage), Last: p.stage == p.stages-1}
	result, err := p.acts.Process(context.Background(), in)
	require.NoError(p.t, err)
	return result
}

// run takes batches through all stages in any order, and returns the entries of the last one and all counts. After so many
// executions it stops: left are the batches between two stages then.
func (p *pipeline) run(random *rand.Rand, waiting []protocol.Batch, most int) (entries []ledger.Entry, totals job.Totals, left []protocol.Batch) {
	for ; len(waiting) > 0 && most > 0; most-- {
		i := random.IntN(len(waiting))
		b := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		take := int64(0)
		if random.IntN(3) == 0 {
			take = 1 + random.Int64N(b.Count)
		}
		r := p.step(b, take)
		totals.Add(r.Totals)
		if r.Rest != nil {
			waiting = append(waiting, *r.Rest)
		}
		if r.Parcel == nil {
			entries = append(entries, r.Entry)
			continue
		}
		next := r.Entry.Batch
		next.From = r.Parcel
		waiting = append(waiting, next)
	}
	for _, b := range waiting {
		if b.From != nil {
			left = append(left, b)
		}
	}
	return entries, totals, left
}

// runs runs the job, stopping it so many times, each after a random number of executions, and resuming it. It returns the head of the
// manifests, all entries, and the counts of the last run's report.
func (p *pipeline) runs(random *rand.Rand, stops int) (head string, all []ledger.Entry, totals job.Totals) {
	var heads []string
	for run := 0; ; run++ {
		if run > 0 {
			p.newRun(fmt.Sprint("run-", run+1))
		}
		most := math.MaxInt
		if run < stops {
			most = random.IntN(40)
		}
		batches, planned := p.page(1000, heads...)
		require.True(p.t, planned.Done)
		entries, counts, left := p.run(random, batches, most)
		counts.Add(planned.Resumed)
		if run == stops {
			require.Empty(p.t, left)
		}
		for i := range entries {
			entries[i].Run = p.ref.Run
		}
		all = append(all, entries...)
		result, err := p.acts.Commit(context.Background(), CommitInput{Ref: p.ref, Previous: heads, Entries: entries, Between: left})
		require.NoError(p.t, err)
		if run == stops {
			return result.Manifest, all, counts
		}
		heads = []string{result.Manifest}
	}
}

// TestPipeline_P1_AnyOrder: P1, P4: whatever the order, the cuts, the rests and the stops, the output is that of the stages one after the
// other, each error is recorded with its stage and the item as the job got it, each item is counted once, and no stage sees one twice.
func TestPipeline_P1_AnyOrder(t *testing.T) {
	t.Parallel()
	const seed = 20
	for round := range uint64(40) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			items := []int64{0, 1, 10, 300}[round%4]
			var input strings.Builder
			for i := range items {
				fmt.Fprintf(&input, "item %d%s\n", i, strings.Repeat(" ", random.IntN(3)))
			}
			p := setupPipeline(t, 1+random.IntN(4), uint32(random.IntN(4)), uint32(random.IntN(4)), "in.txt", input.String())
			p.spec.BatchItems = 1 + random.Int64N(100)
			head, entries, totals := p.runs(random, random.IntN(4))
			report := p.finish(head)

			wantOut, wantErrors, wantDropped := p.model(strings.Split(input.String(), "\n")[:items])
			require.Equal(t, wantOut, p.read("out.jsonl"))
			require.Equal(t, items, report.Books.Items)
			require.EqualValues(t, len(wantErrors), totals.Failed)
			require.EqualValues(t, items, totals.OK+totals.Failed, "each item is decided once")
			require.EqualValues(t, wantDropped, totals.Dropped)
			require.Zero(t, totals.Between)
			for stage, seen := range p.seen {
				slices.Sort(seen)
				require.Equal(t, len(seen), len(slices.Compact(slices.Clone(seen))), "stage %d: nothing that was recorded runs again", stage)
			}
			require.EqualValues(t, input.Len(), totals.InputBytes)
			require.Equal(t, [2]int64{totals.Failed, totals.Dropped}, [2]int64{report.Books.Failed, report.Books.Dropped})
			require.Equal(t, wantErrors, p.records(entries))
		})
	}
}

// failed is what an error record must say.
type failed struct {
	item          int64
	stage, source string
	input         string
	offset        int64
}

// model is the pipeline in a few lines.
func (p *pipeline) model(lines []string) (out string, errors []failed, drops int) {
	offset := int64(0)
	for i, line := range lines {
		result := line + strings.Repeat("", p.stages)
		end := passes
		for stage := 0; stage < p.stages && end == passes; stage++ {
			switch end = fateOf(stage, int64(i), p.failing, p.dropping); end {
			case passes:
				result += stageName(stage)
			case fails:
				errors = append(errors, failed{int64(i), stageName(stage), p.path("in.txt"), fmt.Sprintf("%q", line), offset})
			case dropped:
				drops++
			}
		}
		if end == passes {
			out += result + "\n"
		}
		offset += int64(len(line)) + 1
	}
	return out, errors, drops
}

// records returns the error records of the entries, in the order of their items.
func (p *pipeline) records(entries []ledger.Entry) (all []failed) {
	slices.SortFunc(entries, func(a, b ledger.Entry) int { return int(a.First - b.First) })
	for _, e := range entries {
		for _, line := range p.failures(e) {
			f := line.Failure
			require.Equal(p.t, f.Stage, f.Error.Message)
			all = append(all, failed{f.Item, f.Stage, f.Source, string(f.Input), f.Offset})
		}
	}
	return all
}
