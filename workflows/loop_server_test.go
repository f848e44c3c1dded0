package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stint-run/stint/workflows"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// theLoop is one loop of a test, with its own pool.
type theLoop struct {
	*theJob
	mu   sync.Mutex
	ran  []wire.Tick
	body func(ctx context.Context, tick wire.Tick) error // nil: nothing
	came chan struct{}                                   // for each tick
	last worker.Snapshot                                 // of the metrics of the worker that ended last
	via  client.Client                                   // of its workers; nil: the server's
}

// newLoop makes a loop with a worker that has so many slots.
func (s *server) newLoop(t *testing.T, name string, places int) *theLoop {
	t.Helper()
	l := &theLoop{came: make(chan struct{}, 100_000)}
	l.theJob = &theJob{t: t, s: s, spec: job.Spec{
		Name: name, Pool: name, Loop: &job.Loop{}, Expiry: 2 * time.Second, Grace: 30 * time.Second, Backoff: 10 * time.Millisecond,
	}}
	if places > 0 {
		t.Cleanup(l.worker(places))
	}
	return l
}

func (l *theLoop) worker(places int) (stop func()) {
	l.t.Helper()
	sink := worker.SinkFunc(func(_ context.Context, s worker.Snapshot) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last = s
		return nil
	})
	via := l.s.temporal
	if l.via != nil {
		via = l.via
	}
	w, err := worker.New(jobs.NewClient(via, nil), l.spec.Pool, worker.Each(l.tick), worker.Options{
		Sinks: []worker.Sink{sink},
		Slots: places, Logger: quiet, NoWorkflows: true, Drain: 10 * time.Second, Hooks: map[string]worker.Hook{"note": l.noting},
	})
	require.NoError(l.t, err)
	return serve(w)
}

func (l *theLoop) tick(ctx context.Context, tick wire.Tick) (int64, error) {
	l.mu.Lock()
	l.ran = append(l.ran, tick)
	body := l.body
	l.mu.Unlock()
	l.came <- struct{}{}
	if body == nil {
		return tick.Tick, nil
	}
	return tick.Tick, body(ctx, tick)
}

// await returns once so many ticks more have begun.
func (l *theLoop) await(ticks int) {
	l.t.Helper()
	for range ticks {
		select {
		case <-l.came:
		case <-time.After(10 * time.Minute):
			require.Fail(l.t, "no tick came")
		}
	}
}

// ticks are the numbers of the ticks that a slot has run.
func (l *theLoop) ticks(slot int) (all []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tick := range l.ran {
		if tick.Slot == slot {
			all = append(all, tick.Tick)
		}
	}
	return all
}

// stops stops the loop, and returns its report.
func (l *theLoop) stops() job.Report {
	l.t.Helper()
	require.NoError(l.t, l.run.Stop(l.t.Context(), job.Stop{Reason: "enough"}))
	report, err := l.wait()
	require.NoError(l.t, err)
	require.Equal(l.t, job.Stopped, report.State)
	require.Equal(l.t, "enough", report.Reason)
	return report
}

func numbers(from, to int64) (all []int64) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// L1, L5: n slots run until they are stopped, each from tick 0; ticks leave no events in history one by one. The report
// counts them.
func TestLoop_NoEventPerTick(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-events", 2)
	l.spec.Loop.Every, l.spec.Loop.Slots = time.Millisecond, 2
	l.start(jobs.StartOptions{})
	l.await(2000)
	report := l.stops()
	require.GreaterOrEqual(t, report.Loop.Ticks, int64(2000))
	require.Equal(t, report.Loop.Ticks, report.OK)
	require.EqualValues(t, len(l.ran), report.OK)
	events := 0
	for _, h := range l.histories(report.Legs + 1) {
		events += len(h.Events)
	}
	t.Logf("%d ticks, %d events", report.OK, events)
	require.Less(t, events, 150)
	for slot, at := range report.Loop.At {
		require.Equal(t, numbers(0, at.Next), l.ticks(slot), "slot %d", slot)
	}
	require.Positive(t, report.Loop.LateMedian)
}

