package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// fixture runs a handler over items as a job does, but without Temporal.
type fixture struct {
	t       *testing.T
	dir     string
	options Options
	limits  wire.CallLimits
	batch   int64
	grace   time.Duration // of a stop
	slice   time.Duration // of an execution
	flatten bool
	runs    int

	set      *slotSet // of the last run
	acts     *activities.Activities
	watchdog *watchdog.Watchdog
	metrics  *metrics
	stops    chan job.Stop
	defect   func(error) // of the worker's own goroutines

	measuring func(measurement) // before a measurement is taken in; may be nil

	mu       sync.Mutex
	events   []slotEvent
	measured []measurement
	log      logBuffer
	logged   logBuffer // by the handler
}

// logBuffer is what has been logged; it may be read meanwhile.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{
		t: t, dir: t.TempDir(), stops: make(chan job.Stop, 100), defect: func(err error) { t.Error(err) },
		limits: wire.CallLimits{Timeout: 10 * time.Minute, Attempts: 3, ItemAttempts: 1, Backoff: time.Millisecond},
	}
}

// sentinels sets the options for which tests have sizes and numbers of calls that withDefaults makes.
func (f *fixture) sentinels() {
	f.options.AutoConcurrency, f.options.OneItem = f.options.Concurrency == autoConcurrency, f.options.CallItems == oneItem
}

// open makes what a worker makes of a handler; it ends with the test.
func (f *fixture) open(h Handler) (service, error) {
	f.t.Helper()
	o := f.options.withDefaults()
	f.metrics = newMetrics("worker-1", "pool", slog.New(slog.NewTextHandler(io.MultiWriter(f.t.Output(), &f.log), nil)))
	watchdog := watchdog.New(watchdog.Options{MaxScope: frames.MaxScope, MaxTimers: frames.MaxTimers, OnEvent: f.metrics.timerEvent})
	f.watchdog = watchdog
	f.set = newSlotSet("worker-1", o, f.note)
	handler, service, err := h.open(dependencies{
		options: o, worker: "worker-1", log: slog.New(slog.NewTextHandler(io.MultiWriter(f.t.Output(), &f.logged), nil)), set: f.set, info: o.slotInfo("worker-1"), watchdog: watchdog,
		observe: f.note, measure: f.measure,
		requestStop: func(_ context.Context, name string, stop job.Stop) error {
			f.stops <- stop
			return nil
		},
		defect: func(err error) { f.defect(err) },
	})
	if err != nil {
		return nil, err
	}
	_, programs := service.(*host)
	f.t.Cleanup(f.metrics.Close)
	if err := f.metrics.open(o, f.set, watchdog, programs); err != nil {
		return nil, err
	}
	f.metrics.start()
	watchdog.Start()
	f.t.Cleanup(watchdog.Stop)
	f.acts = activities.New(activities.Options{Access: &store.Access{}, Handler: handler, Slots: f.set, Watchdog: watchdog, Observer: f.set.observed(f.metrics)})
	f.t.Cleanup(f.acts.Close)
	if service != nil {
		f.t.Cleanup(service.Close)
	}
	return service, nil
}

// serve opens and starts a handler.
func (f *fixture) serve(h Handler) {
	f.t.Helper()
	service, err := f.open(h)
	require.NoError(f.t, err)
	if service != nil {
		require.NoError(f.t, service.start(f.t.Context()))
	}
}

// running is the program of a slot; nil while there is none.
func (f *fixture) running(slot int) *program {
	s := f.set.slots[slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.program
}

// measurement is a value of a metric that a program has defined.
type measurement struct {
	Name  string
	Gauge bool
	Value float64
	Slot  int
}

// measure records a measurement.
func (f *fixture) measure(name string, gauge bool, slot int, value float64) {
	m := measurement{Name: name, Gauge: gauge, Value: value, Slot: slot}
	if f.measuring != nil {
		f.measuring(m)
	}
	f.metrics.measure(name, gauge, slot, value)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measured = append(f.measured, m)
}

// note records an event.
func (f *fixture) note(e slotEvent) {
	f.metrics.slotEvent(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

// happened returns the events of a kind so far.
func (f *fixture) happened(kind slotEventKind) []slotEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []slotEvent
	for _, e := range f.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// replaced waits until slots have been replaced this often, and returns how. A slot is replaced after the call in it
// has failed, which the job does not wait for.
func (f *fixture) replaced(times int) []slotEvent {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return len(f.happened(slotReplaced)) >= times }, 10*time.Minute, time.Millisecond)
	replaced := f.happened(slotReplaced)
	require.Len(f.t, replaced, times)
	return replaced
}

// outcome is the result of a run: what the items' outcomes are.
type outcome struct {
	output   string
	failures []job.Failure
	totals   job.Totals
	// slowDowns are the durations of the handler's slow-down requests.
	slowDowns []time.Duration
}

// run runs the handler over the items of a file with this name and content.
func (f *fixture) run(h Handler, name, content string) outcome {
	f.t.Helper()
	f.sentinels()
	require.NoError(f.t, h.Check(f.options))
	f.serve(h)
	return f.flowOf(name, content)
}

// flowOf runs the handler that is served.
func (f *fixture) flowOf(name, content string) outcome {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.WriteFile(path, []byte(content), 0o600))
	f.runs++
	output := filepath.Join(f.dir, "out"+strconv.Itoa(f.runs))
	spec := job.Spec{Name: "job", Pool: "pool", Files: &job.Files{Input: []string{path}}, Output: output, BatchItems: f.batch, Flatten: f.flatten}.WithDefaults()
	return f.flow(f.acts, spec)
}

