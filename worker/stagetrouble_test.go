package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// What may happen to a stage that is not the first: P3.

// numbers is an input of n records, and what threeStages make of those that are not left out.
func numbers(n int, leftOut func(int) bool) (input, output string) {
	var in, out strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "{\"n\":%d}\n", i)
		if leftOut == nil || !leftOut(i) {
			fmt.Fprintf(&out, "{\"n\":%d,\"seen\":[\"clean\",\"score\",\"format\"]}\n", i)
		}
	}
	return in.String(), out.String()
}

// around serves the first and the last of threeStages.
func (c *cluster) around() {
	c.t.Helper()
	c.servePool("first", stageNamed("clean", nil, nil), worker.Options{})
	c.servePool("third", stageNamed("format", nil, nil), worker.Options{})
}

// staged starts a job with threeStages.
func (c *cluster) staged(input string, change func(*job.Spec)) *jobs.Run {
	c.t.Helper()
	run, _ := c.start("in.jsonl", input, func(s *job.Spec) {
		s.Pool, s.Stages, s.BatchItems = "", threeStages(), 20
		if change != nil {
			change(s)
		}
	})
	return run
}

// scoring is the handler of the second stage, which does what before says first.
func scoring(before func(ctx context.Context, n int) error) worker.Handler {
	return worker.Each(func(ctx context.Context, r record) (record, error) {
		if err := before(ctx, r.N); err != nil {
			return r, err
		}
		r.Seen = append(r.Seen, "score")
		return r, nil
	})
}

// stageOf returns the report of a stage.
func stageOf(t *testing.T, r job.Report, name string) job.StageReport {
	t.Helper()
	for _, s := range r.Stages {
		if s.Stage == name {
			return s
		}
	}
	require.FailNow(t, "no stage "+name)
	return job.StageReport{}
}

// A program that dies in the second stage costs the item that kills it, and no other one.
func TestStages_P3_Crash(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const bad = 71
	input, _ := numbers(200, nil)
	c.around()
	c.servePool("second", worker.Exec("sh", "-c", fmt.Sprintf(`while read -r line; do case "$line" in *'"n":%d,'*) kill -9 $$;; esac; echo "$line"; done`, bad)), worker.Options{})
	report := c.wait(c.staged(input, func(s *job.Spec) { s.Attempts = 1 }))
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 1, report.Failed)
	require.Equal(t, job.KindCrash, report.FirstError.Kind)
	require.EqualValues(t, bad, report.FirstError.Item)
	require.Positive(t, report.Crashes)
	require.Contains(t, c.read("out.errors.jsonl"), `"stage":"score"`)
	require.Equal(t, 199, strings.Count(c.read("out"), "\n"))
	require.NotContains(t, c.read("out"), fmt.Sprintf(`"n":%d,`, bad))
	score := stageOf(t, report, "score")
	require.Equal(t, []int64{200, 1}, []int64{score.Done, score.Failed})
	require.EqualValues(t, 199, stageOf(t, report, "format").Done)
}

// A call of the second stage that hangs beyond its limit is the item's error.
func TestStages_P3_Hang(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const bad = 33
	input, want := numbers(100, func(n int) bool { return n == bad })
	c.around()
	c.servePool("second", scoring(func(ctx context.Context, n int) error {
		if n == bad {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}), worker.Options{})
	report := c.wait(c.staged(input, func(s *job.Spec) { s.CallTimeout, s.Attempts = 2*time.Second, 1 }))
	require.EqualValues(t, 1, report.Failed)
	require.Equal(t, job.KindExpired, report.FirstError.Kind)
	require.EqualValues(t, bad, report.FirstError.Item)
	require.Equal(t, want, c.read("out"))
	require.EqualValues(t, 1, stageOf(t, report, "score").Failed)
}

// A handler of the second stage that asks to slow down holds the others back, and nothing stands still, whatever the
// window.
func TestStages_P3_SlowDown(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 5} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			input, want := numbers(60, nil)
			var asked atomic.Int64
			c.around()
			c.servePool("second", scoring(func(_ context.Context, n int) error {
				if n > 20 && asked.Add(1) <= 8 {
					return worker.SlowDown(10 * time.Millisecond)
				}
				return nil
			}), worker.Options{})
			report := c.wait(c.staged(input, func(s *job.Spec) { s.Window = window; s.Stages[1].Window = 1 }))
			require.Equal(t, job.Completed, report.State)
			require.Positive(t, report.SlowDowns)
			require.Zero(t, report.Failed)
			require.Equal(t, want, c.read("out"))
		})
	}
}

// A worker of the second stage that drains half way hands on what it has not done, and no item goes through the stage
// twice.
func TestStages_P3_Drain(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const items = 120
	input, want := numbers(items, nil)
	var calls atomic.Int64
	half := make(chan struct{})
	count := func(context.Context, int) error {
		if calls.Add(1) == items/3 {
			close(half)
		}
		return nil
	}
	c.around()
	// The drain takes effect within the batch, as the handler waits for it there.
	draining := make(chan struct{})
	first := c.servePool("second", scoring(func(ctx context.Context, n int) error {
		if err := count(ctx, n); err != nil || calls.Load() < items/3 {
			return err
		}
		return pass(ctx, draining)
	}), worker.Options{Slots: 1})
	run := c.staged(input, func(s *job.Spec) { s.BatchItems = 30 })
	<-half
	first.drain()
	close(draining)
	first.await()
	c.servePool("second", scoring(count), worker.Options{Slots: 1})
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.Equal(t, want, c.read("out"))
	require.Equal(t, items+report.Repeated, calls.Load())
	require.Zero(t, report.Retries)
	require.EqualValues(t, items, stageOf(t, report, "score").Done)
}

