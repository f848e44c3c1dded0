package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// world is all that a job sees of the outside, simulated in the time of the workflow: the input,
// the store and the workers. Its activities are registered under the names of the real ones.
// Batches take time without holding anything up, and learn of a cancellation as on a server.
type world struct {
	t    *testing.T
	env  *testsuite.TestWorkflowEnvironment
	spec job.Spec

	items       int64 // of the input
	perBatch    int64
	pageLimit   int  // most batches of a page; 0: as many as are asked for
	waits       bool // the input is still being written: each page has what has come
	firstLimit  int  // batches of the first page; 0: as of the others
	resume      []string
	salvage     []wire.CommitInput
	redrive     *job.Redrive
	spent, lost job.Usage         // by earlier runs
	life        samples.Packed    // of earlier runs
	merged      wire.FinishResult // of a redrive
	version     int               // of the logic; the present one

	// What activities do, if a test needs something else than success. They are called one at
	// a time. process gets what would happen and changes it.
	process func(x *execution)
	plan    func(in wire.PlanInput) error
	commit  func(in wire.CommitInput) error
	finish  func(in wire.FinishInput) error
	report  func(in wire.ReportInput) error
	hook    func(in wire.HookInput) error
	// failures is what WriteFailures fails with.
	failures func(in wire.FailuresInput) error
	locate   func(in wire.LocateInput) error
	taker    *wire.SlotRef             // of executions that expired without a heartbeat; nil: not known
	ended    func(process string) bool // which workers' processes are known to have ended; nil: none
	// planner, if it is set, completes the result of the first page.
	planner func(r *wire.PlanResult)
	// inPlaceOfHook, if it gives a future, is the result of a hook.
	inPlaceOfHook func(ctx workflow.Context) workflow.Future
	// How long activities take: batches a moment.
	took, planTook, commitTook, finishTook, hookTook time.Duration
	settle                                           time.Duration // how long a cancelled batch takes to return its rest
	// historyLength is the length of history that workflows see; nil: 0.
	historyLength func() int
	// sent, if it is set, gets what a leg that runs by itself signals to the job that it believes to have.
	sent func(signal string, arg any)

	began []func() // to be called as the first run begins
	onEnv func()   // called with each further run's environment

	mu        sync.Mutex
	waiting   map[string]*execution // dispatched, by activity ID
	watched   map[any][]*execution  // by what their contexts are done with
	all       []*execution          // in the order of their dispatch
	flying    int
	most      int // flying at once
	manifests map[string]wire.CommitInput
	plans     []wire.PlanInput
	commits   []wire.CommitInput
	finishes  []wire.FinishInput
	redriven  []job.Redrive // of each PlanRedrive and FinishRedrive
	reports   []wire.ReportInput
	listed    []wire.FailuresInput
	hooks     []wire.HookInput
	legs      []wire.LegInput
	started   map[string]bool // legs, by ID
	hookLimit time.Duration   // of the last hook, however it ends
	hookEach  time.Duration   // of one try of it
	hookQueue string          // where that was sent
	offers    []time.Duration // how long each Plan waits for a worker to take it; 0: for ever
	summaries []string        // of activities and legs, in the order of their start
	commands  map[string]int  // by kind
	memo      map[string]any
	listening bool // for updates
	runs      int
}

const itemBytes = 10

// setup returns a world with an input of items and a spec with batches of ten.
func setup(t *testing.T, items int64) *world {
	t.Helper()
	w := &world{
		t: t, items: items, perBatch: 10,
		took: 100 * time.Microsecond, settle: time.Millisecond, version: wire.LogicVersion,
		spec: job.Spec{
			Name: "nightly", Pool: "thumbs", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl", BatchItems: 10, Window: 64,
		}.WithDefaults(),
		waiting: map[string]*execution{}, watched: map[any][]*execution{}, manifests: map[string]wire.CommitInput{},
		commands: map[string]int{}, memo: map[string]any{},
	}
	w.newEnv()
	return w
}

// doServed says that all pools are served.
func (w *world) doServed(context.Context, wire.ServedInput) (wire.ServedResult, error) {
	return wire.ServedResult{}, nil
}

