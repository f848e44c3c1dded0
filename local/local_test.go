package local_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

var silent = slog.New(slog.DiscardHandler)

// box is a new directory for a job.
type box struct {
	t      *testing.T
	dir    string
	output string
	ctx    context.Context // of streams; nil: the test's
}

func setup(t *testing.T) *box {
	t.Helper()
	dir := t.TempDir()
	return &box{t: t, dir: dir, output: filepath.Join(dir, "out.txt")}
}

// spec makes a job over the lines, of a batch each.
func (b *box) spec(lines ...string) job.Spec {
	b.t.Helper()
	input := filepath.Join(b.dir, "in.txt")
	require.NoError(b.t, os.WriteFile(input, []byte(strings.Join(lines, "\n")), 0o600))
	return job.Spec{Name: "job", Files: &job.Files{Input: []string{input}}, Output: b.output, BatchItems: 1, Backoff: time.Millisecond}
}

func (b *box) options() local.Options {
	return local.Options{State: filepath.Join(b.dir, "state"), Worker: worker.Options{Slots: 1, Logger: silent}}
}

func (b *box) requireOutput(want string) {
	b.t.Helper()
	got, err := os.ReadFile(b.output)
	require.NoError(b.t, err)
	require.Equal(b.t, want, string(got))
}

var upper = worker.Each(func(_ context.Context, item string) (string, error) {
	if item == "bad" {
		return "", errors.New("no upper case")
	}
	return strings.ToUpper(item), nil
})

func TestRun_ReportsWhatBecameOfTheItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	report, err := local.Run(t.Context(), b.spec("a", "bad", "b"), upper, b.options())
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 2, report.OK)
	require.EqualValues(t, 1, report.Failed)
	require.Equal(t, "no upper case", report.FirstError.Error.Message)
	b.requireOutput("\"A\"\n\"B\"\n")
	require.FileExists(t, b.output+".errors.jsonl")
}

// Without State nothing stays but the output, and the job needs no name.
func TestRun_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec := b.spec("a")
	spec.Name = ""
	report, err := local.Run(t.Context(), spec, upper, local.Options{Worker: worker.Options{Logger: silent}})
	require.NoError(t, err)
	b.requireOutput("\"A\"\n")
	require.NotEmpty(t, report.Manifests)
	for _, manifest := range report.Manifests {
		require.NoFileExists(t, manifest)
		require.NoDirExists(t, filepath.Dir(manifest))
	}
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "input and output")
}

func TestRun_WritesResults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec, options := b.spec(), b.options()
	spec.Files.Input, spec.Output, spec.Format = []string{"-"}, "", "text"
	var results bytes.Buffer
	options.Results, options.Worker.Stdin = &results, strings.NewReader("a\nb\n")
	report, err := local.Run(t.Context(), spec, upper, options)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.OK)
	require.Equal(t, "\"A\"\n\"B\"\n", results.String())
}

func TestRun_Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		change     func(*job.Spec, *local.Options)
	}{
		{"no input", "no input", func(s *job.Spec, _ *local.Options) { s.Files.Input = nil }},
		{"a missing input", "missing.txt", func(s *job.Spec, _ *local.Options) { s.Files.Input = []string{"missing.txt"} }},
		{"no output", "set Spec.Output, or Options.Results", func(s *job.Spec, _ *local.Options) { s.Output = "" }},
		{"no name with a state", "job name is empty", func(s *job.Spec, _ *local.Options) { s.Name = "" }},
		{"a bad interval", "ProgressInterval -1s", func(_ *job.Spec, o *local.Options) { o.ProgressInterval = -time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			spec, options := b.spec("a"), b.options()
			c.change(&spec, &options)
			_, err := local.Run(t.Context(), spec, upper, options)
			require.ErrorContains(t, err, c.want)
			require.NoDirExists(t, options.State)
		})
	}
}

func TestRun_NeedsALivingContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	_, err := local.Run(ctx, b.spec("a"), upper, b.options())
	require.EqualError(t, err, "too late")
	require.NoDirExists(t, b.options().State)
}

func TestRun_AFailedJobIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec := b.spec("bad", "bad")
	spec.OnError = job.OnErrorStop
	report, err := local.Run(t.Context(), spec, upper, b.options())
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, job.Failed, report.State)
	require.Equal(t, "job", report.Job)
}

// counting makes a handler that counts its calls, and stands still over the item "stand" until its
// context ends.
func counting(calls *atomic.Int64, stands func()) worker.Handler {
	return worker.Each(func(ctx context.Context, item string) (string, error) {
		if item == "stand" && stands != nil {
			stands()
			<-ctx.Done()
			return "", ctx.Err()
		}
		calls.Add(1)
		return item, nil
	})
}

func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

// The end of the context stops the job, with grace; the next Run of the same state continues.
func TestRun_TheContextStopsTheJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec := b.spec(append(numbers(5), "stand", "x")...)
	spec.Grace = 2 * time.Second // of which only the item that stands needs all
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	others := make(chan struct{})
	var calls atomic.Int64
	handler := worker.Each(func(ctx context.Context, item string) (string, error) {
		if item == "stand" {
			<-others
			cancel(enough)
			<-ctx.Done()
			return "", ctx.Err()
		}
		if calls.Add(1) == 6 {
			close(others)
		}
		return item, nil
	})
	options := b.options()
	options.Worker.Slots = 2
	report, err := local.Run(ctx, spec, handler, options)
	require.ErrorIs(t, err, enough)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, "enough", report.Reason)
	require.NoFileExists(t, b.output)
	require.EqualValues(t, 6, report.Done())

	var mu sync.Mutex
	var notes []string
	options.Note = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, text)
	}
	report, err = local.Run(t.Context(), spec, counting(&calls, nil), options)
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 6, report.Resumed)
	require.EqualValues(t, 7, calls.Load(), "nothing that is recorded is run again")
	require.Equal(t, []string{"continuing job: 6 items already done"}, notes)
}

