package worker_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	common "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
)

// patience bounds every wait in these tests. It is long because it only matters when something is
// broken.
const patience = 3 * time.Minute

// pollEvery is how often the server is asked about what cannot announce itself. Each question costs the server and a
// worker some work.
const pollEvery = 10 * time.Millisecond

var silent = slog.New(slog.DiscardHandler)

// cluster is a Temporal server, with a directory for inputs and outputs.
type cluster struct {
	t      *testing.T
	client client.Client
	dir    string
}

func setup(t *testing.T) *cluster {
	t.Helper()
	server, err := testserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	c, err := client.Dial(client.Options{HostPort: server.Address(), Logger: log.NewStructuredLogger(silent)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &cluster{t: t, client: c, dir: t.TempDir()}
}

// serving is a worker that runs.
type serving struct {
	t     *testing.T
	drain context.CancelFunc
	ready <-chan struct{}
	ended chan error
}

// serve runs a worker, which has ended when the test ends.
func (c *cluster) serve(h worker.Handler, o worker.Options) *serving {
	c.t.Helper()
	return c.servePool("pool", h, o)
}

// servePool is serve for a pool of another name.
func (c *cluster) servePool(pool string, h worker.Handler, o worker.Options) *serving {
	c.t.Helper()
	o.Logger = silent
	w, err := worker.New(jobs.NewClient(c.client, nil), pool, h, o)
	require.NoError(c.t, err)
	return c.run(w)
}

// run runs a worker, which has ended when the test ends.
func (c *cluster) run(w *worker.Worker) *serving {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	s := &serving{t: c.t, ready: w.Ready(), drain: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- w.Run(ctx) }()
	c.t.Cleanup(func() {
		s.drain()
		s.await()
	})
	return s
}

func (s *serving) await() {
	s.t.Helper()
	select {
	case err := <-s.ended:
		require.NoError(s.t, err)
		s.ended <- nil
	case <-time.After(patience):
		require.FailNow(s.t, "the worker does not end")
	}
}

// start starts a job over a file with this name and content.
func (c *cluster) start(name, content string, change func(*job.Spec)) (*jobs.Run, job.Spec) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(path, []byte(content), 0o600))
	spec := job.Spec{Name: "job", Pool: "pool", Files: &job.Files{Input: []string{path}}, Output: filepath.Join(c.dir, "out"), Backoff: time.Millisecond}
	if change != nil {
		change(&spec)
	}
	run, err := jobs.NewClient(c.client, nil).Start(c.t.Context(), spec, nil)
	require.NoError(c.t, err)
	return run, spec
}