func (w *world) newEnv() {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w.env = suite.NewTestWorkflowEnvironment()
	w.started = map[string]bool{}
	w.env.SetTestTimeout(20 * time.Second) // of real time without anything happening
	w.env.SetWorkerOptions(sdkworker.Options{
		Interceptors:             []interceptor.WorkerInterceptor{&spy{w: w}},
		DeadlockDetectionTimeout: time.Minute, // the race detector and other tests take their time, too
	})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{
		ID: w.spec.Name, TaskQueue: wire.WorkflowQueue,
	})
	w.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.started[info.WorkflowExecution.ID] = true
	})
	w.env.RegisterWorkflowWithOptions(Job, workflow.RegisterOptions{Name: wire.WorkflowJob})
	w.env.RegisterWorkflowWithOptions(Leg, workflow.RegisterOptions{Name: wire.WorkflowLeg})
	w.env.RegisterActivityWithOptions(w.doPlan, activity.RegisterOptions{Name: "Plan"})
	w.env.RegisterActivityWithOptions(w.doPlanRedrive, activity.RegisterOptions{Name: "PlanRedrive"})
	w.env.RegisterActivityWithOptions(w.doFinishRedrive, activity.RegisterOptions{Name: "FinishRedrive"})
	w.env.RegisterActivityWithOptions(w.doProcess, activity.RegisterOptions{Name: "Process"})
	w.env.RegisterActivityWithOptions(w.doCommit, activity.RegisterOptions{Name: "Commit"})
	w.env.RegisterActivityWithOptions(w.doFinish, activity.RegisterOptions{Name: "Finish"})
	w.env.RegisterActivityWithOptions(w.doReport, activity.RegisterOptions{Name: "WriteReport"})
	w.env.RegisterActivityWithOptions(w.doFailures, activity.RegisterOptions{Name: "WriteFailures"})
	w.env.RegisterActivityWithOptions(w.doHook, activity.RegisterOptions{Name: "Hook"})
	w.env.RegisterActivityWithOptions(w.doLocate, activity.RegisterOptions{Name: "Locate"})
	w.env.RegisterActivityWithOptions(w.doServed, activity.RegisterOptions{Name: "Served"})
}

// at has fn called at a time after the beginning of the job's first run.
func (w *world) at(d time.Duration, fn func()) {
	w.began = append(w.began, func() { w.env.RegisterDelayedCallback(fn, d) })
}

// later has fn called after some time of the workflow.
func (w *world) later(d time.Duration, fn func()) { w.env.RegisterDelayedCallback(fn, d) }

func (w *world) stop(s job.Stop) { w.env.SignalWorkflow(wire.SignalStop, s) }

// salvaged is what is to be salvaged as a client sends it.
func (w *world) salvaged() (all []json.RawMessage) {
	data, err := json.Marshal(w.salvage)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(data, &all))
	return all
}

// run runs the job over all its runs.
func (w *world) run() (job.Report, error) {
	w.t.Helper()
	in := wire.JobInput{StartInput: wire.StartInput{Spec: w.spec, Resume: w.resume, Redrive: w.redrive, Version: w.version, Salvage: w.salvaged(), Spent: w.spent, Lost: w.lost}}
	in.Life = w.life
	for {
		var report job.Report
		var next wire.JobInput
		again, err := w.runOnce(Job, in, &report, &next)
		if !again {
			w.requireLife(report, err)
			return report, err
		}
		in = next
	}
}

// requireLife fails unless the samples of a job that has ended add up to what its report counts.
func (w *world) requireLife(r job.Report, err error) {
	w.t.Helper()
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		r = job.Report{}
		_ = app.Details(&r) // there are none if the input was refused
	}
	life := r.Life.Series()
	sum := life.Sum()
	if w.life == nil || r.Planned > 0 { // it has counted what earlier runs have done
		require.Equal(w.t, []int64{r.OK, r.Failed, r.Reused}, sum[:samples.Expiries], "%s", r.State)
	}
	if w.life == nil {
		require.Equal(w.t, []int64{r.Expiries, r.Crashes, r.Retries}, sum[samples.Expiries:])
	}
	shown := r.WithSamples()
	require.Nil(w.t, shown.Life)
	require.LessOrEqual(w.t, len(shown.Samples), samples.Most)
	for i, s := range shown.Samples {
		if i > 0 {
			require.False(w.t, s.At.Before(shown.Samples[i-1].At))
		}
		if w.runs == 1 && r.Ended != nil { // with each run the clock of the environment begins anew
			require.False(w.t, s.At.After(*r.Ended), "%v, and the end is at %v", s.At, r.Ended)
		}
	}
	require.LessOrEqual(w.t, len(r.Slowest), limits.MaxSlowest)
}

