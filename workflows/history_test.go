package workflows_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/orphans"
	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stint-run/stint/workflows"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// With -record the histories of the jobs below are written to testdata, where TestReplay finds
// them: do so, under new names, when a change to the workflows is released.
var record = flag.Bool("record", false, "write recorded histories to testdata")

// server is one Temporal server, client and coordinating worker for all tests here.
type server struct {
	address  string
	temporal client.Client
	client   *jobs.Client
}

var quiet = slog.New(slog.DiscardHandler)

var theServer = sync.OnceValues(func() (*server, error) {
	ctx := context.Background()
	temporal, err := testserver.Start(ctx)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(client.Options{HostPort: temporal.Address(), Namespace: testserver.Namespace, Logger: log.NewStructuredLogger(quiet)})
	if err != nil {
		return nil, err
	}
	echo := func(_ context.Context, text string) (string, error) { return text, nil }
	coordinator, err := worker.New(jobs.NewClient(c, nil), "coordinator", worker.Each(echo), worker.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	stop := serve(coordinator)
	workflows.StopServer = func() {
		stop()
		c.Close()
		temporal.Stop()
	}
	return &server{address: temporal.Address(), temporal: c, client: jobs.NewClient(c, nil)}, nil
})

// serve runs a worker until stop is called.
func serve(w *worker.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx) // a job that it does not serve shows that it failed
	}()
	return func() { cancel(); <-ended }
}

func setup(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server")
	}
	s, err := theServer()
	require.NoError(t, err)
	return s
}

// theJob is one job of a test.
type theJob struct {
	t    *testing.T
	s    *server
	spec job.Spec
	run  *jobs.Run
	ids  []string // of the runs started, each a first run ID

	mu     sync.Mutex
	do     handler                      // nil: an item's result is the item
	dies   func(wire.ProcessInput) bool // whether the worker dies with a batch; nil: it does not
	fails  func(input any) error        // what an activity fails with, instead of being carried out; nil: nothing
	hook   func(worker.HookCall)
	stages []string // for which the hook was called
}

type handler func(ctx context.Context, text string) (string, error)

// slots is how many batches of a job run at once.
const slots = 4

// on says what is to be done to items from now on.
func (j *theJob) on(do handler) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.do = do
}

func (j *theJob) handle(ctx context.Context, text string) (string, error) {
	j.mu.Lock()
	do := j.do
	j.mu.Unlock()
	if do == nil {
		return text, nil
	}
	return do(ctx, text)
}

// newJob makes a job over n items "name i …", with its own pool and worker.
func (s *server) newJob(t *testing.T, name string, n int, tail string) *theJob {
	t.Helper()
	return s.newJobVia(t, s.temporal, name, n, tail)
}

// newJobVia is newJob with a client for the worker.
func (s *server) newJobVia(t *testing.T, via client.Client, name string, n int, tail string) *theJob {
	t.Helper()
	dir := t.TempDir()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%s %d %s\n", name, i, tail)
	}
	input := filepath.Join(dir, "in.txt")
	require.NoError(t, os.WriteFile(input, []byte(text.String()), 0o666))
	j := &theJob{t: t, s: s, spec: job.Spec{
		Name: name, Pool: name, Files: &job.Files{Input: []string{input}}, Output: filepath.Join(dir, "out.txt"),
		BatchItems: 10, Expiry: 2 * time.Second, Grace: 30 * time.Second, Backoff: 10 * time.Millisecond,
	}}
	dead := make(chan struct{})
	c, err := client.NewClientFromExisting(via, client.Options{
		Logger: log.NewStructuredLogger(quiet), Interceptors: []interceptor.ClientInterceptor{&mortal{j: j, dead: dead}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w, err := worker.New(jobs.NewClient(c, nil), j.spec.Pool, worker.Each(j.handle), worker.Options{
		Slots: slots, Logger: quiet, NoWorkflows: true, Drain: time.Second, Hooks: map[string]worker.Hook{"note": j.noting},
	})
	require.NoError(t, err)
	t.Cleanup(serve(w))
	t.Cleanup(func() { close(dead) })
	return j
}

func (j *theJob) start(o jobs.StartOptions) *theJob {
	j.t.Helper()
	run, err := j.s.client.Start(j.t.Context(), j.spec, &o)
	require.NoError(j.t, err)
	j.run = run
	j.ids = append(j.ids, run.ID())
	return j
}

// wait waits for the job's end.
func (j *theJob) wait() (job.Report, error) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), 10*time.Minute)
	defer cancel()
	return j.run.Wait(ctx)
}