// L3: a stop wakes a slot that waits for its tick at once, where cancellations are pushed: this server pushes them. (No
// time is required here but one far below the interval: the machine may be slow.)
func TestLoop_StopWakesAWaitingSlot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-wakes", 1)
	l.spec.Loop.Every = time.Hour
	l.start(jobs.StartOptions{})
	l.await(1)
	began := time.Now()
	report := l.stops()
	t.Logf("stopped within %v", time.Since(began))
	require.Less(t, time.Since(began), time.Minute)
	require.EqualValues(t, 1, report.OK)
}

// L3: stopped before its first tick, the body does not run, but init and cleanup hooks do.
func TestLoop_StoppedBeforeItsFirstTick(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-unborn", 0)
	l.spec.Loop.Every, l.spec.Init, l.spec.Cleanup = time.Second, []string{"note"}, []string{"note"}
	l.start(jobs.StartOptions{})
	require.NoError(t, l.run.Stop(t.Context(), job.Stop{Reason: "enough"}))
	t.Cleanup(l.worker(1)) // nobody could run a hook before
	report, err := l.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Empty(t, l.ran)
	require.Zero(t, report.Loop.Ticks)
	require.Equal(t, []string{wire.HookInit, wire.HookCleanup}, l.stages)
}

// L1: a plain stop does not interrupt a tick that runs. Its outcome is recorded.
func TestLoop_StopLetsTheTickEnd(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-lets", 1)
	l.body = func(ctx context.Context, tick wire.Tick) error {
		if tick.Tick < 3 {
			return nil
		}
		select {
		case <-worker.Stopping(ctx):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.start(jobs.StartOptions{})
	l.await(4)
	report := l.stops()
	require.EqualValues(t, 4, report.OK)
	require.Equal(t, numbers(0, 4), l.ticks(0))
}

// L4: an error in the body stops the loop with that error, the first one; of a type of clean-stop it only stops.
func TestLoop_ErrorOfTheBody(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for name, clean := range map[string]bool{"loop-fails": false, "loop-ends": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := s.newLoop(t, name, 2)
			l.spec.Loop.Slots, l.spec.Loop.Every = 2, 10*time.Millisecond
			l.body = func(_ context.Context, tick wire.Tick) error {
				switch {
				case tick.Slot != 1 || tick.Tick < 5:
					return nil
				case clean:
					return &job.Error{Type: limits.CleanStopType, Message: "no more"}
				}
				return errors.New("the probe is broken")
			}
			l.start(jobs.StartOptions{})
			report, err := l.wait()
			require.EqualValues(t, 1, report.Failed)
			require.Equal(t, numbers(0, 6), l.ticks(1))
			if clean {
				require.NoError(t, err)
				require.Equal(t, job.Stopped, report.State)
				return
			}
			var failed *jobs.FailedError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, job.Failed, report.State)
			require.Contains(t, report.Error.Message, "the probe is broken")
			require.EqualValues(t, 5, report.FirstError.Item)
		})
	}
}

// L5: after a drain the slots go on elsewhere with exactly the next tick; a loop that is stopped and resumed, too. Its
// results are in the store, in order, once each.
func TestLoop_DrainedAndResumed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l, report := resumedLoop(t, s, "loop-drained")
	require.Zero(t, report.Loop.Repeated)
	for slot, at := range report.Loop.At {
		require.Equal(t, numbers(0, at.Next), l.ticks(slot), "none is missing, none ran twice")
	}
	var access store.Access
	defer access.Close()
	var text linesOf
	_, err := outputs.Results(t.Context(), &access, report, outputs.Selection{}, &text)
	require.NoError(t, err)
	require.Len(t, text.numbers(t), int(report.OK))
	require.Equal(t, slices.Max(text.numbers(t)), max(report.Loop.At[0].Next, report.Loop.At[1].Next)-1)
}

