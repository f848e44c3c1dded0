package starter_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	sdkclient "go.temporal.io/sdk/client"
)

func TestPlan_Counts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("a.txt", numbers(2500))
	b.write("b.txt.gz", gzipped(t, numbers(500)))
	var s predict.Survey
	b.reads(&s, "plan", "a.txt", "b.txt.gz", "--batch-items", "100", "--json")
	require.Equal(t, 2, s.Inputs)
	require.EqualValues(t, 3000, s.Items)
	require.EqualValues(t, 3000*lineOf, s.Bytes)
	require.EqualValues(t, 30, s.Batches)
	require.Positive(t, s.Events)
	require.Positive(t, s.Actions)
	table := b.stint("plan", "a.txt", "b.txt.gz", "--batch-items", "100").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `3,000 +items\n`, table)
	require.Regexp(t, `30 +batches\n`, table)
	b.requireNotStarted()
}

func TestPlan_StandardInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.startWith(stringReader("{\"a\":1}\n{\"a\":2}\n"), "plan", "-", "--format", "jsonl").exits(starter.ExitOK)
	require.Regexp(t, ` 2 +items\n`, c.stdout.String())
}

func TestPlan_BadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.refused(starter.ExitFailed, []string{"plan", "missing.txt"}, "/missing.txt", "there is no such file")
	b.refused(starter.ExitUsage, []string{"plan"}, "no input")
}

// The README's command, tried on the README's data.
func TestPlan_Sample(t *testing.T) {
	t.Parallel()
	b := setup(t)
	risk, err := filepath.Abs("../examples/birdstrikes/risk.awk")
	require.NoError(t, err)
	data, err := filepath.Abs("../examples/data/birdstrikes.csv")
	require.NoError(t, err)
	line := []string{"plan", "--sample", "100", "--exec", "awk -f '" + risk + "'", data, "--slots", "2", "--workers", "3"}
	var p predict.Prediction
	b.reads(&p, append(line, "--json")...)
	require.EqualValues(t, 10_000, p.Items)
	require.Equal(t, 100, p.Sample.Items)
	require.EqualValues(t, 100, p.Sample.OK)
	require.Zero(t, p.Sample.Failed)
	require.Equal(t, 6, p.Parallel)
	require.Positive(t, p.Seconds.Value)
	require.LessOrEqual(t, *p.Seconds.Low, p.Seconds.Value)
	require.GreaterOrEqual(t, *p.Seconds.High, p.Seconds.Value)
	require.Positive(t, p.Batches)
	require.Positive(t, p.Events)
	require.Positive(t, p.Actions)
	require.Positive(t, p.MemoryBytes)
	text := b.stint(line...).exits(starter.ExitOK).stdout.String()
	require.Contains(t, text, "10,000 items in 1 input (1.2 MB)\n")
	require.Regexp(t, `about [^(]*( \(95 %: .* to .*\))? on 3 workers like this one with 2 slots each\n`, text)
	require.Regexp(t, `100 items from all over the inputs: 100 ok, 0 failed, in \d+ calls`, text)
	require.Contains(t, text, "assumed ")
	b.requireNotStarted()
	files, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Empty(t, files, "the results are thrown away")
}

func TestPlan_SampleOfWhatFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\nbad\nb\n")
	text := b.stint("plan", "in.txt", "--sample", "1000", "--exec", "sed /bad/d", "--backoff", "1ms").exits(starter.ExitOK).stdout.String()
	require.Contains(t, text, "3 items from all over the inputs: 2 ok, 1 failed")
	require.Contains(t, text, "first failed item: 1 (length): ")
	require.Contains(t, text, "too few calls for error bars")
	text = b.stint("plan", "in.txt", "--sample", "3", "--exec", "false", "--backoff", "1ms").exits(starter.ExitOK).stdout.String()
	require.Contains(t, text, "no item of the sample was ok")
	require.Contains(t, text, "0 ok, 3 failed")
	require.Contains(t, text, "first failed item: 0: exit 1")
	b.write("empty.txt", "")
	require.Contains(t, b.stint("plan", "empty.txt", "--sample", "3", "--exec", "cat").exits(starter.ExitOK).stdout.String(), "nothing to do")
}