func (j *theJob) completes() job.Report {
	j.t.Helper()
	report, err := j.wait()
	require.NoError(j.t, err)
	require.Equal(j.t, job.Completed, report.State)
	require.Equal(j.t, report.Planned, report.Done())
	require.Equal(j.t, j.ids[len(j.ids)-1], report.Run)
	data, err := os.ReadFile(j.spec.Output)
	require.NoError(j.t, err)
	require.EqualValues(j.t, report.OK-report.Dropped, bytes.Count(data, []byte{'\n'}))
	return report
}

// histories are those of the last run of the job and of its legs, by name.
func (j *theJob) histories(legs int) map[string]*history.History {
	j.t.Helper()
	all := map[string]*history.History{}
	follow := func(name, id, run string) {
		for n := 1; run != "" || n == 1; n++ {
			var h history.History
			next := ""
			iter := j.s.temporal.GetWorkflowHistory(j.t.Context(), id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for iter.HasNext() {
				event, err := iter.Next()
				require.NoError(j.t, err)
				h.Events = append(h.Events, event)
				next = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
			}
			if n > 1 {
				name = fmt.Sprintf("%s-run-%d", name, n)
			}
			all[name] = &h
			run = next
		}
	}
	follow("job", j.spec.Name, j.ids[len(j.ids)-1])
	for leg := 1; leg < legs; leg++ {
		follow(fmt.Sprintf("leg-%d", leg), wire.LegID(j.spec.Name, leg), "")
	}
	return all
}

// G8: at most six events a batch over all histories of a job, and no item in any of them.
func TestHistory_EventsPerBatch(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const batches, marker = 300, "MARKER-IN-EVERY-ITEM"
	j := s.newJob(t, "events-per-batch", 10*batches, marker)
	j.on(func(_ context.Context, text string) (string, error) {
		if strings.Contains(text, "7 ") {
			return "", errors.New("this item failed")
		}
		return text, nil
	})
	report := j.start(jobs.StartOptions{}).completes()
	require.EqualValues(t, batches, report.Batches)
	require.Positive(t, report.Failed)
	events, bytesOf := 0, 0
	for name, h := range j.histories(report.Legs) {
		data, err := proto.Marshal(h)
		require.NoError(t, err)
		require.NotContains(t, string(data), marker, "in %s", name)
		t.Logf("%s: %d events, %d bytes", name, len(h.Events), len(data))
		events += len(h.Events)
		bytesOf += len(data)
	}
	perBatch := float64(events) / batches
	t.Logf("%.2f events and %d bytes a batch", perBatch, bytesOf/batches)
	// Three of the activity, and at most three of a workflow task: how many ends share one depends on how
	// fast they come. The rest is the job's and the leg's own.
	require.LessOrEqual(t, perBatch, 6.4)
	require.Less(t, bytesOf/batches, 2000)
}

// M9: jobs on a real server, each with the expected result, and samples of their lives. Their histories replay, and with
// -record are kept.
func TestHistory_Jobs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		slow bool // only with -record
		run  func(t *testing.T, s *server, name string) (*theJob, job.Report)
	}{
		{"inline", false, runInline},
		{"legs", false, runLegs},
		{"overlap", true, runOverlap},
		{"stopped", false, runStopped},
		{"resumed", false, runResumed},
		{"paused", false, runPaused},
		{"redriven", false, runRedriven},
		{"changed", false, runChanged},
		{"orphaned", false, runOrphaned},
		{"expired", true, runExpired},
		{"narrowed", false, runNarrowed},
		{"outage", false, runOutage},
		{"tolerant", false, runTolerant},
		{"slowed", false, runSlowed},
		{"hooked", false, runHooked},
		{"leftovers", true, runLeftovers},
		{"salvaged", false, runSalvaged},
		{"staged", false, runStaged},
		{"graph", false, runGraph},
		{"feed", false, runFeed},
		{"feed-resumed", false, runFeedResumed},
		{"loop", false, runLoop},
		{"loop-renewed", false, runLoopRenewed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.slow && !*record {
				t.Skip("only with -record")
			}
			s := setup(t)
			j, report := test.run(t, s, "job-"+test.name)
			requireSampled(t, report)
			for name, h := range j.histories(report.Legs) {
				require.NoError(t, replay(h), name)
				if *record {
					keep(t, test.name+"-"+name, h)
				}
			}
		})
	}
}

