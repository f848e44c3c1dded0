package workflows_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
)

// refusal is a coordinating worker's: the first workflow task of a job's run that follows another fails, until that run
// is terminated.
type refusal struct {
	interceptor.ClientInterceptorBase
	interceptor.WorkerInterceptorBase
	mu  sync.Mutex
	off bool
	met chan struct{} // closed when there is such a run
}

func (r *refusal) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &refusedWorkflow{interceptor.WorkflowInboundInterceptorBase{Next: next}, r}
}

type refusedWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	refusal *refusal
}

func (w *refusedWorkflow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info, r := workflow.GetInfo(ctx), w.refusal
	r.mu.Lock()
	refused := !r.off && info.WorkflowType.Name == wire.WorkflowJob && info.ContinuedExecutionRunID != ""
	if refused {
		select {
		case <-r.met:
		default:
			close(r.met)
		}
	}
	r.mu.Unlock()
	if refused {
		panic("this run is not to begin")
	}
	return w.Next.ExecuteWorkflow(ctx, in)
}

// terminate terminates a job's run that was refused. Those of later jobs begin.
func (r *refusal) terminate(t *testing.T, s *server, name string) {
	t.Helper()
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), name, "", "test"))
	events := s.temporal.GetWorkflowHistory(t.Context(), name, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		require.NotEqual(t, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, event.GetEventType())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = true
}

// refusing is a server whose coordinating worker refuses such runs.
func refusing(t *testing.T) (*server, *refusal) {
	t.Helper()
	r := &refusal{met: make(chan struct{})}
	s, coordinate := ownServer(t, r)
	t.Cleanup(coordinate())
	return s, r
}

