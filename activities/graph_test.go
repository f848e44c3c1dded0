package activities

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// graph is a pipeline of ensembles, switches and stages within each other.
type graph struct {
	*staged
	handler stagestest.Handler
}

func (g *graph) each(p *staged, c *calls.Call, item calls.Item) {
	stage := p.program[p.step].Name
	switch answer, end := g.handler.Answer(stage, string(item.Data)); end {
	case stagestest.Fails:
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Type: stagestest.Broken, Message: stage}}, 1)
	case stagestest.Drops:
		p.drop(c, item)
	default:
		c.Answer.Line([]byte(answer))
	}
}

// TestPipeline_P2_P3_P4_AnyGraph: whatever the stages, the order, the cuts, the rests and the stops, the output is that
// of the model, each item is counted once, errors have the stage and the item as the job got it, and each stage sees
// exactly its items, each once.
func TestPipeline_P2_P3_P4_AnyGraph(t *testing.T) {
	t.Parallel()
	const seed = 700
	for round := range jobtest.Rounds(32) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := jobtest.Seeded(t, seed+round)
			items := []int64{0, 1, 10, 100}[round%4]
			var input strings.Builder
			for i := range items {
				fmt.Fprintf(&input, "{\"i\":%d,\"k\":%q}\n", i, stagestest.Kinds[random.IntN(3)])
			}
			g := &graph{handler: stagestest.Handler{Failing: uint32(random.IntN(3)), Dropping: uint32(random.IntN(3))}}
			g.staged = newPipeline(t, stagestest.Stages(random, 50), g.each, "in.jsonl", input.String())
			g.spec.BatchItems = 4 + random.Int64N(60)
			head, entries, totals := g.runs(random, random.IntN(4))
			report := g.finish(head)
			g.compare(strings.Split(input.String(), "\n")[:items], entries, totals)
			require.Equal(t, [2]int64{totals.Failed, totals.Dropped}, [2]int64{report.Books.Failed, report.Books.Dropped})
		})
	}
}

// compare compares what a job has made of the lines of its input with the model.
func (g *graph) compare(lines []string, entries []wire.Entry, totals job.Totals) {
	t := g.t
	var out strings.Builder
	var errors []failed
	var drops int64
	want := map[string][]int64{} // items, by stage
	m := &stagestest.Model{Handler: g.handler, Stages: g.spec.Stages}
	offset := int64(0)
	for i, line := range lines {
		m.See = func(stage, _ string) { want[stage] = append(want[stage], int64(i)) }
		switch e := m.Run(line); {
		case e.Failed():
			errors = append(errors, failed{int64(i), e.Stage, g.path("in.jsonl"), line, offset})
		case e.Value == "":
			drops++
		default:
			out.WriteString(e.Value + "\n")
		}
		offset += int64(len(line)) + 1
	}
	require.Equal(t, out.String(), stagestest.Plain(g.read("out.jsonl")))
	require.Equal(t, errors, g.records(entries))
	require.EqualValues(t, len(errors), totals.Failed)
	require.EqualValues(t, drops, totals.Dropped)
	require.EqualValues(t, len(lines), totals.OK+totals.Failed, "each item is decided once")
	require.Zero(t, totals.Between)
	require.Equal(t, offset, totals.InputBytes)
	seen := map[string][]int64{}
	for step, items := range g.seen {
		if s := &g.program[step]; !s.Gather {
			slices.Sort(items)
			seen[s.Name] = items
		} else {
			require.Empty(t, items)
		}
	}
	for _, s := range g.spec.StagePools() {
		require.Len(t, seen[s.Name], len(want[s.Name]), "%s sees its items once", s.Name)
		require.True(t, slices.Equal(want[s.Name], seen[s.Name]), "%s: %v, %v", s.Name, want[s.Name], seen[s.Name])
	}
}