// requireSampled fails unless the samples of a job show what its report counts: M9, of jobs of every kind.
func requireSampled(t *testing.T, r job.Report) {
	t.Helper()
	require.Nil(t, r.Life)
	require.NotEmpty(t, r.Samples)
	last := r.Samples[len(r.Samples)-1]
	require.Equal(t, []int64{r.OK, r.Failed, r.Reused}, []int64{last.OK, last.Failed, last.Reused})
	if r.Ended != nil {
		require.False(t, last.At.After(*r.Ended))
	}
}

// runInline is a job of one page, with failed and dropped items.
func runInline(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 100, "")
	j.spec.Report = filepath.Join(filepath.Dir(j.spec.Output), "report.json")
	j.on(func(_ context.Context, text string) (string, error) {
		switch {
		case strings.HasSuffix(text, "3 "):
			return "", errors.New("no threes")
		case strings.HasSuffix(text, "4 "):
			return "", worker.Drop
		}
		return text, nil
	})
	report := j.start(jobs.StartOptions{}).completes()
	require.EqualValues(t, 10, report.Failed)
	require.EqualValues(t, 10, report.Dropped)
	require.EqualValues(t, 3, report.FirstError.Item)
	require.Equal(t, 1, report.Legs)
	require.FileExists(t, j.spec.Report)
	return j, report
}

// runLegs is a job with a leg, which gets its places from the first page's.
func runLegs(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.spec.Window = 6
	report := j.start(jobs.StartOptions{}).completes()
	require.Equal(t, 2, report.Legs)
	require.EqualValues(t, 400, report.OK)
	return j, report
}

// runOverlap is a job with two legs, the first with a full page.
func runOverlap(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 650, "")
	j.spec.BatchItems = 1
	report := j.start(jobs.StartOptions{}).completes()
	require.Equal(t, 3, report.Legs)
	return j, report
}

// halfWay makes the items of a job wait, from one of them on, and returns when every slot has one.
func (j *theJob) halfWay(from int) (release func()) {
	return j.startAndHold(func(text string) bool {
		n, err := j.number(text)
		return err != nil || n >= from
	})
}

// startAndHold makes some items of the job wait, and returns when every slot has one.
func (j *theJob) startAndHold(waits func(text string) bool) (release func()) {
	waiting, released := make(chan struct{}, 4000), make(chan struct{})
	j.on(func(ctx context.Context, text string) (string, error) {
		if waits(text) {
			waiting <- struct{}{}
			select {
			case <-released:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	for range slots {
		select {
		case <-waiting:
		case <-time.After(10 * time.Minute):
			require.Fail(j.t, "the job did not get so far")
		}
	}
	return sync.OnceFunc(func() { close(released) })
}

// runStopped is a job that is stopped while a leg runs: the items in hand are finished, the rest is not.
func runStopped(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	release := j.halfWay(201)
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{Reason: "lunch"}))
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		report, err := j.run.Report(ctx)
		return err == nil && report.State == job.Stopping
	}, 10*time.Minute, 10*time.Millisecond)
	j.awaitNotice(wire.LegID(name, 1))
	release()
	report, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, "lunch", report.Reason)
	require.Empty(t, report.Stragglers)
	require.GreaterOrEqual(t, report.OK, int64(160+slots), "the first page, and what was in hand")
	require.Less(t, report.OK, int64(400))
	require.NoFileExists(t, j.spec.Output)
	return j, report
}

