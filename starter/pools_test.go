package starter_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

const pipelineFile = `
input: in.txt
output: out.txt
stages:
- {name: clean, pool: filters}
- {name: turn, pool: turn}
pools:
  filters: {exec: tr a-z A-Z}
  turn: {exec: rev, slots: 1}
`

// P1, G1: a pipeline with everything embedded. Finished, the same command starts afresh; what can be tuned is no part
// of its name.
func TestRun_P1_Pipeline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "one\ntwo\nthree\nfour\n")
	b.write("pipeline.yaml", pipelineFile)
	b.stint("run", "-f", "pipeline.yaml", "--report", "report.json").exits(starter.ExitOK)
	require.Equal(t, "ENO\nOWT\nEERHT\nRUOF\n", b.read("out.txt"))
	r := b.report("report.json")
	require.EqualValues(t, 4, r.OK)
	require.Len(t, r.Workers, 2, "each pool has a worker of its own")
	name := b.onlyJob()
	require.Equal(t, name+"--filters", r.Pool)

	b.write("pipeline.yaml", strings.Replace(pipelineFile, "slots: 1", "slots: 3, env: [A=b]", 1))
	b.stint("run", "-f", "pipeline.yaml").exits(starter.ExitOK)
	require.Equal(t, name, b.onlyJob(), "the same job")
	b.write("pipeline.yaml", strings.Replace(pipelineFile, "exec: rev", "exec: cat", 1))
	b.stint("run", "-f", "pipeline.yaml").exits(starter.ExitOK)
	require.Equal(t, "ONE\nTWO\nTHREE\nFOUR\n", b.read("out.txt"))
	jobs, err := os.ReadDir(b.path(".stint/jobs"))
	require.NoError(t, err)
	require.Len(t, jobs, 2, "another handler makes another job")
}

// P2, P3, P4: ensembles and switches with everything embedded, results to the standard output.
func TestRun_P2_P3_Pipeline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.jsonl", `{"kind":"a","n":1}`+"\n"+`{"kind":"b","n":2}`+"\n"+`{"kind":"c","n":3}`+"\n")
	b.write("pipeline.yaml", `
input: in.jsonl
stages:
- {name: route, switch: .kind, cases: {a: {pool: upper}, b: {name: both, ensemble: [{pool: upper}, {pool: plain}]}}, default: {pool: plain}}
- {name: end, pool: plain}
pools:
  upper: {exec: sed s/n/N/}
  plain: {exec: cat}
`)
	c := b.stint("run", "-f", "pipeline.yaml").exits(starter.ExitOK)
	require.Equal(t, `{"kiNd":"a","n":1}`+"\n"+`[{"kiNd":"b","n":2},{"kind":"b","n":2}]`+"\n"+`{"kind":"c","n":3}`+"\n", c.stdout.String())
}

// Flags of the command hold for all pools, and each pool's keys add to them or override them.
func TestRun_PoolsTakeTheCommandsFlags(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "x\n")
	b.write("sub/here", "")
	show := b.script("show", `read line; echo "$line $A $B $(ls here 2>/dev/null)"`)
	b.write("pipeline.yaml", `
input: in.txt
output: out.txt
stages: [{name: one, pool: one}, {name: two, pool: two}]
pools:
  one: {exec: `+show+`, env: B=2, dir: sub}
  two: {exec: `+show+`}
`)
	b.stint("run", "-f", "pipeline.yaml", "--env", "A=1").exits(starter.ExitOK)
	require.Equal(t, "x 1 2 here 1  \n", b.read("out.txt"))
}

// A program with its own handler has it run the pools that name no command.
func TestRun_PoolsOfTheProgramsHandler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.handler = worker.Each(func(_ context.Context, text string) (string, error) { return text + "!", nil })
	b.write("in.txt", "one\n")
	b.write("pipeline.yaml", strings.Replace(pipelineFile, "{exec: rev, slots: 1}", "{slots: 1}", 1))
	b.stint("run", "-f", "pipeline.yaml").exits(starter.ExitOK)
	require.Equal(t, "\"ONE!\"\n", b.read("out.txt"))
}

