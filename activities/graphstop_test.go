package activities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/data/stages/stagestest"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// nestedStages are an ensemble with a switch as a member, and a switch with an ensemble and a sequence as cases.
func nestedStages() []job.Stage {
	stage := func(name string) job.Stage { return job.Stage{Name: name, Pool: "pool"} }
	other := stage("other")
	return []job.Stage{
		stage("first"),
		{Name: "score", KeepErrors: true, Ensemble: []job.Stage{
			stage("plain"),
			{Name: "kind", Switch: ".k", Default: &other, Cases: []job.Case{{Value: "x", Stage: stage("case-x")}, {Value: "y", Stage: stage("case-y")}}},
		}},
		{Name: "askedasked", Switch: "router", Cases: []job.Case{
			{Value: "x", Stage: job.Stage{Name: "both", Ensemble: []job.Stage{stage("m0"), stage("m1")}}},
			{Value: "y", Stage: job.Stage{Name: "two", Stages: []job.Stage{stage("one"), stage("two")}}},
		}},
		stage("last"),
	}
}

// stopAfter runs a job of nestedStages over some items, and stops it after so many executions, and resumes it; with a
// negative number it runs undisturbed. It returns how many executions there were, and requires what the model says.
func stopAfter(t *testing.T, seed uint64, executions int) int {
	t.Helper()
	const items = 14
	var input strings.Builder
	for i := range items {
		fmt.Fprintf(&input, "{\"i\":%d,\"k\":%q}\n", i, stagestest.Kinds[i%3])
	}
	g := &graph{handler: stagestest.Handler{Failing: 1, Dropping: 1}}
	g.staged = newPipeline(t, nestedStages(), g.each, "in.jsonl", input.String())
	g.spec.BatchItems = 5
	head, entries, totals := g.runsUntil(jobtest.Seeded(t, seed), min(1, executions+1), func() int { return executions })
	report := g.finish(head)
	g.compare(strings.Split(input.String(), "\n")[:items], entries, totals)
	require.Equal(t, [2]int64{totals.Failed, totals.Dropped}, [2]int64{report.Books.Failed, report.Books.Dropped})
	return g.number
}

// TestPipeline_P4_StopAtEveryBoundary: a job that is stopped after any of its executions, from before the first one to
// after the last one, and resumed, has the same output, errors and counts, and no stage sees an item twice.
func TestPipeline_P4_StopAtEveryBoundary(t *testing.T) {
	t.Parallel()
	const seed = 90
	number := stopAfter(t, seed, -1)
	require.Greater(t, number, 2*len(nestedStages()))
	for executions := range number + 1 {
		t.Run(fmt.Sprint(executions), func(t *testing.T) {
			t.Parallel()
			stopAfter(t, seed, executions)
		})
	}
}