// mustRun runs a job that has to complete.
func (w *world) mustRun() job.Report {
	w.t.Helper()
	report, err := w.run()
	require.NoError(w.t, err)
	require.Equal(w.t, job.Completed, report.State, "%+v", report)
	w.requireSettled()
	return report
}

// failedReport is the report in the details of a job's error of the type.
func (w *world) failedReport(err error, kind string) job.Report {
	w.t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(w.t, err, &app)
	require.Equal(w.t, kind, app.Type(), "%v", err)
	require.True(w.t, app.NonRetryable())
	var report job.Report
	require.NoError(w.t, app.Details(&report))
	require.Equal(w.t, job.Failed, report.State)
	require.Equal(w.t, kind, report.Error.Type)
	require.NotNil(w.t, report.Ended)
	return report
}

// requireSettled fails if something is still running, or if too much ran at once.
func (w *world) requireSettled() {
	w.t.Helper()
	require.Zero(w.t, w.flying)
	if w.spec.Window > 0 {
		require.LessOrEqual(w.t, w.most, w.spec.Window, "the window was exceeded")
	}
}

// runLeg runs a leg by itself, over all its runs.
func (w *world) runLeg(in wire.LegInput) (wire.LegResult, error) {
	w.t.Helper()
	for {
		var result wire.LegResult
		var next wire.LegInput
		again, err := w.runOnce(Leg, in, &result, &next)
		if !again {
			return result, err
		}
		in = next
	}
}

// runOnce runs a workflow once. If that continues in a new run, it reads its input into next.
func (w *world) runOnce(fn, in, result, next any) (again bool, err error) {
	w.t.Helper()
	if w.runs++; w.runs > 1 {
		w.newEnv()
		if w.onEnv != nil {
			w.onEnv()
		}
	}
	require.Less(w.t, w.runs, 50, "it continues as new for ever")
	began := w.began
	w.began = nil
	for _, fn := range began {
		fn()
	}
	w.env.ExecuteWorkflow(fn, in)
	require.True(w.t, w.env.IsWorkflowCompleted())
	err = w.env.GetWorkflowError()
	if goesOn, ok := errors.AsType[*workflow.ContinueAsNewError](err); ok {
		require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(goesOn.Input, next))
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, w.env.GetWorkflowResult(result)
}

// query asks the job for its report.
func (w *world) query() job.Report {
	w.t.Helper()
	value, err := w.env.QueryWorkflow(wire.QueryReport)
	require.NoError(w.t, err)
	var report job.Report
	require.NoError(w.t, value.Get(&report))
	return report
}

// progress asks a leg.
func (w *world) progress(leg int) (job.Progress, error) {
	var p job.Progress
	value, err := w.env.QueryWorkflowByID(wire.LegID(w.spec.Name, leg), wire.QueryProgress)
	if err != nil {
		return p, err
	}
	return p, value.Get(&p)
}

// batch is a range of the input.
func batch(first, count int64) wire.Batch {
	return wire.Batch{Offset: first * itemBytes, Length: count * itemBytes, First: first, Count: count}.Sealed()
}

// page makes a leg's page of n batches, the first at an ordinal.
func (w *world) page(first int64, n int) []byte {
	var batches []wire.Batch
	for i := range int64(n) {
		batches = append(batches, batch(first+i*w.perBatch, w.perBatch))
	}
	return wire.EncodePage(batches)
}

func (w *world) legInput(n int) wire.LegInput {
	return wire.LegInput{Spec: w.spec, LegState: wire.LegState{Number: 1, Window: w.spec.Window}, Page: w.page(0, n), Version: w.version}
}

// accepted lists the ranges that manifests account for, in order.
func (w *world) accepted(heads []string) []wire.Batch {
	var ranges []wire.Batch
	for _, e := range w.entries(heads) {
		ranges = append(ranges, e.Batch)
	}
	return ranges
}