// idleRests is how often in a row a batch may return without progress, as it does from a worker without
// slots.
const idleRests = 10

// flow stands for the workflows.
func (f *fixture) flow(acts *activities.Activities, spec job.Spec) outcome {
	f.t.Helper()
	ctx := f.t.Context()
	ref := wire.Ref{Job: spec.Name, Run: "run", Store: spec.Store}
	plan, err := acts.Plan(ctx, wire.PlanInput{Ref: ref, Spec: spec, Batches: 1000})
	require.NoError(f.t, err)
	require.True(f.t, plan.Done)
	ref.Sources = plan.Sources
	batches, err := wire.DecodePage(plan.Page)
	require.NoError(f.t, err)
	var result outcome
	var mu sync.Mutex
	var entries []wire.Entry
	var running errgroup.Group
	running.SetLimit(len(f.set.slots) * min(f.set.most(), 64))
	for _, batch := range batches {
		running.Go(func() error {
			idle := 0 // rests in a row without progress
			var trials []byte
			for next := &batch; next != nil; {
				done, err := acts.Process(ctx, wire.ProcessInput{
					Ref: ref, Batch: *next, Trials: trials, Calls: f.limits, Slice: f.slice, Flatten: spec.Flatten,
				})
				if err != nil {
					return err
				}
				if idle++; done.Entry.Count > 0 {
					idle = 0
				}
				trials = done.Trials
				if next = done.Rest; next != nil && idle == idleRests {
					return fmt.Errorf("%s was given back %d times in a row with nothing done: has the worker a slot left?", next, idle)
				}
				mu.Lock()
				if done.Entry.Count > 0 { // as a leg does
					entries = append(entries, done.Entry)
				}
				result.totals.Add(done.Totals)
				if done.SlowDown > 0 {
					result.slowDowns = append(result.slowDowns, done.SlowDown)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(f.t, running.Wait())
	committed, err := acts.Commit(ctx, wire.CommitInput{Ref: ref, Entries: entries})
	require.NoError(f.t, err)
	_, err = acts.Finish(ctx, wire.FinishInput{Ref: ref, Spec: spec, Manifests: []string{committed.Manifest}, Planned: plan.Next.Item})
	require.NoError(f.t, err)
	result.output = f.read(spec.Output)
	for line := range strings.Lines(f.read(spec.Errors)) {
		var failure job.Failure
		require.NoError(f.t, json.Unmarshal([]byte(line), &failure))
		result.failures = append(result.failures, failure)
	}
	return result
}

// process runs the handler that is served over one batch of these lines of text.
func (f *fixture) process(content string) (wire.ProcessResult, error) {
	f.t.Helper()
	return f.processUntil(f.t.Context(), content)
}

// processUntil does the same, and stops the batch, with the fixture's grace, when ctx ends.
func (f *fixture) processUntil(ctx context.Context, content string) (wire.ProcessResult, error) {
	f.t.Helper()
	path := filepath.Join(f.dir, "one.txt")
	require.NoError(f.t, os.WriteFile(path, []byte(content), 0o600))
	spec := job.Spec{Name: "job", Pool: "pool", Files: &job.Files{Input: []string{path}}, Output: filepath.Join(f.dir, "one"), BatchItems: 1000}.WithDefaults()
	ref := wire.Ref{Job: spec.Name, Run: "one", Store: spec.Store}
	plan, err := f.acts.Plan(f.t.Context(), wire.PlanInput{Ref: ref, Spec: spec, Batches: 10})
	require.NoError(f.t, err)
	ref.Sources = plan.Sources
	batches, err := wire.DecodePage(plan.Page)
	require.NoError(f.t, err)
	return f.acts.Process(ctx, wire.ProcessInput{Ref: ref, Batch: batches[0], Calls: f.limits, Grace: f.grace})
}

// stopped runs the handler that is served over one batch, and stops that as soon as begun is closed or
// has something.
func (f *fixture) stopped(content string, begun <-chan struct{}) wire.ProcessResult {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	go func() {
		<-begun
		stop()
	}()
	done, err := f.processUntil(ctx, content)
	require.NoError(f.t, err)
	return done
}

// read returns a file's content, "" if it does not exist.
func (f *fixture) read(path string) string {
	f.t.Helper()
	data, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(f.t, err)
	}
	return string(data)
}

// script makes a program of a shell script; $BOX is the fixture's directory.
func (f *fixture) script(body string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, "script")
	jobtest.WriteProgram(f.t, path, "#!/bin/sh\nBOX='"+f.dir+"'\n"+body+"\n")
	return path
}

// lines makes a text of lines.
func lines(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// items lists the ordinals of the failures.
func (o outcome) items() []int64 {
	var items []int64
	for _, f := range o.failures {
		items = append(items, f.Item)
	}
	slices.Sort(items)
	return items
}

// seeded returns a source of randomness, and logs how to repeat it.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