// resumedLoop is a loop with two slots, whose worker is replaced, and which is stopped and resumed.
func resumedLoop(t *testing.T, s *server, name string) (*theLoop, job.Report) {
	l := s.newLoop(t, name, 0)
	l.spec.Loop.Every, l.spec.Loop.Slots, l.spec.Output = 5*time.Millisecond, 2, t.TempDir()+string(filepath.Separator)
	stop := l.worker(2)
	l.start(jobs.StartOptions{})
	l.await(100)
	stop()
	t.Cleanup(l.worker(2))
	for slot := range 2 { // both go on
		before := len(l.ticks(slot))
		require.Eventually(t, func() bool { return len(l.ticks(slot)) > before+20 }, 10*time.Minute, 10*time.Millisecond)
	}
	stopped := l.stops()
	require.Equal(t, stopped.Loop.Ticks, stopped.OK)
	run, err := s.client.Resume(t.Context(), name, jobs.ResumeOptions{})
	require.NoError(t, err)
	l.run, l.ids = run, append(l.ids, run.ID())
	for slot := range 2 {
		before := len(l.ticks(slot))
		require.Eventually(t, func() bool { return len(l.ticks(slot)) > before+20 }, 10*time.Minute, 10*time.Millisecond)
	}
	report := l.stops()
	require.Equal(t, stopped.OK, report.Resumed)
	require.Equal(t, report.Loop.Ticks, report.OK)
	report.Legs++ // histories counts from 0
	return l, report
}

// runLoop is a loop whose worker is replaced, and which is stopped and resumed.
func runLoop(t *testing.T, s *server, name string) (*theJob, job.Report) {
	l, report := resumedLoop(t, s, name)
	return l.theJob, report
}

// runLoopRenewed is a loop whose leg continues as new.
func runLoopRenewed(t *testing.T, s *server, name string) (*theJob, job.Report) {
	l, report := renewedLoop(t, s, name)
	report.Legs = 2 // histories counts from 0
	return l.theJob, report
}

// linesOf collects lines of numbers.
type linesOf struct{ data []byte }

func (l *linesOf) Write(data []byte) (int, error) {
	l.data = append(l.data, data...)
	return len(data), nil
}

func (l *linesOf) numbers(t *testing.T) (all []int64) {
	t.Helper()
	for line := range slices.Values(splitLines(l.data)) {
		var n int64
		require.NoError(t, json.Unmarshal(line, &n))
		all = append(all, n)
	}
	return all
}

func splitLines(data []byte) (lines [][]byte) {
	for len(data) > 0 {
		i := slices.Index(data, '\n')
		lines = append(lines, data[:i])
		data = data[i+1:]
	}
	return lines
}

// The report of a loop that runs knows what its heartbeats say: ticks, results, and slots for which the pool has no
// place.
func TestLoop_ReportWhileItRuns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-report", 2)
	l.spec.Loop.Every, l.spec.Loop.Slots = 20*time.Millisecond, 3
	l.start(jobs.StartOptions{})
	var report job.Report
	require.Eventually(t, func() bool {
		var err error
		report, err = l.run.Report(t.Context())
		return err == nil && report.Loop.Ticks > 20 && report.Loop.Idle == 1
	}, 10*time.Minute, 50*time.Millisecond)
	require.Equal(t, 3, report.Loop.Slots)
	require.Equal(t, 2, report.Loop.Running)
	require.Equal(t, report.Loop.Ticks, report.OK)
	require.Contains(t, report.Loop.Warning("p"), "1 of the loop's 3 slots wait for a free slot of pool p")
	listed, err := l.run.Listed(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.SourceClock, listed.Source)
	l.stops()
}

