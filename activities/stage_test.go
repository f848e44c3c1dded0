package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/pipeline"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
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

// staged runs batches through the stages of one worker.
type staged struct {
	*fixture
	program pipeline.Program
	step    int       // of the execution that runs
	seen    [][]int64 // items, by step
	number  int       // of executions
}

// newPipeline has a handler that each is called with, for each item.
func newPipeline(t *testing.T, all []job.Stage, each func(p *staged, c *calls.Call, item calls.Item), inputs ...string) *staged {
	p := &staged{fixture: setup(t, inputs...)}
	p.spec.Stages = all
	p.spec.Pool = ""
	p.spec = p.spec.WithDefaults()
	require.NoError(t, p.spec.Validate())
	p.program = pipeline.Compile(p.spec.Stages)
	p.seen = make([][]int64, len(p.program))
	h := &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 3}}
	h.Each = func(c *calls.Call, item calls.Item) {
		p.seen[p.step] = append(p.seen[p.step], item.Ordinal)
		each(p, c, item)
	}
	p.serve(h, Options{})
	return p
}

// letters is a pipeline whose handler adds the stage's name, a letter, to each item.
type letters struct {
	*staged
	failing, dropping uint32
}

func setupLetters(t *testing.T, number int, failing, dropping uint32, inputs ...string) *letters {
	l := &letters{failing: failing, dropping: dropping}
	var all []job.Stage
	for stage := range number {
		all = append(all, job.Stage{Name: stageName(stage), Pool: "pool"})
	}
	l.staged = newPipeline(t, all, l.each, inputs...)
	return l
}

func (l *letters) each(p *staged, c *calls.Call, item calls.Item) {
	switch fateOf(p.step, item.Ordinal, l.failing, l.dropping) {
	case fails:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Broken", Message: stageName(p.step)}}, 1)
	case dropped:
		p.drop(c, item)
	default:
		c.Answer.Line(append(bytes.Clone(item.Data), stageName(p.step)...))
	}
}

// drop drops an item; one in two as a filter does between two stages, with a blank line.
func (p *staged) drop(c *calls.Call, item calls.Item) {
	if p.program[p.step].Last || item.Ordinal%2 == 0 {
		c.Answer.Drop()
		return
	}
	c.Answer.Line([]byte(" \t")[:item.Ordinal/2%3])
}

func stageName(stage int) string { return string(rune('a' + stage)) }

// execute runs one execution of a batch, of which take items are done; 0: all.
func (p *staged) execute(b wire.Batch, take int64) wire.ProcessResult {
	p.t.Helper()
	p.number++
	p.step = 0
	if b.From != nil {
		p.step = b.From.Step
	}
	in := p.input(b)
	in.Take, in.OnError = take, p.spec.OnError
	in.Stage = &p.program[p.step].Stage
	result, err := p.acts.Process(context.Background(), in)
	require.NoError(p.t, err)
	return result
}

// run takes batches through all stages in any order, and returns the entries of the last one and all counts. After so
// many executions it stops: left are the batches between two stages then.
func (p *staged) run(random *rand.Rand, waiting []wire.Batch, most int) (entries []wire.Entry, totals job.Totals, left []wire.Batch) {
	for ; len(waiting) > 0 && most > 0; most-- {
		i := random.IntN(len(waiting))
		b := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		take := int64(0)
		if random.IntN(3) == 0 {
			take = 1 + random.Int64N(b.Count)
		}
		r := p.execute(b, take)
		totals.Add(r.Totals)
		if r.Rest != nil {
			waiting = append(waiting, *r.Rest)
		}
		if r.Written == nil {
			entries = append(entries, r.Entry)
			continue
		}
		waiting = append(waiting, p.program.Advance(b, r.Rest, p.ref.Run, *r.Written, r.Routed, r.Cuts)...)
	}
	for _, b := range waiting {
		if b.From != nil {
			left = append(left, b)
		}
	}
	return entries, totals, left
}

// runs runs the job, stopping it so many times, each after a random number of executions, and resuming it. It returns
// the head of the manifests, all entries, and the counts of the last run's report.
func (p *staged) runs(random *rand.Rand, stops int) (head string, all []wire.Entry, totals job.Totals) {
	return p.runsUntil(random, stops, func() int { return random.IntN(40) })
}

