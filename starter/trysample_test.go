package starter_test

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/starter"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

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