// L5: a loop whose workflow is terminated goes on from its last heartbeats, as after the loss of its workers, although
// its executions have not ended: its report knows what was recorded, nothing of that is run again, and what ran after
// it counts as repeated.
func TestLoop_Terminated(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for name, output := range map[string]string{"loop-terminated": "", "loop-terminated-kept": t.TempDir() + string(filepath.Separator)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := s.newLoop(t, name, 2)
			l.spec.Loop.Every, l.spec.Loop.Slots, l.spec.Output = 20*time.Millisecond, 2, output
			l.start(jobs.StartOptions{})
			var before job.Report
			require.Eventually(t, func() bool {
				var err error
				before, err = l.run.Report(t.Context())
				return err == nil && before.Loop.Recorded() > 20
			}, 10*time.Minute, 50*time.Millisecond)
			counted := func(slot int) map[int64]int64 {
				seen := map[int64]int64{}
				for _, tick := range l.ticks(slot) {
					seen[tick]++
				}
				return seen
			}
			recorded := []map[int64]int64{counted(0), counted(1)} // more than once if a slow machine has made an execution expire
			require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), name, "", "test"))
			ended, err := l.run.Report(t.Context())
			require.NoError(t, err)
			require.Equal(t, job.Failed, ended.State)
			require.GreaterOrEqual(t, ended.Loop.Recorded(), before.Loop.Recorded())
			require.Equal(t, ended.Loop.Ticks, ended.OK)

			run, err := s.client.Resume(t.Context(), name, jobs.ResumeOptions{})
			require.NoError(t, err)
			l.run, l.ids = run, append(l.ids, run.ID())
			require.Eventually(t, func() bool {
				during, err := l.run.Report(t.Context())
				return err == nil && during.Loop.Recorded() > ended.Loop.Recorded()+20
			}, 10*time.Minute, 50*time.Millisecond)
			report := l.stops()
			require.GreaterOrEqual(t, report.Resumed, ended.OK)
			var repeated int64
			for slot, at := range report.Loop.At {
				seen := counted(slot)
				for tick := range at.Next {
					require.Positive(t, seen[tick], "tick %d of slot %d was not run", tick, slot)
					if tick < before.Loop.At[slot].Next {
						require.Equal(t, recorded[slot][tick], seen[tick], "tick %d of slot %d was recorded", tick, slot)
					}
					repeated += seen[tick] - 1
				}
			}
			require.GreaterOrEqual(t, report.Loop.Repeated, repeated)
			if output == "" {
				return
			}
			var access store.Access
			defer access.Close()
			var text linesOf
			_, err = outputs.Results(t.Context(), &access, report, outputs.Selection{}, &text)
			require.NoError(t, err)
			got := text.numbers(t)
			slices.Sort(got)
			var want []int64
			for _, at := range report.Loop.At {
				want = append(want, numbers(0, at.Next)...)
			}
			slices.Sort(want)
			require.Equal(t, want, got, "each tick has one result")
		})
	}
}

// L5, S11: a stop may be over before the heartbeat timeout of a lost worker is. The slot has then done what the last
// heartbeat says: a resumed loop begins there, and counts what ran after it as repeated.
func TestLoop_StoppedWhileItsWorkerIsLost(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-straggler", 0)
	l.spec.Loop.Every, l.spec.Grace, l.spec.Expiry = 5*time.Millisecond, time.Nanosecond, 30*time.Second // longer than TERM and KILL may take
	stop := l.worker(1)
	l.start(jobs.StartOptions{})
	l.await(20)
	stop()
	var at job.LoopSlot
	l.holdWith("mill-4711", func(in wire.ProcessInput) wire.Hint {
		at = in.Clock.LoopSlot
		at.Next, at.Stats.OK, at.Doubt = at.Next+50, at.Stats.OK+50, at.Next+50+7
		return wire.Hint{SlotRef: wire.SlotRef{Worker: "mill-4711", Slot: 2, PID: 4712}, Clock: &at}
	})
	require.NoError(t, l.run.Stop(t.Context(), job.Stop{Reason: "enough"}))
	stopped, err := l.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, stopped.State)
	require.Len(t, stopped.Stragglers, 1)
	require.Contains(t, stopped.Stragglers[0].String(), "on worker mill-4711, slot 2, pid 4712, for ")
	require.Equal(t, at, stopped.Loop.At[0])
	require.Equal(t, at.Next, stopped.OK)

	before := len(l.ticks(0))
	t.Cleanup(l.worker(1))
	run, err := s.client.Resume(t.Context(), "loop-straggler", jobs.ResumeOptions{})
	require.NoError(t, err)
	l.run, l.ids = run, append(l.ids, run.ID())
	require.Eventually(t, func() bool { return len(l.ticks(0)) > before+20 }, 10*time.Minute, 10*time.Millisecond)
	report := l.stops()
	require.Equal(t, numbers(at.Next, report.Loop.At[0].Next), l.ticks(0)[before:])
	require.EqualValues(t, 7, report.Loop.Repeated)
}