func TestPlan_SampleUsage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	b.refused(starter.ExitUsage, []string{"plan", "in.txt", "--sample", "0", "--exec", "cat"}, "--sample 0: use 1 or more")
	b.refused(starter.ExitUsage, []string{"plan", "in.txt", "--sample", "10"}, "--exec COMMAND")
	b.refused(starter.ExitUsage, []string{"plan", "in.txt", "--sample", "10", "--exec", "cat", "--workers", "0"}, "--workers 0")
	b.refused(starter.ExitUsage, []string{"plan", "in.txt", "--workers", "2"}, "--sample N")
	b.refused(starter.ExitUsage, []string{"plan", "-", "--sample", "10", "--exec", "cat"}, "standard input")
	hint := b.stint("plan", "in.txt", "--exec", "cat").exits(starter.ExitOK)
	require.Contains(t, hint.stderr.String(), "--sample 100")
}

func TestPlan_SampleIsEndedByASignal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	going := b.start("plan", "in.txt", "--sample", "1", "--exec", b.gated())
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	going.signals <- syscall.SIGINT
	going.exits(starter.ExitInterrupted)
}

// P1: a batch of a pipeline is one execution for each stage. The sample goes through all of them: a stage that few
// items reach is tried on few, and the slowest is named.
func TestPlan_P1_Stages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(1000))
	b.write("pipeline.yaml", `
input: in.txt
output: out.txt
batch-items: 100
stages:
- {name: clean, pool: clean}
- {name: score, ensemble: [{pool: slow}, {pool: quick}]}
- {name: kind, pool: kind}
- {name: route, switch: .kind, cases: {x: {pool: quick}, y: {pool: bad}}}
pools:
  clean: {exec: cat}
  slow: {exec: "sh -c 'sleep 0.05; cat'", slots: 1}
  quick: {exec: cat, slots: 1}
  kind: {exec: `+b.script("kind", `awk '{ print "{\"kind\":\"" (/0"/ ? "y" : "x") "\"}" }'`)+`}
  bad: {exec: "false"}
`)
	var s predict.Survey
	b.reads(&s, "plan", "-f", "pipeline.yaml", "--json")
	require.EqualValues(t, 10, s.Batches)
	require.Equal(t, 7, s.Steps, "with one that gathers the cases")
	require.Greater(t, s.Actions, int64(70))
	require.Regexp(t, `at most 70 +executions of batches, 7 each\n`, b.stint("plan", "-f", "pipeline.yaml").exits(starter.ExitOK).stdout.String())

	line := []string{"plan", "-f", "pipeline.yaml", "--sample", "1000", "--backoff", "1ms", "--attempts", "1"}
	var p predict.Pipeline
	b.reads(&p, append(line, "--json")...)
	require.Equal(t, 1000, p.Sample.Items)
	require.EqualValues(t, 900, p.Sample.OK)
	require.EqualValues(t, 100, p.Sample.Failed)
	require.EqualValues(t, 0, p.Sample.FirstError.Item)
	reached := map[string]int{}
	for _, stage := range p.Stages {
		reached[stage.Stage] = stage.Sample.Items
		require.Positive(t, stage.Seconds.Value, stage.Stage)
	}
	require.Equal(t, map[string]int{"clean": 1000, "score.slow": 1000, "score.quick": 1000, "kind": 1000, "route.quick": 900, "route.bad": 100}, reached)
	require.Positive(t, p.Seconds.Value)
	text := b.stint("plan", "-f", "pipeline.yaml", "--sample", "1000", "--backoff", "1ms", "--attempts", "1").exits(starter.ExitOK).stdout.String()
	require.Contains(t, text, "the slowest stage is ")
	require.Regexp(t, `score.slow +slow +1 +1,000 +1,000 +0 `, text)
	b.requireNotStarted()
	b.requireNoOutput()

	b.write("few.yaml", "input: in.txt\nstages: [{name: a, pool: a}, {name: b, pool: b}]\npools: {a: {exec: cat}}\n")
	b.stint("plan", "-f", "few.yaml").exits(starter.ExitOK)
	b.refused(starter.ExitUsage, []string{"plan", "-f", "few.yaml", "--sample", "5"}, "pool b", "has no entry")
}