// Failures of a later stage count for the tolerance, and end the job, which can be resumed.
func TestStages_P3_MaxFailed(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	input, want := numbers(400, nil)
	var mended atomic.Bool
	c.around()
	c.servePool("second", scoring(func(_ context.Context, n int) error {
		if n%4 == 1 && !mended.Load() {
			return errors.New("score cannot")
		}
		return nil
	}), worker.Options{})
	run := c.staged(input, func(s *job.Spec) { s.MaxFailed = "15"; s.Window = 4 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := run.Wait(ctx)
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, job.ErrorTooMany, failed.Report.Error.Type)
	require.Greater(t, failed.Report.Failed, int64(15))
	require.Less(t, failed.Report.Done(), int64(400))

	mended.Store(true)
	tolerance := job.Tolerance("none")
	again, err := jobs.NewClient(c.client, nil).Resume(t.Context(), "job", jobs.ResumeOptions{Settings: job.Settings{MaxFailed: &tolerance}})
	require.NoError(t, err)
	report := c.wait(again)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 400, report.OK+report.Failed)
	require.Equal(t, strings.Count(want, "\n")-int(report.Failed), strings.Count(c.read("out"), "\n"))
}

// Hooks of several pools run once each, by workers of their pools.
func TestStages_P3_Hooks(t *testing.T) {
	t.Parallel()
	c := setup(t)
	input, want := numbers(60, nil)
	var mu sync.Mutex
	var called []string
	hook := func(pool string) worker.Hook {
		return func(_ context.Context, call worker.HookCall) error {
			mu.Lock()
			defer mu.Unlock()
			called = append(called, call.Stage+" "+pool)
			return nil
		}
	}
	for stage, pool := range map[string]string{"clean": "first", "score": "second", "format": "third"} {
		c.servePool(pool, stageNamed(stage, nil, nil), worker.Options{Hooks: map[string]worker.Hook{"load": hook(pool), "tidy": hook(pool)}})
	}
	report := c.wait(c.staged(input, func(s *job.Spec) {
		s.Init, s.Cleanup = []string{"load", "second/load", "third/load"}, []string{"third/tidy", "second/tidy"}
	}))
	require.Equal(t, want, c.read("out"))
	require.Len(t, report.Hooks, 5)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"init first", "init second", "init third", "cleanup third", "cleanup second"}, called)
}

// A stage has no more batches in flight than its window, which can be changed meanwhile; the stages before it wait, and
// the report shows that.
func TestStages_P3_Window(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	const items = 200
	input, want := numbers(items, nil)
	var begun, now, narrow, most atomic.Int64
	release := make(chan struct{})
	c.around()
	c.servePool("second", scoring(func(ctx context.Context, _ int) error {
		n := now.Add(1)
		defer now.Add(-1)
		if narrow.Load() == 1 {
			most.Store(max(most.Load(), n)) // calls do not overlap then, or it shows
		}
		begun.Add(1)
		return pass(ctx, release)
	}), worker.Options{Slots: 8})
	run := c.staged(input, func(s *job.Spec) { s.Window, s.BatchItems, s.Stages[1].Window = 20, 2, 3 })
	report := func() job.Report {
		r, err := run.Report(t.Context())
		require.NoError(t, err)
		return r
	}
	// The first stage is done with what it may do: a window in front of the second one, and no more than what is in
	// flight beyond it.
	require.Eventually(t, func() bool {
		r := report()
		return begun.Load() == 3 && stageOf(t, r, "clean").InFlight == 0 && stageOf(t, r, "score").Waiting >= 3
	}, patience, 20*time.Millisecond)
	r := report()
	score := stageOf(t, r, "score")
	require.Equal(t, 3, score.InFlight)
	require.Equal(t, 3, score.Window)
	require.LessOrEqual(t, score.Waiting, 2+20)
	require.Equal(t, r.Between, int64(2*(score.InFlight+score.Waiting)))
	require.EqualValues(t, 3, begun.Load())

	settings, err := run.Set(t.Context(), job.Settings{Windows: map[string]int{"score": 1}})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"clean": 0, "score": 1, "format": 0}, settings.Windows)
	_, err = run.Set(t.Context(), job.Settings{Windows: map[string]int{"scores": 1}})
	require.ErrorContains(t, err, "scores.window: no pool runs a stage of that name: use clean, score, format")
	narrow.Store(1)
	close(release)
	final := c.wait(run)
	require.Equal(t, want, c.read("out"))
	require.LessOrEqual(t, most.Load(), int64(3), "those that had begun")
	for _, stage := range final.Stages {
		require.EqualValues(t, items, stage.Done, stage.Stage)
		require.Zero(t, stage.Waiting+stage.InFlight)
		require.Positive(t, stage.Busy)
	}
	require.Equal(t, 1, stageOf(t, final, "score").Window)
}
