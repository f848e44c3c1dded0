package workflows_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// described asks the server for a workflow.
func (j *theJob) described(id string) *workflowservice.DescribeWorkflowExecutionResponse {
	j.t.Helper()
	desc, err := j.s.temporal.DescribeWorkflowExecution(j.t.Context(), id, "")
	require.NoError(j.t, err)
	return desc
}

// eventually waits until something holds.
func (j *theJob) eventually(holds func() bool) {
	j.t.Helper()
	require.Eventually(j.t, holds, 10*time.Minute, 10*time.Millisecond)
}

// settles waits until nothing of the paused job is in hand, and returns how many events its workflows have.
func (j *theJob) settles(workflows ...string) (events int64) {
	j.t.Helper()
	j.eventually(func() bool {
		events = 0
		for _, id := range workflows {
			desc := j.described(id)
			if len(desc.GetPendingActivities()) > 0 || desc.GetPendingWorkflowTask() != nil {
				return false
			}
			events += desc.GetWorkflowExecutionInfo().GetHistoryLength()
		}
		return true
	})
	return events
}

// isPaused waits until the job's report says that it is, or is not.
func (j *theJob) isPaused(is bool) {
	j.t.Helper()
	j.eventually(func() bool {
		ctx, cancel := context.WithTimeout(j.t.Context(), 5*time.Second)
		defer cancel()
		report, err := j.run.Report(ctx)
		return err == nil && (report.PausedSince != nil) == is
	})
}

// runPaused is a job that is paused while a leg runs: the items in hand are finished, what waits in the queue comes back,
// and calls see nothing of it if the server answers in time (TestWatch_Withdrawn). It waits over the end of its worker and the beginning of another one, without an event.
func runPaused(t *testing.T, s *server, name string) (*theJob, job.Report) {
	j := s.newJob(t, name, 400, "")
	waiting, released := make(chan struct{}, 1000), make(chan struct{})
	j.on(func(ctx context.Context, text string) (string, error) {
		if n, err := j.number(text); err == nil && n < 201 {
			return text, nil
		}
		waiting <- struct{}{}
		select {
		case <-released:
		case <-worker.Stopping(ctx):
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	for range slots {
		<-waiting
	}
	leg := wire.LegID(name, 1)
	require.NoError(t, j.run.Pause(t.Context()))
	j.isPaused(true)
	j.eventually(func() bool { return len(j.described(leg).GetPendingActivities()) == slots })
	listed, err := j.run.Listed(t.Context())
	require.NoError(t, err)
	require.NotNil(t, listed.PausedSince)
	close(released)
	before := j.settles(name, leg)
	again, err := worker.New(s.client, j.spec.Pool, worker.Each(j.handle), worker.Options{Slots: slots, Logger: quiet, NoWorkflows: true})
	require.NoError(t, err)
	stop := serve(again)
	for range 3 { // whoever asks changes nothing
		_, err = j.run.Report(t.Context())
		require.NoError(t, err)
	}
	stop()
	require.NoFileExists(t, j.spec.Output)
	require.Equal(t, before, j.settles(name, leg))
	j.on(nil)
	require.NoError(t, j.run.Unpause(t.Context()))
	report := j.completes()
	require.EqualValues(t, 400, report.OK)
	require.Zero(t, report.Retries+report.Expiries)
	require.Zero(t, report.Repeated)
	require.Positive(t, report.PausedFor)
	want, err := os.ReadFile(j.spec.Files.Input[0])
	require.NoError(t, err)
	require.Equal(t, string(want), j.plain(), "in input order")
	return j, report
}

// S21: a stop reaches calls that are in hand since a pause: their batches are not cancelled once more.
func TestPaused_StopReachesCallsInHand(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j := s.newJob(t, "paused-stop", 400, "")
	told := make(chan struct{}, 1000)
	waiting := make(chan struct{}, 1000)
	j.on(func(ctx context.Context, text string) (string, error) {
		waiting <- struct{}{}
		select {
		case <-worker.Stopping(ctx):
			told <- struct{}{}
		case <-ctx.Done():
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	for range slots {
		<-waiting
	}
	require.NoError(t, j.run.Pause(t.Context()))
	j.isPaused(true)
	j.eventually(func() bool { return len(j.described("paused-stop").GetPendingActivities()) == slots })
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{Reason: "enough"}))
	report, err := j.wait()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Empty(t, report.Stragglers)
	require.Len(t, told, slots)
	require.Nil(t, report.PausedSince)
}

// S21: a worker that is killed while its job is paused costs nothing, whether it has calls in hand or not.
func TestPaused_WorkersDie(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j := s.newJob(t, "paused-dies", 100, "")
	j.spec.Attempts, j.spec.Window = 1, 2
	j.spec.Expiry = time.Second
	var lives atomic.Bool
	j.dies = func(wire.ProcessInput) bool { return !lives.Load() }
	j.start(jobs.StartOptions{})
	j.eventually(func() bool {
		n := 0
		for _, a := range j.described("paused-dies").GetPendingActivities() {
			if a.GetLastStartedTime() != nil {
				n++
			}
		}
		return n == 2
	})
	require.NoError(t, j.run.Pause(t.Context()))
	j.isPaused(true)
	before := j.settles("paused-dies")
	lives.Store(true)
	require.Equal(t, before, j.settles("paused-dies"))
	require.NoError(t, j.run.Unpause(t.Context()))
	report := j.completes()
	require.EqualValues(t, 100, report.OK)
	require.Zero(t, report.Retries)
	require.EqualValues(t, 2, report.Expiries)
}
