package local

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// A job that was running when the process took the state over is the one that the command continues, however soon it
// completes: it is not run afresh, nor called completed by Resume, nor are its failed items run once more by Redrive.
func TestTakeOver_CompletesBeforeItIsLookedAt(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	dir := t.TempDir()
	input := filepath.Join(dir, "in.txt")
	require.NoError(t, os.WriteFile(input, []byte("a\nbad\nb\n"), 0o600))
	spec := job.Spec{Name: "job", Files: &job.Files{Input: []string{input}}, Output: filepath.Join(dir, "out.txt"), BatchItems: 1}
	options := Options{State: filepath.Join(dir, "state")}.withDefaults()
	options.Worker.Drain = 100 * time.Millisecond
	var calls atomic.Int64
	handler := worker.Each(func(_ context.Context, item string) (string, error) {
		calls.Add(1)
		if item == "bad" && fails.Load() {
			return "", &job.Error{Type: "Bad", Message: "bad"}
		}
		return item, nil
	})
	// cutOff begins a job, and ends its process in the middle.
	cutOff := func(begin func(h worker.Handler, o Options) (job.Report, error)) {
		abort := make(chan struct{})
		var once sync.Once
		o := options
		o.Abort = abort
		_, err := begin(worker.Each(func(ctx context.Context, _ string) (string, error) {
			once.Do(func() { close(abort) })
			<-ctx.Done()
			return "", ctx.Err()
		}), o)
		require.Error(t, err)
	}
	// goOn continues it in a process that looks at the job only when it has ended.
	goOn := func(named string, begin func(*run, context.Context, *jobs.Client) (*jobs.Run, error)) (report job.Report, notes []string) {
		o := options
		o.Note = func(text string) { notes = append(notes, text) }
		r := &run{o: o, ctx: t.Context(), state: o.State, named: named}
		r.begin = func(ctx context.Context, client *jobs.Client) (*jobs.Run, error) {
			if _, err := client.Get(spec.Name).Wait(ctx); err != nil {
				return nil, err
			}
			return begin(r, ctx, client)
		}
		if named == "" {
			require.NoError(t, r.complete(spec))
		}
		report, err := r.all(handler)
		require.NoError(t, err)
		require.Equal(t, job.Completed, report.State)
		return report, notes
	}
	start := func(h worker.Handler, o Options) (job.Report, error) { return Run(t.Context(), spec, h, o) }

	cutOff(start)
	report, notes := goOn("", (*run).startOrContinue)
	require.EqualValues(t, 3, calls.Load(), "each item is run once")
	require.Equal(t, []string{"continuing job"}, notes)
	require.EqualValues(t, 3, report.OK)

	cutOff(start)
	_, notes = goOn(spec.Name, func(r *run, ctx context.Context, client *jobs.Client) (*jobs.Run, error) {
		return r.resume(ctx, client, job.Settings{Window: new(3)})
	})
	require.EqualValues(t, 6, calls.Load())
	require.Equal(t, []string{"continuing job"}, notes)

	fails.Store(true)
	_, err := start(handler, options)
	require.NoError(t, err)
	require.EqualValues(t, 9, calls.Load())
	cutOff(func(h worker.Handler, o Options) (job.Report, error) {
		return Redrive(t.Context(), spec.Name, h, jobs.RedriveOptions{}, o)
	})
	report, notes = goOn(spec.Name, func(r *run, ctx context.Context, client *jobs.Client) (*jobs.Run, error) {
		return r.redrive(ctx, client, jobs.RedriveOptions{})
	})
	require.EqualValues(t, 10, calls.Load(), "the failed item is run again once")
	require.Equal(t, []string{"continuing the redrive of job"}, notes)
	require.EqualValues(t, 1, report.Redriven)
	require.EqualValues(t, 1, report.Failed)
	out, err := os.ReadFile(spec.Output)
	require.NoError(t, err)
	require.Equal(t, "\"a\"\n\"b\"\n", string(out))
}