// What is counted of a job's history is what the history has, but for how many of its batches share a workflow task,
// and for notes of progress of a job that takes long. The server is that of the command, which has the search
// attributes of jobs.
func TestPlan_EventsAreThoseOfTheHistory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, stages string }{
		{"one pool", "pool: p\n"},
		{"several pools", "stages: [{name: a, pool: p}, {name: both, ensemble: [{pool: p}, {pool: q}]}, {name: c, pool: q}]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.cluster()
			temporal := b.dial(strings.TrimPrefix(b.env[len(b.env)-1], "TEMPORAL_ADDRESS="))
			b.worker("p", "--exec", "cat")
			b.worker("q", "--exec", "cat")
			b.write("in.jsonl", records(100))
			b.write("job.yaml", "name: counted\ninput: in.jsonl\noutput: out\nbatch-items: 10\n"+c.stages)
			var s predict.Survey
			b.reads(&s, "plan", "-f", "job.yaml", "--json")
			b.stint("start", "-f", "job.yaml", "--wait").exits(starter.ExitOK)
			all, tasks, notes := b.events(temporal, "counted")
			const own = 4 // workflow tasks of a job with one leg, beside those of its batches
			executions := 10 * max(1, s.Steps)
			require.Positive(t, notes)
			require.InDelta(t, all-3*tasks-2*(notes-1)+3*own+21*executions/10, s.Events, 1)
			require.EqualValues(t, executions+6+min(1, s.Steps), s.Actions)
		})
	}
}

// events counts those of a workflow, the workflow tasks among them (three events each), and the notes in it for those
// who list jobs (two each).
func (b *box) events(c sdkclient.Client, id string) (all, tasks, notes int) {
	b.t.Helper()
	history := c.GetWorkflowHistory(b.t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(b.t, err)
		all++
		switch event.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
			tasks++
		case enums.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			notes++
		}
	}
	return all, tasks, notes
}

// tried predicts a job over n lines from a sample of 100, with the program's handler or the flags'.
func (b *box) tried(n int, flags ...string) (p predict.Prediction) {
	b.t.Helper()
	b.write("in.txt", numbers(n))
	line := []string{"plan", "in.txt", "--sample", "100", "--slots", "2", "--backoff", "1ms", "--json"}
	b.reads(&p, append(line, flags...)...)
	return p
}

func TestPlan_SampleWithEveryKindOfHandler(t *testing.T) {
	t.Parallel()
	all := func(_ context.Context, texts []string) ([]string, error) { return texts, nil }
	for name, flags := range map[string]func(*box) []string{
		"each":    func(b *box) []string { b.handler = b.handlerOf(""); return nil },
		"batch":   func(b *box) []string { b.handler = worker.Batch(all); return nil },
		"filter":  func(*box) []string { return []string{"--exec", "cat"} },
		"program": func(b *box) []string { return b.python("echo.py", "stint.serve(lambda items: items)\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.tried(500, flags(b)...)
			require.EqualValues(t, 500, p.Items)
			require.Equal(t, 100, p.Sample.Items)
			require.EqualValues(t, 100, p.Sample.OK, "%+v", p.Sample.FirstError)
			require.EqualValues(t, 5*p.Sample.ResultBytes, p.ResultBytes)
			require.Equal(t, 2, p.Parallel)
			require.Positive(t, p.Sample.Bytes)
			require.Positive(t, p.CallItems)
			require.LessOrEqual(t, *p.Seconds.Low, p.Seconds.Value)
			require.GreaterOrEqual(t, *p.Seconds.High, p.Seconds.Value)
			b.requireNotStarted()
		})
	}
}