// entries lists what manifests hold, in order.
func (w *world) entries(heads []string) []wire.Entry {
	var entries []wire.Entry
	seen := map[string]bool{}
	for todo := slices.Clone(heads); len(todo) > 0; {
		head := todo[0]
		todo = todo[1:]
		if seen[head] {
			continue
		}
		seen[head] = true
		manifest, ok := w.manifests[head]
		assert.True(w.t, ok, "manifest %q", head)
		todo = append(todo, manifest.Previous...)
		entries = append(entries, manifest.Entries...)
	}
	slices.SortFunc(entries, func(a, b wire.Entry) int { return int(a.First - b.First) })
	return entries
}

// tiled is up to which item the ranges tile the input.
func tiled(ranges []wire.Batch) int64 {
	next := int64(0)
	for _, b := range ranges {
		if b.First != next {
			break
		}
		next = b.End()
	}
	return next
}

// requireAccepted fails unless the manifests of a report account for exactly what it says is done.
func (w *world) requireAccepted(r job.Report) {
	w.t.Helper()
	total, next := int64(0), int64(0)
	for _, b := range w.accepted(r.Manifests) {
		require.GreaterOrEqual(w.t, b.First, next, "accepted twice")
		next = b.End()
		total += b.Count
	}
	require.Equal(w.t, r.Done(), total)
}

func (w *world) doPlan(ctx context.Context, in wire.PlanInput) (wire.PlanResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans = append(w.plans, in)
	if w.plan != nil {
		if err := w.plan(in); err != nil {
			return wire.PlanResult{}, err
		}
	}
	var result wire.PlanResult
	skip := w.accepted(in.Resume)
	if in.Ref.Sources == "" {
		result.Sources, result.Total = "sources", w.items*itemBytes
		for _, e := range w.entries(in.Resume) {
			result.Resumed.Add(job.Totals{OK: e.Count - e.Failed, Failed: e.Failed})
		}
		if w.planner != nil {
			w.planner(&result)
		}
	}
	var batches []wire.Batch
	next := in.From.Item
	limit := in.Batches
	if w.pageLimit > 0 {
		limit = min(limit, w.pageLimit)
	}
	if w.firstLimit > 0 && in.Ref.Sources == "" {
		limit = w.firstLimit
	}
	for len(batches) < limit {
		for len(skip) > 0 && skip[0].First <= next {
			next = max(next, skip[0].End())
			skip = skip[1:]
		}
		if next >= w.items {
			result.Done = true
			break
		}
		end := min(next+w.perBatch, w.items)
		if len(skip) > 0 {
			end = min(end, skip[0].First)
		}
		batches = append(batches, batch(next, end-next))
		next = end
	}
	result.Waiting = w.waits && !result.Done
	result.Page = wire.EncodePage(batches)
	result.Next = wire.Cursor{Offset: next * itemBytes, Item: next}
	return result, w.sleep(ctx, w.planTook, result)
}

// sleep completes an activity with its result after some time of the workflow.
func (w *world) sleep(ctx context.Context, d time.Duration, result any) error {
	if d == 0 {
		return nil
	}
	info := activity.GetInfo(ctx)
	env := w.env
	env.RegisterDelayedCallback(func() {
		assert.NoError(w.t, env.CompleteActivity(info.TaskToken, result, nil))
		w.wake(info.WorkflowExecution.ID)
	}, d)
	return activity.ErrResultPending
}

// wake has a leg look at what has ended; the environment does so only for the workflow under test.
func (w *world) wake(id string) {
	if id != w.spec.Name {
		_ = w.env.SignalWorkflowByID(id, "wake", nil) // it may have ended
	}
}

func (w *world) doCommit(ctx context.Context, in wire.CommitInput) (wire.CommitResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits = append(w.commits, in)
	if w.commit != nil {
		if err := w.commit(in); err != nil {
			return wire.CommitResult{}, err
		}
	}
	key := fmt.Sprintf("m-%d", len(w.commits))
	w.manifests[key] = in
	result := wire.CommitResult{Manifest: key}
	return result, w.sleep(ctx, w.commitTook, result)
}