// awaitNotice waits until a stop has reached a leg: from then on its batches get the notice.
func (j *theJob) awaitNotice(leg string) {
	j.t.Helper()
	require.Eventually(j.t, func() bool {
		desc, err := j.s.temporal.DescribeWorkflowExecution(j.t.Context(), leg, "")
		return err == nil && desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[wire.MemoStop] != nil
	}, 10*time.Minute, 10*time.Millisecond)
}

// runStaged has two stages, of one pool.
func runStaged(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.spec.Stages = []job.Stage{{Name: "clean", Pool: j.spec.Pool}, {Name: "score", Pool: j.spec.Pool}}
	j.on(func(_ context.Context, text string) (string, error) {
		if strings.Contains(text, "33") {
			return "", errors.New("no thirty-threes")
		}
		return text, nil
	})
	report := j.start(jobs.StartOptions{}).completes()
	require.EqualValues(t, 400, report.OK+report.Failed)
	require.Positive(t, report.Failed)
	return j, report
}

// runGraph has a switch, whose router's answer is of a case for one item and of none but the default for the others,
// and an ensemble at its end with a member that has smaller batches.
func runGraph(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 100, "")
	pool := j.spec.Pool
	j.spec.Stages = []job.Stage{
		{
			Name: "route", Switch: pool, Cases: []job.Case{{Value: name + " 25 ", Stage: job.Stage{Name: "one", Pool: pool}}},
			Default: &job.Stage{Name: "other", Pool: pool},
		},
		{Name: "score", Ensemble: []job.Stage{{Name: "a", Pool: pool, BatchItems: 4}, {Name: "b", Pool: pool}}},
	}
	j.on(nil)
	report := j.start(jobs.StartOptions{}).completes()
	require.EqualValues(t, 100, report.OK)
	batches, done := map[string]int64{}, map[string]int64{}
	for _, stage := range report.Stages {
		batches[stage.Stage], done[stage.Stage] = stage.Batches, stage.Done
	}
	require.Equal(t, map[string]int64{"route": 10, "route.one": 1, "route.other": 10, "score.a": 30, "score.b": 30}, batches)
	require.Equal(t, map[string]int64{"route": 100, "route.one": 1, "route.other": 99, "score.a": 100, "score.b": 100}, done)
	return j, report
}

// runResumed continues a job that was stopped.
func runResumed(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j, stopped := runStopped(t, s, name)
	j.on(nil)
	report := j.start(jobs.StartOptions{Resume: stopped.Manifests}).completes()
	require.Equal(t, stopped.OK, report.Resumed, "nothing done twice that was recorded")
	require.EqualValues(t, 400, report.OK, "nothing missed")
	want, err := os.ReadFile(j.spec.Files.Input[0])
	require.NoError(t, err)
	require.Equal(t, string(want), j.plain(), "in input order")
	return j, report
}

// plain is the output, JSON strings, as the lines of text that these are.
func (j *theJob) plain() string {
	j.t.Helper()
	data, err := os.ReadFile(j.spec.Output)
	require.NoError(j.t, err)
	return strings.ReplaceAll(strings.ReplaceAll(string(data), "\"\n", "\n"), "\"", "")
}

// runRedriven is a job whose failed items are run again.
func runRedriven(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.on(func(_ context.Context, text string) (string, error) {
		if strings.Contains(text, "3") {
			return "", errors.New("no threes")
		}
		return text, nil
	})
	failed := j.start(jobs.StartOptions{}).completes().Failed
	require.Positive(t, failed)
	j.on(nil)
	run, err := s.client.Redrive(t.Context(), name, jobs.RedriveOptions{BatchItems: 3, Where: `kind=error message="no threes"`})
	require.NoError(t, err)
	j.run, j.ids = run, append(j.ids, run.ID())
	report := j.completes()
	require.Equal(t, failed, report.Redriven)
	require.EqualValues(t, 400, report.OK)
	return j, report
}