// A leg whose history is long continues as new between two executions, and the job, too, once its legs have ended;
// ticks are exact.
func TestLoop_ContinuesAsNew(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l, report := renewedLoop(t, s, "loop-renewed")
	require.Equal(t, numbers(0, report.Loop.Ticks), l.ticks(0))
}

// renewedLoop is a loop whose leg continues as new, because its workers drain again and again.
func renewedLoop(t *testing.T, s *server, name string) (*theLoop, job.Report) {
	l := s.newLoop(t, name, 0)
	l.spec.Loop.Every = 5 * time.Millisecond
	stop := l.worker(1)
	l.start(jobs.StartOptions{})
	first := ""
	require.Eventually(t, func() bool {
		d, err := s.temporal.DescribeWorkflowExecution(t.Context(), wire.LegID(name, 1), "")
		first = d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		return err == nil
	}, 10*time.Minute, 10*time.Millisecond)
	for renewed := false; !renewed; {
		l.await(10)
		stop()
		stop = l.worker(1)
		d, err := s.temporal.DescribeWorkflowExecution(t.Context(), wire.LegID(name, 1), "")
		require.NoError(t, err)
		renewed = d.GetWorkflowExecutionInfo().GetExecution().GetRunId() != first
	}
	t.Cleanup(func() { stop() })
	before := len(l.ticks(0))
	require.Eventually(t, func() bool { return len(l.ticks(0)) > before+10 }, 10*time.Minute, 10*time.Millisecond)
	// The first run's history begins at the leg's beginning.
	report := l.stops()
	d, err := s.temporal.DescribeWorkflowExecution(t.Context(), wire.LegID(name, 1), first)
	require.NoError(t, err)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, d.GetWorkflowExecutionInfo().GetStatus())
	return l, report
}

// L6: time and count of iterations are in the metrics, failed ones included.
func TestLoop_Metrics(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-metrics", 0)
	stop := l.worker(1)
	l.spec.OnError = job.OnErrorDrop
	l.body = func(_ context.Context, tick wire.Tick) error {
		time.Sleep(time.Millisecond) // what a call takes
		if tick.Tick%2 == 1 {
			return errors.New("odd")
		}
		return nil
	}
	l.start(jobs.StartOptions{})
	l.await(20)
	report := l.stops()
	stop()
	require.True(t, l.last.Last)
	counts := l.last.Jobs["loop-metrics"].Total
	require.Equal(t, report.Loop.Ticks, counts.Calls)
	require.Equal(t, report.OK, counts.OK)
	require.Equal(t, report.Failed, counts.Failed)
	require.Positive(t, counts.Failed)
	require.GreaterOrEqual(t, counts.CallTime, time.Duration(counts.Calls)*time.Millisecond)
}

// L5: a tick whose worker's handler panics or crashes is that tick's error, and the next tick follows exactly.
func TestLoop_CrashOfATick(t *testing.T) {
	t.Parallel()
	s := setup(t)
	l := s.newLoop(t, "loop-panics", 1)
	l.spec.OnError = job.OnErrorRecord
	l.body = func(_ context.Context, tick wire.Tick) error {
		if tick.Tick%3 == 1 {
			panic(fmt.Sprint("tick ", tick.Tick))
		}
		time.Sleep(time.Millisecond) // back to back
		return nil
	}
	l.start(jobs.StartOptions{})
	l.await(30)
	report := l.stops()
	require.Equal(t, numbers(0, report.Loop.Ticks), slices.Compact(l.ticks(0)))
	require.Equal(t, report.Loop.Ticks, report.Done())
	require.Equal(t, (report.Loop.Ticks+1)/3, report.Failed)
	require.Zero(t, report.Loop.Repeated)
}

func init() { workflows.ShortLoops(60) }