// ownServer is a server of this test. Coordinate starts its coordinating worker, whose client has the interceptors.
func ownServer(t *testing.T, interceptors ...interceptor.ClientInterceptor) (s *server, coordinate func() (stop func())) {
	t.Helper()
	setup(t) // so that goroutines of servers are expected
	temporal, err := testserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(temporal.Stop)
	dial := func(interceptors ...interceptor.ClientInterceptor) client.Client {
		c, err := client.Dial(client.Options{
			HostPort: temporal.Address(), Namespace: testserver.Namespace, Logger: log.NewStructuredLogger(quiet), Interceptors: interceptors,
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	via := dial(interceptors...)
	coordinate = func() (stop func()) {
		echo := func(_ context.Context, text string) (string, error) { return text, nil }
		coordinator, err := worker.New(jobs.NewClient(via, nil), "coordinator", worker.Each(echo), worker.Options{Logger: quiet})
		require.NoError(t, err)
		return serve(coordinator)
	}
	c := dial()
	return &server{temporal: c, client: jobs.NewClient(c, nil)}, coordinate
}

// G1, F11: a feed whose job has continued as new, and is terminated before the new run has done anything, loses
// nothing: neither what its legs had committed or accepted before, nor what they do while nobody coordinates them. What
// has an outcome is not run again.
func TestFeed_G1_TerminatedBeforeTheNextRunBegins(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} { // the leg that has the slow items, before the job is terminated
		name := fmt.Sprint("feed-unbegun-", ends)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, refusal := refusing(t)
			j, feed := s.newFeed(t, name)
			gate, held, done := make(chan struct{}), make(chan struct{}, 100), make(chan struct{}, 1000)
			var ran atomic.Int64
			j.on(func(ctx context.Context, text string) (string, error) {
				ran.Add(1)
				if strings.HasPrefix(text, "quick") {
					done <- struct{}{}
					return text, nil
				}
				held <- struct{}{}
				select {
				case <-gate:
					return text, nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			j.start(jobs.StartOptions{})
			var all []string
			put := func(text string) {
				t.Helper()
				all = append(all, text)
				require.NoError(t, feed.PutWait(t.Context(), 10*time.Minute, text))
			}
			put("slow 1")
			<-held // in a batch of its own
			const called = 3
			for range called {
				text := fmt.Sprint("quick ", len(all))
				all = append(all, text)
				got, err := feed.Call(t.Context(), text)
				require.NoError(t, err)
				require.Equal(t, text, got)
				<-done
			}
			for refused := false; !refused; {
				put(fmt.Sprint("quick ", len(all)))
				select {
				case <-done:
				case <-refusal.met: // nobody gives the next leg its places
					refused = true
				}
			}
			put("slow 2") // the job does not hear of it
			if ends {
				close(gate)
				require.Eventually(t, func() bool {
					d, err := s.temporal.DescribeWorkflowExecution(t.Context(), wire.LegID(name, 1), "")
					return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
				}, 10*time.Minute, 10*time.Millisecond)
			}
			refusal.terminate(t, s, name)

			ended, err := j.run.Report(t.Context())
			require.NoError(t, err)
			require.Equal(t, job.Failed, ended.State)
			require.Contains(t, ended.OpenLegs, wire.LegID(name, 1))
			require.EqualValues(t, len(all), ended.Planned)

			run, err := s.client.Resume(t.Context(), name, jobs.ResumeOptions{})
			require.NoError(t, err)
			j.run, j.ids = run, append(j.ids, run.ID())
			if !ends {
				close(gate)
			}
			again := jobs.NewFeed[string, string](s.client, name, jobs.FeedOptions{})
			t.Cleanup(again.Release)
			all = append(all, "one more")
			got, err := again.Call(t.Context(), "one more")
			require.NoError(t, err)
			require.Equal(t, "one more", got)
			require.NoError(t, again.Close(t.Context()))
			report := j.completes()
			require.EqualValues(t, len(all), report.OK)
			require.Zero(t, report.Failed)
			require.Zero(t, report.Feed.Lost)
			require.GreaterOrEqual(t, report.Resumed, max(ended.OK, called))
			twice := ran.Load() - int64(len(all))
			require.LessOrEqual(t, twice, int64(len(all))-report.Resumed, "what has an outcome is not run again")
			data, err := os.ReadFile(j.spec.Output)
			require.NoError(t, err)
			require.Equal(t, `"`+strings.Join(all, "\"\n\"")+"\"\n", string(data))
		})
	}
}

// L5: so does a loop: its slots go on with exactly the next tick.
func TestLoop_TerminatedBeforeTheNextRunBegins(t *testing.T) {
	t.Parallel()
	s, refusal := refusing(t)
	const name = "loop-unbegun"
	l := s.newLoop(t, name, 0)
	l.spec.Loop.Every, l.spec.Loop.Slots, l.spec.Output = 5*time.Millisecond, 2, t.TempDir()+"/"
	l.spec.Expiry = time.Minute // one that is given up on a busy machine would wait for another worker, and run ticks again
	stop := l.worker(2)
	l.start(jobs.StartOptions{})
	l.await(100)
	require.Eventually(t, func() bool { return len(l.ticks(0)) > 0 && len(l.ticks(1)) > 0 }, 10*time.Minute, 10*time.Millisecond,
		"a slot that no worker has taken waits for one, and its leg with it")
	signal := func(size int) { // with what a leg has done that the job does not have
		unknown := map[string]any{"leg": 99, "result": map[string]any{"manifests": []string{strings.Repeat("x", size)}}}
		require.NoError(t, s.temporal.SignalWorkflow(t.Context(), name, "", "leg has committed", unknown))
	}
	for range 4 {
		signal(1200 << 10)
	}
	require.Eventually(t, func() bool {
		signal(1) // with the next workflow task after 4 MB the server suggests that the job continues as new
		return l.hasSignal(wire.LegID(name, 1), "retire") && l.hasSignal(wire.LegID(name, 2), "retire")
	}, 10*time.Minute, 20*time.Millisecond)
	stop() // what they run ends
	select {
	case <-refusal.met:
	case <-time.After(10 * time.Minute):
		require.FailNow(t, "the job does not continue as new")
	}
	refusal.terminate(t, s, name)

	ended, err := l.run.Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.Failed, ended.State)
	require.Equal(t, ended.Loop.Ticks, ended.OK)
	require.Len(t, ended.Manifests, 2)
	for slot, at := range ended.Loop.At {
		require.Equal(t, numbers(0, at.Next), l.ticks(slot))
	}

	run, err := s.client.Resume(t.Context(), name, jobs.ResumeOptions{})
	require.NoError(t, err)
	l.run, l.ids = run, append(l.ids, run.ID())
	t.Cleanup(l.worker(2))
	for slot, at := range ended.Loop.At {
		require.Eventually(t, func() bool { return len(l.ticks(slot)) > int(at.Next)+10 }, 10*time.Minute, 10*time.Millisecond)
	}
	report := l.stops()
	require.Equal(t, ended.OK, report.Resumed)
	require.Zero(t, report.Loop.Repeated)
	var want []int64
	for slot, at := range report.Loop.At {
		require.Equal(t, numbers(0, at.Next), l.ticks(slot), "none is missing, none ran twice")
		want = append(want, numbers(0, at.Next)...)
	}
	var access store.Access
	defer access.Close()
	var text linesOf
	_, err = outputs.Results(t.Context(), &access, report, outputs.Selection{}, &text)
	require.NoError(t, err)
	require.ElementsMatch(t, want, text.numbers(t))
}

// L5: a leg that is to end does so with the execution that ends in the same workflow task: what is left of it would
// wait for a worker, and run for an hour, while the job waits for the leg.
func TestLoop_RetiredAsItsExecutionEnds(t *testing.T) {
	t.Parallel()
	s, coordinate := ownServer(t)
	pause := coordinate()
	const name = "loop-retired"
	leg := wire.LegID(name, 1)
	l := s.newLoop(t, name, 0)
	l.spec.Loop.Every, l.spec.Loop.Slots, l.spec.Output = 5*time.Millisecond, 1, t.TempDir()+"/"
	l.spec.Expiry = time.Minute
	stop := l.worker(1)
	l.start(jobs.StartOptions{})
	l.await(3)
	pause() // of all workflows: what comes now waits for their next workflow tasks
	require.NoError(t, s.temporal.SignalWorkflow(t.Context(), leg, "", wire.SignalRetire, nil))
	stop() // the execution ends
	t.Cleanup(coordinate())
	executions := func(e *history.HistoryEvent) bool { return e.GetActivityTaskScheduledEventAttributes() != nil }
	end := func(e *history.HistoryEvent) bool { return e.GetWorkflowExecutionCompletedEventAttributes() != nil }
	require.Eventually(t, func() bool { return l.count(leg, executions) > 1 || l.count(leg, end) > 0 }, 10*time.Minute, 10*time.Millisecond)
	require.Equal(t, 1, l.count(leg, executions))
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), name, "", "test"))
}

// count returns how many events of a kind a workflow has.
func (j *theJob) count(id string, is func(*history.HistoryEvent) bool) (n int) {
	events := j.s.temporal.GetWorkflowHistory(j.t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return n
		}
		if is(event) {
			n++
		}
	}
	return n
}

// hasSignal reports whether a workflow has got a signal.
func (j *theJob) hasSignal(id, name string) bool {
	return j.count(id, func(e *history.HistoryEvent) bool {
		return e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == name
	}) > 0
}