func (w *world) doFinish(ctx context.Context, in wire.FinishInput) (wire.FinishResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishes = append(w.finishes, in)
	if w.finish != nil {
		if err := w.finish(in); err != nil {
			return wire.FinishResult{}, err
		}
	}
	if got := tiled(w.accepted(in.Manifests)); got != in.Planned {
		return wire.FinishResult{}, temporal.NewNonRetryableApplicationError(fmt.Sprintf("item %d of %d is missing", got, in.Planned), job.ErrorBooks, nil)
	}
	result := wire.FinishResult{Output: job.Output{Location: w.spec.Output, Bytes: 7}}
	if w.redrive != nil {
		result = w.merged
	}
	return result, w.sleep(ctx, w.finishTook, result)
}

func (w *world) doPlanRedrive(ctx context.Context, in wire.PlanRedriveInput) (wire.PlanResult, error) {
	w.mu.Lock()
	w.redriven = append(w.redriven, in.Redrive)
	w.mu.Unlock()
	return w.doPlan(ctx, in.PlanInput)
}

func (w *world) doFinishRedrive(ctx context.Context, in wire.FinishRedriveInput) (wire.FinishResult, error) {
	w.mu.Lock()
	w.redriven = append(w.redriven, in.Redrive)
	w.mu.Unlock()
	return w.doFinish(ctx, in.FinishInput)
}

func (w *world) doReport(_ context.Context, in wire.ReportInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, in)
	if w.report != nil {
		return w.report(in)
	}
	return nil
}

// someFailures are what WriteFailures finds.
var someFailures = []job.FailureGroup{{Kind: job.KindError, Type: "ValueError", Pattern: "no *", Count: 7, Item: 3, Message: "no 3"}}

func (w *world) doFailures(_ context.Context, in wire.FailuresInput) (wire.FailuresResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = append(w.listed, in)
	if w.failures != nil {
		return wire.FailuresResult{}, w.failures(in)
	}
	return wire.FailuresResult{Location: in.Spec.Errors, Failures: someFailures}, nil
}

func (w *world) doHook(ctx context.Context, in wire.HookInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks = append(w.hooks, in)
	if w.hook != nil {
		if err := w.hook(in); err != nil {
			return err
		}
	}
	return w.sleep(ctx, w.hookTook, nil)
}

// doLocate finds every batch in flight on its own worker.
func (w *world) doLocate(_ context.Context, in wire.LocateInput) (wire.LocateResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.locate != nil {
		if err := w.locate(in); err != nil {
			return wire.LocateResult{}, err
		}
	}
	var result wire.LocateResult
	for _, x := range w.all {
		if x.workflow == in.Workflow && !x.ended {
			result.Places = append(result.Places, wire.ActivitySlot{
				Activity: x.options.ActivityID, SlotRef: wire.SlotRef{Worker: fmt.Sprintf("host-%d", x.number), Slot: 1, PID: 1000 + x.number},
			})
		}
	}
	processes := in.Processes
	for _, silent := range in.Silent {
		if w.taker != nil {
			result.Places = append(result.Places, wire.ActivitySlot{Activity: silent, SlotRef: *w.taker})
			processes = append(processes, w.taker.Process)
		}
	}
	for _, process := range processes {
		if w.ended != nil && w.ended(process) {
			result.Ended = append(result.Ended, process)
		}
	}
	return result, nil
}

// Errors by which batches end.

func heartbeatTimeout() error { return temporal.NewHeartbeatTimeoutError() }

func transient(message string) error { return temporal.NewApplicationError(message, "Transient") }

func orphaned(details ...any) error {
	return temporal.NewNonRetryableApplicationError("the process that ran this has ended", wire.ErrorOrphaned, nil, details...)
}

func permanentError(kind string) error {
	return temporal.NewNonRetryableApplicationError("this cannot be mended: "+kind, kind, errors.New("cause"))
}

// requireSummaries fails unless each text is among the summaries.
func (w *world) requireSummaries(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		require.True(w.t, slices.Contains(w.summaries, text), "no %q among\n%s", text, strings.Join(w.summaries[:min(40, len(w.summaries))], "\n"))
	}
}

// anything matches any argument.
const anything = mock.Anything