// pass waits until a gate is closed.
func pass(ctx context.Context, gate <-chan struct{}) error {
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume resumes the job.
func (c *cluster) resume() *jobs.Run {
	c.t.Helper()
	run, err := jobs.NewClient(c.client, nil).Resume(c.t.Context(), "job", jobs.ResumeOptions{})
	require.NoError(c.t, err)
	return run
}

// terminateAtEachEvent resumes the job so many times, and terminates each run one event of its history later than the
// one before.
func (c *cluster) terminateAtEachEvent(runs int) {
	c.t.Helper()
	for events := range runs {
		c.terminateAfter(c.resume(), events)
	}
}

// terminateAfter terminates a run once its history has a number of events.
func (c *cluster) terminateAfter(run *jobs.Run, events int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	history := c.client.GetWorkflowHistory(ctx, "job", run.ID(), true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for n := range events {
		require.True(c.t, history.HasNext())
		_, err := history.Next()
		require.NoErrorf(c.t, err, "after %d of %d events", n, events)
	}
	require.NoError(c.t, c.client.TerminateWorkflow(ctx, "job", run.ID(), fmt.Sprintf("test, after %d events", events)))
}

func (c *cluster) wait(run *jobs.Run) job.Report {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	report, err := run.Wait(ctx)
	require.NoError(c.t, err)
	return report
}

func (c *cluster) read(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	require.NoError(c.t, err)
	return string(data)
}

// slowConverter takes longer than a second for the first payloads that workflow code reads, as on a machine that
// handlers use up.
type slowConverter struct {
	converter.DataConverter
	slow *sync.Once
}

func (c slowConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return slowReader(c)
}

func (c slowConverter) WithContext(context.Context) converter.DataConverter { return c.DataConverter }

// slowReader is a slowConverter in a workflow.
type slowReader struct {
	converter.DataConverter
	slow *sync.Once
}

func (r slowReader) FromPayloads(payloads *common.Payloads, to ...any) error {
	r.slow.Do(func() { time.Sleep(1500 * time.Millisecond) })
	return r.DataConverter.FromPayloads(payloads, to...)
}

// A machine that is slow is not taken for workflow code that runs for ever.
func TestWorker_SlowIsNoDeadlock(t *testing.T) {
	t.Parallel()
	c := setup(t)
	slow := slowConverter{converter.GetDefaultDataConverter(), new(sync.Once)}
	from, err := client.NewClientFromExisting(c.client, client.Options{DataConverter: slow, Logger: log.NewStructuredLogger(silent)})
	require.NoError(t, err)
	t.Cleanup(from.Close)
	w, err := worker.New(jobs.NewClient(from, &jobs.ClientOptions{DataConverter: slow}), "pool", worker.Each(func(_ context.Context, v int) (int, error) { return v, nil }), worker.Options{Logger: silent})
	require.NoError(t, err)
	c.run(w)
	run, _ := c.start("in.jsonl", "1\n2\n", nil)
	require.EqualValues(t, 2, c.wait(run).OK)
	slow.slow.Do(func() { t.Error("nothing was slow") })
	history := c.client.GetWorkflowHistory(t.Context(), "job", run.ID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		require.NoError(t, err)
		require.Nil(t, e.GetWorkflowTaskFailedEventAttributes())
	}
}

// TestWorker_CSVWithQuotedNewlines goes through a Go handler from end to end.
func TestWorker_CSVWithQuotedNewlines(t *testing.T) {
	t.Parallel()
	c := setup(t)
	var input bytes.Buffer
	var want strings.Builder
	w := csv.NewWriter(&input)
	require.NoError(t, w.Write([]string{"id", "note"}))
	for i := range 3000 {
		note := strings.Repeat("line\r\n\"quoted\", and more\n", i%5)
		require.NoError(t, w.Write([]string{fmt.Sprint(i), note}))
		fmt.Fprintf(&want, "\"%d has %d\"\n", i, strings.Count(strings.ReplaceAll(note, "\r\n", "\n"), "\n"))
	}
	w.Flush()
	type record struct {
		ID   string `json:"id"`
		Note string `json:"note"`
	}
	c.serve(worker.Each(func(_ context.Context, r record) (string, error) {
		return fmt.Sprintf("%s has %d", r.ID, strings.Count(r.Note, "\n")), nil
	}), worker.Options{})
	run, _ := c.start("in.csv", input.String(), func(s *job.Spec) { s.BatchItems = 170 })
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 3000, report.OK)
	require.Equal(t, want.String(), c.read("out"))
}

func TestWorker_FailuresAndPanicsEndNoJob(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, s string) (string, error) {
		switch {
		case strings.HasSuffix(s, "7"):
			panic(s)
		case strings.HasSuffix(s, "8"):
			return "", fmt.Errorf("no eights")
		case strings.HasSuffix(s, "9"):
			return "", worker.Drop
		}
		return s, nil
	}), worker.Options{Slots: 3})
	var input strings.Builder
	for i := range 100 {
		fmt.Fprintln(&input, i)
	}
	run, spec := c.start("in.txt", input.String(), func(s *job.Spec) { s.BatchItems = 6 })
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 80, report.OK)
	require.EqualValues(t, 10, report.Dropped)
	require.EqualValues(t, 20, report.Failed)
	require.EqualValues(t, 7, report.FirstError.Item)
	require.Equal(t, 70, strings.Count(c.read("out"), "\n"))
	require.Equal(t, 20, strings.Count(c.read(filepath.Base(spec.WithDefaults().Errors)), "\n"))
}

// TestWorker_DrainHandsTheRestOn (S15): the items in hand are finished, the others go to another
// worker at once, and none is run twice.
func TestWorker_DrainHandsTheRestOn(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const n = 40
	var runs [n]atomic.Int32
	var done atomic.Int32
	handle := worker.Each(func(_ context.Context, i int) (int, error) {
		runs[i].Add(1)
		time.Sleep(20 * time.Millisecond) // the item's work
		done.Add(1)
		return i, nil
	})
	first := c.serve(handle, worker.Options{Slots: 1, Drain: time.Hour})
	var input strings.Builder
	for i := range n {
		fmt.Fprintln(&input, i)
	}
	run, _ := c.start("in.jsonl", input.String(), func(s *job.Spec) { s.BatchItems, s.Expiry = n, time.Hour })
	require.Eventually(t, func() bool { return done.Load() > 5 }, patience, pollEvery)
	first.drain()
	first.await() // long before Options.Drain
	left := done.Load()
	require.Less(t, left, int32(n), "it did not wait for the batch")
	c.serve(handle, worker.Options{Slots: 1})
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.Zero(t, report.Retries)
	require.Equal(t, input.String(), c.read("out"))
	for i := range runs {
		require.EqualValues(t, 1, runs[i].Load(), "item %d", i)
	}
}