// A program that cannot be started, or dies again and again, and a call that hangs are reported as of a job.
func TestPlan_SampleWithProgramsThatFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(20))
	line := func(flags ...string) []string {
		return append([]string{"plan", "in.txt", "--sample", "20", "--slots", "1", "--restarts", "0"}, flags...)
	}
	missing := b.python("missing.py", "raise SystemExit('model.bin is missing')\n")
	b.refused(starter.ExitFailed, line(missing...), "model.bin is missing")
	b.declined(starter.ExitFailed, line(b.python("dies.py", `
def work(items):
    raise SystemExit("last words")
stint.serve(work)
`)...), "slot 0 is out", "last words")
	b.refused(starter.ExitUsage, line("--exec", "cat", "--concurrency", "auto"), "use a number")
	hang := line("--exec", "sleep 1000", "--call-timeout", "50ms", "--attempts", "1", "--call-items", "20")
	hangs := b.stint(hang...).exits(starter.ExitOK)
	require.Contains(t, hangs.stdout.String(), "0 ok, 20 failed")
	require.Contains(t, hangs.stdout.String(), "first failed item: 0 (expired): ")

	b.write("in.txt", numbers(500))
	var p predict.Prediction
	b.reads(&p, line("--sample", "300", "--exec", "false", "--backoff", "1ms", "--json")...)
	require.Zero(t, p.Sample.OK)
	require.GreaterOrEqual(t, p.Sample.Failed, int64(20), "it may end like a job in which nothing works")
	require.EqualValues(t, p.Sample.Items, p.Sample.Failed)
	require.Positive(t, p.Seconds.Value)
}

// 14.12: a sample waits out slow-down requests, and every item has its outcome.
func TestPlan_SampleWithHandlersThatAskForLess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var asked atomic.Int64
	b.handler = worker.Each(func(_ context.Context, item string) (string, error) {
		if asked.Add(1) <= 10 {
			return "", worker.SlowDown(time.Millisecond)
		}
		return item, nil
	})
	p := b.tried(100)
	require.EqualValues(t, 100, p.Sample.OK)
	require.Zero(t, p.Sample.Failed)
	require.Equal(t, 10, p.Sample.SlowDowns)
	require.GreaterOrEqual(t, p.Seconds.Value, p.Sample.Took.Seconds(), "no faster than the sample was")

	b.handler = worker.Each(func(context.Context, string) (string, error) { return "", worker.SlowDown(time.Millisecond) })
	b.refused(starter.ExitFailed, []string{"plan", "in.txt", "--sample", "50"}, "asked 20 times in a row for less work")
}

// A handler that requests a stop ends the sample: there is nothing to predict from.
func TestPlan_SampleThatIsStopped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(20))
	b.handler = worker.Each(func(ctx context.Context, item string) (string, error) {
		return item, worker.RequestStop(ctx, errors.New("the quota is used up"))
	})
	b.refused(starter.ExitFailed, []string{"plan", "in.txt", "--sample", "20"}, "trying a sample", "the quota is used up")
}

// An interrupt ends a sample at once also while its programs are not ready.
func TestPlan_SampleIsEndedBeforeItsProgramsAreReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(20))
	flags := b.python("loads.py", `
note("started", "1")
time.sleep(1000)
`)
	going := b.start(append([]string{"plan", "in.txt", "--sample", "1", "--ready", "1h"}, flags...)...)
	eventually(t, "the program", func() bool { return b.lines("started") > 0 })
	going.signals <- syscall.SIGINT
	going.exits(starter.ExitInterrupted)
}