// Abort ends Run and leaves the job as it is; the next Run of the same state continues.
func TestRun_Abort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec := b.spec(append(numbers(5), "stand", "x")...)
	options := b.options()
	abort := make(chan struct{})
	options.Abort = abort
	options.Worker.Drain = 100 * time.Millisecond
	var calls atomic.Int64
	var once sync.Once
	_, err := local.Run(t.Context(), spec, counting(&calls, func() { once.Do(func() { close(abort) }) }), options)
	require.Error(t, err)
	require.NoFileExists(t, b.output)
	report, err := local.Run(t.Context(), spec, counting(&calls, nil), b.options())
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 7, report.OK)
}

// A job that has completed is run afresh, and so is any with Fresh.
func TestRun_Afresh(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var calls atomic.Int64
	for range 2 {
		_, err := local.Run(t.Context(), b.spec("a"), counting(&calls, nil), b.options())
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, calls.Load())

	b = setup(t)
	spec := b.spec("a", "stand")
	spec.Grace = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls.Store(0)
	called := make(chan struct{})
	options := b.options()
	options.Worker.Slots = 2 // "stand" may come first
	_, err := local.Run(ctx, spec, worker.Each(func(ctx context.Context, item string) (string, error) {
		if item == "stand" {
			<-called
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}
		calls.Add(1)
		close(called)
		return item, nil
	}), options)
	require.ErrorIs(t, err, context.Canceled)
	options = b.options()
	options.Fresh = true
	report, err := local.Run(t.Context(), spec, counting(&calls, nil), options)
	require.NoError(t, err)
	require.Zero(t, report.Resumed)
	require.EqualValues(t, 3, calls.Load())
}

func TestRun_TellsHowItGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	options := b.options()
	options.ProgressInterval = time.Millisecond
	options.UI, options.Worker.Metrics = true, "0"
	seen := make(chan struct{})
	var once sync.Once
	options.Progress = func(r job.Report) {
		if r.OK > 0 {
			once.Do(func() { close(seen) })
		}
	}
	var addresses local.Addresses
	options.Ready = func(a local.Addresses) { addresses = a }
	var calls atomic.Int64
	handler := worker.Each(func(ctx context.Context, item string) (string, error) {
		if calls.Add(1) == 2 { // whichever item that is
			select {
			case <-seen:
			case <-ctx.Done():
			}
		}
		return item, ctx.Err()
	})
	report, err := local.Run(t.Context(), b.spec("a", "b"), handler, options)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.OK)
	require.NotEmpty(t, addresses.Temporal)
	require.NotEmpty(t, addresses.Metrics)
	require.True(t, strings.HasPrefix(addresses.UI, "http://"), addresses.UI)
}

// A job never writes over the state that the server is using.
func TestRun_NeverWritesOverItsState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec, options := b.spec("a"), b.options()
	spec.Output = filepath.Join(options.State, "temporal", "temporal.db")
	options.Worker.Allow = []string{worker.AllowAll}
	report, err := local.Run(t.Context(), spec, upper, options)
	require.ErrorAs(t, err, new(*jobs.FailedError))
	require.Contains(t, report.Error.Message, "belongs to the worker itself")
}

// TestD25_FlagsOfACommandThatContinuesAKilledJob: settings count, and of the rest it says that they do not.
func TestD25_FlagsOfACommandThatContinuesAKilledJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	spec, o := b.spec("a", "b"), b.options()
	abort := make(chan struct{})
	o.Abort, o.Worker.Drain = abort, 100*time.Millisecond
	var once, once2 sync.Once
	_, err := local.Run(t.Context(), spec, worker.Each(func(ctx context.Context, _ string) (string, error) {
		once.Do(func() { close(abort) })
		<-ctx.Done()
		return "", ctx.Err()
	}), o)
	require.Error(t, err)
	o.Abort = nil
	var notes []string
	o.Note = func(text string) { notes = append(notes, text) }
	spec.MaxFailed, spec.Errors, spec.JobRate = "7", filepath.Join(b.dir, "other.jsonl"), 1_000_000
	set := make(chan struct{})
	o.ProgressInterval = 20 * time.Millisecond
	o.Progress = func(report job.Report) {
		if m := report.Settings.MaxFailed; m != nil && *m == spec.MaxFailed {
			once2.Do(func() { close(set) })
		}
	}
	report, err := local.Run(t.Context(), spec, worker.Each(func(ctx context.Context, item string) (string, error) {
		select { // the job runs until the settings have reached it
		case <-set:
			return item, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}), o)
	require.NoError(t, err)
	require.Equal(t, job.Tolerance("7"), *report.Settings.MaxFailed, "%q %+v", notes, report)
	require.Equal(t, job.Rate(1_000_000), *report.Settings.Rate)
	require.Contains(t, strings.Join(notes, "\n"), "what is given now for errors does not count for it")
}