// TestWorker_DrainHasAnEnd: a handler that ignores the drain is left behind after Options.Drain.
func TestWorker_DrainHasAnEnd(t *testing.T) {
	t.Parallel()
	c := setup(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(release) })
	s := c.serve(worker.Each(func(ctx context.Context, i int) (int, error) {
		started <- struct{}{}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-release:
			return i, nil
		}
	}), worker.Options{Slots: 1, Drain: 500 * time.Millisecond})
	run, _ := c.start("in.jsonl", "1\n", nil)
	select {
	case <-started:
	case <-time.After(patience):
		require.FailNow(t, "the handler is not called")
	}
	began := time.Now()
	s.drain()
	s.await()
	require.Less(t, time.Since(began), 30*time.Second, "it has not waited for the default")
	c.serve(worker.Each(func(_ context.Context, i int) (int, error) { return i, nil }), worker.Options{})
	require.Equal(t, job.Completed, c.wait(run).State, "what was cut off is not a failure of the item")
	require.Equal(t, "1\n", c.read("out"))
}

func TestWorker_Lifecycle(t *testing.T) {
	t.Parallel()
	c := setup(t)
	h := worker.Exec("cat")
	_, err := worker.New(jobs.NewClient(c.client, nil), "No Pool", h, worker.Options{})
	require.ErrorContains(t, err, `pool name "No Pool"`)
	_, err = worker.New(jobs.NewClient(c.client, nil), "pool", worker.Handler{}, worker.Options{})
	require.Error(t, err)
	_, err = worker.New(jobs.NewClient(c.client, nil), "pool", h, worker.Options{Slots: -1})
	require.ErrorContains(t, err, "Slots -1")
	_, err = worker.New(jobs.NewClient(c.client, nil), "pool", worker.Exec("no-such-program-here"), worker.Options{})
	require.ErrorContains(t, err, "no-such-program-here")

	idle, err := worker.New(jobs.NewClient(c.client, nil), "pool", h, worker.Options{Logger: silent})
	require.NoError(t, err)
	idle.Close()
	idle.Close()
	require.Error(t, idle.Run(t.Context()), "it has been closed")

	w, err := worker.New(jobs.NewClient(c.client, nil), "pool", h, worker.Options{Logger: silent})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	w.Close()
	require.Error(t, w.Run(t.Context()), "it runs once")
}

func TestWorker_AllowedRoots(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(worker.Exec("cat"), worker.Options{Allow: []string{filepath.Join(c.dir, "below")}})
	run, _ := c.start("in.txt", "a\n", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	report, err := run.Wait(ctx)
	require.ErrorAs(t, err, new(*jobs.FailedError))
	require.Equal(t, job.Failed, report.State)
	require.Contains(t, report.Error.Message, "is outside what may be reached here")
	require.NoFileExists(t, filepath.Join(c.dir, "out"))
	require.NoDirExists(t, filepath.Join(c.dir, "out.stint"))
}

// A worker that is to end before its programs are ready ends as if they were.
func TestWorker_EndsWhileProgramsStart(t *testing.T) {
	t.Parallel()
	c := setup(t)
	program := filepath.Join(c.dir, "slow")
	jobtest.WriteProgram(t, program, "#!/bin/sh\ntouch begun\nexec cat\n")
	s := c.serve(worker.Serve(program), worker.Options{Dir: c.dir, Slots: 1})
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "begun"))
		return err == nil
	}, patience, pollEvery)
	select {
	case <-s.ready:
		require.Fail(t, "it is ready before its program is")
	default:
	}
	s.drain()
	s.await()

	s = c.serve(worker.Exec("cat"), worker.Options{})
	select {
	case <-s.ready:
	case <-time.After(patience):
		require.Fail(t, "it is not ready")
	}
}

// TestWorker_RolesCanBeSplit: one worker runs the batches only, another does all the rest.
func TestWorker_RolesCanBeSplit(t *testing.T) {
	t.Parallel()
	c := setup(t)
	pass := worker.Each(func(_ context.Context, v int) (int, error) { return v, nil })
	c.serve(pass, worker.Options{NoWorkflows: true, NoIO: true})
	run, _ := c.start("in.jsonl", "1\n2\n", nil)
	report, err := reportWithin(c, run, 2*time.Second)
	require.Error(t, err, "nobody coordinates: %v", report)
	c.serve(pass, worker.Options{})
	require.Equal(t, job.Completed, c.wait(run).State)
	require.Equal(t, "1\n2\n", c.read("out"))
}

func reportWithin(c *cluster, run *jobs.Run, limit time.Duration) (job.Report, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	return run.Report(ctx)
}