// runsUntil is runs, with stops after so many executions as until says.
func (p *staged) runsUntil(random *rand.Rand, stops int, until func() int) (head string, all []wire.Entry, totals job.Totals) {
	var heads []string
	for run := 0; ; run++ {
		if run > 0 {
			p.newRun(fmt.Sprint("run-", run+1))
		}
		most := math.MaxInt
		if run < stops {
			most = until()
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
		result, err := p.acts.Commit(context.Background(), wire.CommitInput{Ref: p.ref, Previous: heads, Entries: entries, Between: left})
		require.NoError(p.t, err)
		if run == stops {
			return result.Manifest, all, counts
		}
		heads = []string{result.Manifest}
	}
}

// TestPipeline_P1_AnyOrder: P1, P4: whatever the order, the cuts, the rests and the stops, the output is that of the
// stages one after the other, each error is recorded with its stage and the item as the job got it, each item is
// counted once, and no stage sees one twice.
func TestPipeline_P1_AnyOrder(t *testing.T) {
	t.Parallel()
	const seed = 20
	for round := range jobtest.Rounds(40) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			items := []int64{0, 1, 10, 300}[round%4]
			var input strings.Builder
			for i := range items {
				fmt.Fprintf(&input, "item %d%s\n", i, strings.Repeat(" ", random.IntN(3)))
			}
			p := setupLetters(t, 1+random.IntN(4), uint32(random.IntN(4)), uint32(random.IntN(4)), "in.txt", input.String())
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

// P4: a batch is split for a later stage although the first one gets it in one call.
func TestPipeline_P4_SplitsWithinACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items, most int64
		want        []int64
	}{
		{10, 4, []int64{4, 4, 2}},
		{8, 4, []int64{4, 4}},
		{3, 4, []int64{3}},
		{160, 1, []int64{11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 6}},
	} {
		t.Run(fmt.Sprint(c.items), func(t *testing.T) {
			t.Parallel()
			all := []job.Stage{{Name: "a", Pool: "pool"}, {Name: "b", Pool: "pool", BatchItems: c.most}}
			p := newPipeline(t, all, nil, "in.jsonl", jobtest.Lines(int(c.items)))
			p.spec.BatchItems = c.items
			h := &callstest.Handler{As: calls.Traits{Form: calls.Lines}, Size: calls.CallSize{Items: 1000}}
			p.serve(h, Options{})
			batches, _ := p.page(1000)
			require.Len(t, batches, 1)
			r := p.execute(batches[0], 0)
			require.Equal(t, []int{int(c.items)}, h.Sizes(), "one call")
			var counts []int64
			var entries []wire.Entry
			for _, b := range p.program.Advance(batches[0], r.Rest, p.ref.Run, *r.Written, r.Routed, r.Cuts) {
				counts = append(counts, b.Count)
				entries = append(entries, p.execute(b, 0).Entry)
			}
			require.Equal(t, c.want, counts)
			p.finish(p.commit(nil, entries...))
			require.Equal(t, jobtest.Lines(int(c.items)), p.read("out.jsonl"))
		})
	}
}

// P1, P2: the record of an item that is run again, and fails again, says in which stage that is now, and what an
// ensemble has made of the item now.
func TestPipeline_P1_RedriveFailsInAnotherStage(t *testing.T) {
	t.Parallel()
	stage := func(name string) job.Stage { return job.Stage{Name: name, Pool: "pool"} }
	failing := "both.a"
	p := newPipeline(t, []job.Stage{{Name: "both", Ensemble: []job.Stage{stage("a"), stage("b")}}, stage("last")}, func(p *staged, c *calls.Call, item calls.Item) {
		if name := p.program[p.step].Name; name == failing {
			c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: "Broken", Message: name}}, 1)
			return
		}
		c.Answer.Line(item.Data)
	}, "in.jsonl", jobtest.Lines(3))
	record := func(now string) (first job.Failure) {
		failing = now
		batches, _ := p.page(1000)
		entries, _, _ := p.run(jobtest.Seeded(t, 1), batches, math.MaxInt)
		heads := []string{p.commit(nil, entries...)}
		result := p.finish(heads...)
		if p.redrive != nil {
			heads = result.Manifests
		}
		require.EqualValues(t, 3, result.Books.Failed)
		line, _, _ := strings.Cut(p.read("out.jsonl.errors.jsonl"), "\n")
		require.NoError(t, json.Unmarshal([]byte(line), &first))
		p.redrive = &job.Redrive{Manifests: heads, Output: result.Output, Planned: result.Books.Items, Runs: []string{p.ref.Run}}
		p.newRun("run-" + now)
		return first
	}
	first := record("both.a")
	require.Equal(t, "both.a", first.Stage)
	require.JSONEq(t, `[{"error":{"type":"Broken","message":"both.a"}},{"n":0}]`, string(first.Partial))
	first = record("both.b")
	require.Equal(t, "both.b", first.Stage)
	require.JSONEq(t, `[{"n":0},{"error":{"type":"Broken","message":"both.b"}}]`, string(first.Partial))
	first = record("last")
	require.Equal(t, "last", first.Stage)
	require.Empty(t, first.Partial)
}

// failed is what an error record must say.
type failed struct {
	item          int64
	stage, source string
	input         string
	offset        int64
}

// model is the pipeline in a few lines.
func (p *letters) model(lines []string) (out string, errors []failed, drops int) {
	offset := int64(0)
	for i, line := range lines {
		result := line
		end := passes
		for stage := 0; stage < len(p.program) && end == passes; stage++ {
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
func (p *staged) records(entries []wire.Entry) (all []failed) {
	slices.SortFunc(entries, func(a, b wire.Entry) int { return int(a.First - b.First) })
	for _, e := range entries {
		for _, line := range p.failures(e) {
			f := line.Failure
			all = append(all, failed{f.Item, f.Stage, f.Source, string(f.Input), f.Offset})
		}
	}
	return all
}
