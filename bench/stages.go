package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

// stageRows returns those of pipelines.
func (b *bench) stageRows() []row {
	return []row{
		b.stagesRow("two stages of tr, 1M items", b.items(1_000_000)),
		b.stagesRow("two stages of tr, 10M items", b.items(10_000_000)),
		{
			name: "first result of the last of three stages", limit: "< 10 % of the input begun", before: b.fresh,
			stint:   func() *exec.Cmd { return b.role("first-result", b.lines(1_000_000)) },
			figure:  func() (time.Duration, error) { return b.figure("first-result") },
			note:    func() string { return b.read("first-result", ".note") },
			failure: func() string { return b.read("first-result", ".failure") },
		},
		{
			name: "feed of three stages, call of one item", limit: "≤ 3.2 × one stage", before: b.fresh, once: true,
			stint:  func() *exec.Cmd { return b.role("feed-stages", b.data("ten", 10, 100), fmt.Sprint(b.items(1000))) },
			figure: func() (time.Duration, error) { return b.figure("feed-stages") },
			note:   func() string { return b.read("feed-stages", ".note") },
		},
	}
}

// stagesRow compares a pipeline of two filters with two runs of one, one after the other.
func (b *bench) stagesRow(name string, items int) row {
	input := fmt.Sprintf("items-%d-100", items)
	return row{
		name: name, limit: "≤ 0.9", before: b.fresh,
		stint: func() *exec.Cmd { return b.runFile(b.data(input, items, 100)) },
		peer: func() *exec.Cmd {
			return exec.Command("sh", "-c", fmt.Sprintf("cd %s && %s && mv stint.out middle && rm -rf state && %s",
				b.dir, b.shell("tr a-z A-Z", b.data(input, items, 100)), b.shell("tr A-Z a-z", filepath.Join(b.dir, "middle"))))
		},
		note: func() string { return "against two runs of a stage each" },
	}
}

// shell is run1 as a word of a shell.
func (b *bench) shell(filter, input string) string {
	return fmt.Sprintf("%s run --quiet --fresh --format text --exec '%s' %s -o stint.out --state state", b.stint, filter, input)
}

// runFile is `stint run` of a job file with two stages.
func (b *bench) runFile(input string) *exec.Cmd {
	file := filepath.Join(b.dir, "stages.yaml")
	text := fmt.Sprintf(`input: %s
output: stint.out
format: text
stages: [{name: up, pool: up}, {name: down, pool: down}]
pools: {up: {exec: tr a-z A-Z}, down: {exec: tr A-Z a-z}}
`, input)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil // the run will say so
	}
	cmd := exec.Command(b.stint, "run", "--quiet", "-f", file, "--state", filepath.Join(b.dir, "state"))
	cmd.Dir = b.dir
	return cmd
}

// firstResult measures how long a pipeline takes to the first result of its last stage, and how much of the input the
// first one has begun then. Windows and batches are automatic.
func firstResult(args []string) error {
	var begun, first atomic.Int64 // items
	var took time.Duration
	began := time.Now()
	step := func(before func()) local.Pool {
		return local.Pool{Handler: worker.Each(func(_ context.Context, item map[string]any) (map[string]any, error) {
			before()
			return item, nil
		})}
	}
	var once sync.Once
	pools := map[string]local.Pool{
		"first":  step(func() { begun.Add(1) }),
		"second": step(func() {}),
		"third":  step(func() { once.Do(func() { first.Store(begun.Load()); took = time.Since(began) }) }),
	}
	spec := job.Spec{
		Name: "bench", Files: &job.Files{Input: []string{args[0]}}, Output: args[1],
		Stages: []job.Stage{{Name: "first", Pool: "first"}, {Name: "second", Pool: "second"}, {Name: "third", Pool: "third"}},
	}
	done, err := local.Run(context.Background(), spec, worker.Handler{}, local.Options{Pools: pools, State: args[2], Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	share := 100 * float64(first.Load()) / float64(max(1, done.Planned))
	failure := ""
	if share >= 10 {
		failure = fmt.Sprintf("%.1f %% of the input had been begun", share)
	}
	if err := os.WriteFile(args[1]+".failure", []byte(failure), 0o600); err != nil {
		return err
	}
	return report(args[1], took, fmt.Sprintf("with %d of %d items begun: %.1f %%", first.Load(), done.Planned, share))
}

// feedStages compares calls of one item of a feed with three stages with those of a feed with one, in turn on the same
// server.
func feedStages(args []string, calls int) error {
	three := job.Spec{Stages: []job.Stage{{Name: "a", Pool: "bench"}, {Name: "b", Pool: "bench"}, {Name: "c", Pool: "bench"}}}
	f, err := startFeeding(args, worker.Each(echo), worker.Options{}, three)
	if err != nil {
		return err
	}
	ctx := context.Background()
	one := job.Spec{Name: "one", Pool: "bench", Feed: &job.Feed{}, Output: args[1] + ".one", Store: args[2] + "/one"}
	run, err := f.client.Start(ctx, one, nil)
	if err != nil {
		return err
	}
	staged, single := feed[int](f), jobs.NewFeed[int, int](f.client, "one", jobs.FeedOptions{})
	defer staged.Release()
	defer single.Release()
	times, err := inTurn(calls,
		func(i int) error { _, err := staged.Call(ctx, i); return err },
		func(i int) error { _, err := single.Call(ctx, i); return err })
	if err != nil {
		return err
	}
	if err := single.Close(ctx); err != nil {
		return err
	}
	if _, err := run.Wait(ctx); err != nil {
		return err
	}
	p50, p99 := quantiles(times[0])
	one50, one99 := quantiles(times[1])
	return f.end(p50, fmt.Sprintf("p99 %v; one stage: p50 %v, p99 %v; ratios %.2f and %.2f", brief(p99), brief(one50), brief(one99),
		float64(p50)/float64(one50), float64(p99)/float64(one99)))
}

// inTurn times so many calls of each function, in turn; the first tenth is for nothing.
func inTurn(calls int, fns ...func(i int) error) ([][]time.Duration, error) {
	all := make([][]time.Duration, len(fns))
	for round := range 10 {
		for i, fn := range fns {
			times, err := timed(calls/10, fn)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[i] = append(all[i], times...)
			}
		}
	}
	return all, nil
}