func TestRun_PoolsUsage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "x\n")
	for _, c := range []struct {
		name, old, with string
		says            []string
	}{
		{"none", "pools:\n  filters: {exec: tr a-z A-Z}\n  turn: {exec: rev, slots: 1}\n", "", []string{"add 'pools: {filters: {exec: COMMAND}", "for filters, turn"}},
		{"nobody serves one", "  turn: {exec: rev, slots: 1}\n", "", []string{"pool turn of stage turn has no entry: add 'turn: {exec: COMMAND}'"}},
		{"an unused one", "slots: 1}", "slots: 1}\n  other: {exec: cat}", []string{"line 10: no stage uses pool other: leave it out"}},
		{"an unknown key", "slots: 1", "slot: 1", []string{"line 9", `unknown key "slot"`, "slots, concurrency"}},
		{"a wrong value", "slots: 1", "slots: many", []string{"line 9: pool turn", "slots"}},
		{"a value out of range", "slots: 1", "slots: 5000", []string{"line 9: pool turn", "slots 5000: use 1 to 1000"}},
		{"a key twice", "slots: 1", "slots: 1, slots: 2", []string{"line 9", `duplicate key "slots"`}},
		{"a pool twice", "slots: 1}", "slots: 1}\n  turn: {exec: cat}", []string{`duplicate key "turn"`}},
		{"no handler", "exec: rev, ", "", []string{"line 9: pool turn: no handler given: use exec or serve"}},
		{"two handlers", "slots: 1", "serve: cat", []string{"line 9: pool turn", "either"}},
		{"a program that is not there", "exec: rev", "exec: no-such-program", []string{"line 9: pool turn", "there is no such program"}},
		{"no map", "{exec: rev, slots: 1}", "rev", []string{"line 9: pool turn", "expected a map"}},
		{"no stages", "stages:\n- {name: clean, pool: filters}\n- {name: turn, pool: turn}\n", "", []string{"pools are for a job with stages"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			require.Contains(t, pipelineFile, c.old)
			b.write("pipeline.yaml", strings.Replace(pipelineFile, c.old, c.with, 1))
			b.refused(starter.ExitUsage, []string{"run", "-f", "pipeline.yaml"}, c.says...)
		})
	}
	b.t = t
	b.write("pipeline.yaml", pipelineFile)
	b.refused(starter.ExitUsage, []string{"run", "-f", "pipeline.yaml", "--exec", "cat"}, "--exec is for a job with one handler")
	b.refused(starter.ExitUsage, []string{"run", "-f", "pipeline.yaml", "--metrics", "9090"}, "metrics 9090: each pool has an endpoint of its own")
	b.refused(starter.ExitUsage, []string{"start", "-f", "pipeline.yaml"}, "line 8: pools are for 'stint run'", "stint worker --pool NAME")
}

// Failed items of a local pipeline are redriven, and a failed one is resumed, with the commands that its end names.
func TestRun_PipelineNamesTheNextCommand(t *testing.T) {
	t.Parallel()
	t.Run("redrive", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.write("in.txt", numbers(100))
		b.write("a pipeline.yaml", strings.Replace(pipelineFile, "rev", b.breakable("sed /7$/d"), 1))
		c := b.stint("run", "-f", "a pipeline.yaml", "--backoff", "1ms").exits(starter.ExitSomeFailed)
		failures := b.failures("out.txt.errors.jsonl")
		require.Len(t, failures, 10)
		require.Equal(t, "turn", failures[0].Stage)
		require.Contains(t, b.stint("redrive", b.onlyJob()).exits(starter.ExitUsage).stderr.String(), "--file FILE")
		b.mend("exec cat")
		c = b.pasted(c, "to run the failed items again: ").exits(starter.ExitOK)
		require.Contains(t, c.stderr.String(), "10 failed items run again")
		requireSame(t, numbers(100), b.read("out.txt"))
	})
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.write("in.txt", numbers(100))
		b.write("pipeline.yaml", strings.Replace(pipelineFile, "rev", b.breakable("sed /0000050/d"), 1))
		c := b.stint("run", "-f", "pipeline.yaml", "--backoff", "1ms", "--batch-items", "10", "--on-error", "stop").exits(starter.ExitFailed)
		b.mend("exec cat")
		c = b.pasted(c, "and so does: ").exits(starter.ExitSomeFailed)
		require.Contains(t, c.stderr.String(), "99 items ok, 1 failed")
	})
}

// TestBrutal_P4_PipelineKilled (G1, P4): the process group of a local pipeline is killed at random moments, and the
// same command run again each time. The output is that of a run that nobody has killed, and what was recorded is not
// run again.
func TestBrutal_P4_PipelineKilled(t *testing.T) {
	t.Parallel()
	const n, batch, kills = 20_000, 500, 4
	b := setup(t)
	random := seed(t)
	input := numbers(n)
	b.write("in.txt", input)
	mark := b.mark()
	b.write("pipeline.yaml", fmt.Sprintf(`
input: in.txt
output: out.txt
batch-items: %d
slots: 2
env: [%q]
stages: [{name: first, pool: first}, {name: second, pool: second}, {name: last, pool: last}]
pools:
  first: {exec: %q}
  second: {exec: sed s/$/x/}
  last: {exec: %q}
`, batch, mark, b.witness("sleep 0.05;"), b.script("ending", "sleep 0.05; exec sed s/$/y/")))
	moments := []int{}
	for range kills {
		moments = append(moments, random.IntN(n-2*batch))
	}
	slices.Sort(moments)
	b.hold(n - 2*batch) // so it does not end before the last kill
	for _, moment := range moments {
		p := b.spawn("run", "-f", "pipeline.yaml")
		eventually(t, "the moment of the kill", func() bool { return b.executions() >= moment || !p.running() })
		require.True(t, p.running(), "it ended before the kill: %s", p.stderr.String())
		p.kill()
		b.requireNoOutput()
		requireGone(t, mark, time.Minute)
	}
	b.release()
	b.spawn("run", "-f", "pipeline.yaml").exits(starter.ExitOK)
	requireSame(t, strings.ReplaceAll(input, "\n", "xy\n"), b.read("out.txt"))
	require.LessOrEqual(t, b.repeats(n), (kills+1)*4*batch, "what was recorded is not run again")
	b.requireReplays(".stint/temporal")
}
