package workflows_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
)

// noting is the hook that every job's worker has: it notes for which stages it was called, and does
// what the job's test wants.
func (j *theJob) noting(_ context.Context, call worker.HookCall) error {
	j.mu.Lock()
	j.stages = append(j.stages, call.Stage)
	do := j.hook
	j.mu.Unlock()
	if do != nil {
		do(call)
	}
	return nil
}

// runHooked is a job with hooks, which is stopped: what it is stopped by waits for the shutdown hook.
func runHooked(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.spec.Init, j.spec.Shutdown, j.spec.Cleanup = []string{"note"}, []string{"note"}, []string{"note"}
	release := j.halfWay(201)
	told := make(chan struct{})
	j.mu.Lock()
	j.hook = func(call worker.HookCall) {
		if call.Stage == wire.HookShutdown {
			<-told
			release()
		}
	}
	j.mu.Unlock()
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{Reason: "the night is over"}))
	j.awaitNotice(wire.LegID(name, 1))
	close(told)
	report, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Empty(t, report.Stragglers)
	require.Equal(t, []string{wire.HookInit, wire.HookShutdown, wire.HookCleanup}, j.stages)
	require.Len(t, report.Hooks, 3)
	for _, hook := range report.Hooks {
		require.Nil(t, hook.Error)
		require.Empty(t, hook.Skipped)
	}
	return j, report
}

// hold takes a batch like a worker of that name that then takes notice of nothing any more.
func (j *theJob) hold(name string, at wire.SlotRef) {
	j.t.Helper()
	j.holdWith(name, func(wire.ProcessInput) wire.Hint { return wire.Hint{SlotRef: at} })
}

// holdWith takes a batch like a worker of that name whose only heartbeat says what hint returns.
func (j *theJob) holdWith(name string, hint func(wire.ProcessInput) wire.Hint) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), 10*time.Minute)
	defer cancel()
	service := j.s.temporal.WorkflowService()
	var token []byte
	var in wire.ProcessInput
	for len(token) == 0 { // empty after a minute
		task, err := service.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: testserver.Namespace, TaskQueue: &taskqueue.TaskQueue{Name: wire.PoolQueue(j.spec.Pool)}, Identity: name,
		})
		require.NoError(j.t, err)
		if token = task.GetTaskToken(); len(token) > 0 {
			require.NoError(j.t, converter.GetDefaultDataConverter().FromPayloads(task.GetInput(), &in))
		}
	}
	details, err := converter.GetDefaultDataConverter().ToPayloads(hint(in))
	require.NoError(j.t, err)
	_, err = service.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: testserver.Namespace, TaskToken: token, Details: details, Identity: name,
	})
	require.NoError(j.t, err)
}

// runLeftovers is a job that is stopped at once while a worker does not answer: what that has in hand
// is named, and where.
func runLeftovers(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	j.spec.Grace, j.spec.Expiry = time.Nanosecond, 30*time.Second // longer than TERM and KILL may take
	release := j.halfWay(201)
	defer release()
	j.hold("mill-4711", wire.SlotRef{Worker: "mill-4711", Slot: 2, PID: 4712})
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{Reason: "enough"}))
	report, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, job.ErrorLeftovers, report.Error.Type)
	require.Contains(t, report.Error.Message, "Coordinator stopped with work still running: ")
	require.Len(t, report.Stragglers, 1, "the worker's own calls have ended")
	require.Contains(t, report.Stragglers[0].String(), "on worker mill-4711, slot 2, pid 4712, for ")
	require.Equal(t, 1, traces(j.histories(report.Legs)["leg-1"])["LocalActivity"], "by which it was located")
	return j, report
}

// runSalvaged is a job that was terminated: it continues from all that it had accepted, also from what
// its leg had not committed.
func runSalvaged(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	var begun atomic.Int64
	release := j.startAndHold(func(string) bool { return begun.Add(1) > 200 })
	// Of each slot's batch at most nine items are done: at least one batch after the first page is whole.
	const least = 170
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		report, err := j.run.Report(ctx)
		return err == nil && report.Done() >= least
	}, 10*time.Minute, 10*time.Millisecond)
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), name, j.run.ID(), "by mistake"))
	j.on(nil)
	release()
	run, err := s.client.Resume(t.Context(), name, jobs.ResumeOptions{})
	require.NoError(t, err)
	j.run, j.ids = run, append(j.ids, run.ID())
	report := j.completes()
	require.GreaterOrEqual(t, report.Resumed, int64(least), "the first page, and what the leg had accepted")
	require.EqualValues(t, 400, report.OK)
	want, err := os.ReadFile(j.spec.Files.Input[0])
	require.NoError(t, err)
	require.Equal(t, string(want), j.plain(), "in input order")
	return j, report
}