// runChanged is a job whose input changes while it runs.
func runChanged(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	release := j.halfWay(201)
	file, err := os.OpenFile(j.spec.Files.Input[0], os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = io.WriteString(file, "one more\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	release()
	report, err := j.wait()
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, job.Failed, report.State)
	require.Equal(t, job.ErrorChanged, report.Error.Type)
	require.Contains(t, report.Error.Message, "in.txt")
	return j, report
}

// runOrphaned is a job that is taken over while batches run, as after the death of `stint run`.
func runOrphaned(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.spec.Attempts = 1
	release := j.halfWay(201)
	running, err := orphans.End(t.Context(), s.temporal, testserver.Namespace, name)
	require.NoError(t, err)
	require.True(t, running)
	release()
	report := j.completes()
	require.Zero(t, report.Retries, "orphans cost no attempt")
	require.Zero(t, report.Expiries)
	return j, report
}

// runExpired is a job with a worker that dies once: its batch expires, and runs again.
func runExpired(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 60, "")
	j.spec.Expiry = time.Second
	var died atomic.Bool
	j.dies = func(in wire.ProcessInput) bool {
		return in.Batch.First <= 25 && 25 < in.Batch.End() && died.CompareAndSwap(false, true)
	}
	report := j.start(jobs.StartOptions{}).completes()
	require.EqualValues(t, 1, report.Expiries)
	require.EqualValues(t, 1, report.Retries)
	return j, report
}

// replay runs today's workflows over a history.
func replay(h *history.History) error {
	r := sdkworker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(workflows.Job, workflow.RegisterOptions{Name: wire.WorkflowJob})
	r.RegisterWorkflowWithOptions(workflows.Leg, workflow.RegisterOptions{Name: wire.WorkflowLeg})
	r.RegisterWorkflowWithOptions(workflows.LoopLeg, workflow.RegisterOptions{Name: wire.WorkflowLoopLeg})
	r.RegisterWorkflowWithOptions(workflows.FeedLeg, workflow.RegisterOptions{Name: wire.WorkflowFeedLeg})
	return r.ReplayWorkflowHistory(log.NewStructuredLogger(quiet), h)
}

// keep writes a history to testdata, compressed if it is long, in the place of an earlier recording in either form.
func keep(t *testing.T, name string, h *history.History) {
	t.Helper()
	data, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	require.NoError(t, err)
	const long = 32 << 10
	path := filepath.Join("testdata", name+".json")
	if len(data) > long {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		data, path = packed.Bytes(), path+".gz"
	}
	require.NoError(t, os.MkdirAll("testdata", 0o777))
	for _, before := range []string{name + ".json", name + ".json.gz"} {
		require.NoError(t, os.RemoveAll(filepath.Join("testdata", before)))
	}
	require.NoError(t, os.WriteFile(path, data, 0o666))
}

// Histories of released versions must replay with today's workflows, or a running job would break.
func TestReplay(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.json*")
	require.NoError(t, err)
	require.NotEmpty(t, paths, "record some with -record")
	earlier, err := filepath.Glob("testdata/[0-9]*/*.json*") // of releases: see docs/upgrading.md
	require.NoError(t, err)
	for _, path := range append(paths, earlier...) {
		t.Run(strings.TrimPrefix(path, "testdata/"), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, replay(read(t, path)))
		})
	}
}

// Each history is recorded once: an old recording in the other form would be replayed for ever, and say nothing of
// today's workflows.
func TestR27_OneRecordingOfEachHistory(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.json*")
	require.NoError(t, err)
	seen := map[string]string{}
	for _, path := range paths {
		name := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".json")
		require.Empty(t, seen[name], "%s is recorded twice", path)
		seen[name] = path
	}
}

func read(t *testing.T, path string) *history.History {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		r, err = gzip.NewReader(file)
		require.NoError(t, err)
	}
	h, err := client.HistoryFromJSON(r, client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}
