package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// G1, F11: a feed's legs that learn of their job's end only when another run of it has begun are disowned by that one:
// they end, and nothing that they report is taken for a report of its own legs.
func TestFeed_LegsOfAnEarlierRunAreDisowned(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, feed := s.newFeed(t, "feed-disowned")
	var slow atomic.Bool
	entered, release := make(chan string, 100), make(chan struct{})
	j.on(func(ctx context.Context, text string) (string, error) {
		if slow.Load() {
			entered <- text
			select {
			case <-release:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return text, nil
	})
	for round := range 3 { // each ends the one before, whose legs are open
		j.start(jobs.StartOptions{Fresh: true})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		text := fmt.Sprint("round ", round)
		for {
			// The client may still have put it to the run before, which has ended.
			got, err := feed.Call(ctx, text)
			if err == nil {
				require.Equal(t, text, got)
				break
			}
			require.NoError(t, ctx.Err(), "%v", err)
		}
		cancel()
		// From then on no leg of the run before takes items.
		require.Eventually(t, func() bool {
			return parentOf(t, s.temporal, wire.LegID("feed-disowned", 1)) == runOf(t, s.temporal, "feed-disowned")
		}, 10*time.Minute, time.Millisecond)
		got, err := feed.Call(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, text, got)
		slow.Store(true)
		require.Eventually(t, func() bool { // a leg that does not know yet that its job has ended may take the first one
			if !assert.NoError(t, feed.PutWait(t.Context(), 10*time.Minute, "in hand")) {
				return true
			}
			select {
			case <-entered:
				return true
			case <-time.After(time.Second):
				return false
			}
		}, 10*time.Minute, time.Millisecond)
		slow.Store(false)
	}
	close(release)
	require.NoError(t, feed.Close(t.Context()))
	report := j.completes()
	require.GreaterOrEqual(t, report.OK, int64(2))
	require.Equal(t, report.Planned, report.OK)
	for leg := 1; leg <= 2; leg++ {
		d, err := s.temporal.DescribeWorkflowExecution(t.Context(), wire.LegID("feed-disowned", leg), "")
		require.NoError(t, err)
		require.NotEqual(t, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, d.GetWorkflowExecutionInfo().GetStatus())
	}
}

func runOf(t *testing.T, c client.Client, workflowID string) string {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), workflowID, "")
	require.NoError(t, err)
	return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

func parentOf(t *testing.T, c client.Client, workflowID string) (run string) {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), workflowID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return ""
	}
	require.NoError(t, err)
	return d.GetWorkflowExecutionInfo().GetParentExecution().GetRunId()
}

// A leg that nobody waits for, and that has the workflow ID of one that a job is to start, ends when that job begins.
func TestFeed_LegOfNobodyIsDisowned(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, feed := s.newFeed(t, "feed-nobody")
	left, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: wire.LegID(j.spec.Name, 1), TaskQueue: wire.PoolQueue(j.spec.Pool),
	}, wire.WorkflowFeedLeg, map[string]any{"spec": j.spec.WithDefaults(), "number": 1})
	require.NoError(t, err)
	j.start(jobs.StartOptions{})
	got, err := feed.Call(t.Context(), "hello")
	require.NoError(t, err)
	require.Equal(t, "hello", got)
	var canceled *temporal.CanceledError
	require.ErrorAs(t, left.Get(t.Context(), nil), &canceled)
	require.NoError(t, feed.Close(t.Context()))
	require.EqualValues(t, 1, j.completes().OK)
}

// Items that a feed has left are in legs with the IDs that legs of the earlier run had, and may still have when the feed
// is resumed: these end a moment after their job, or later if nobody coordinates.
func TestFeed_ItemsLeftWaitForALegOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j, feed := s.newFeed(t, "feed-left")
	j.spec.BatchItems = 1
	j.on(func(ctx context.Context, text string) (string, error) {
		<-worker.Stopping(ctx)
		return text, nil
	})
	j.start(jobs.StartOptions{})
	items := make([]string, 2*wire.FirstPage) // one page is the job's own, the other one a leg's
	require.NoError(t, feed.PutWait(t.Context(), 10*time.Minute, items...))
	require.NoError(t, j.run.Stop(t.Context(), job.Stop{}))
	stopped, err := j.wait()
	require.NoError(t, err)
	require.Less(t, stopped.Done(), int64(wire.FirstPage))
	j.on(nil)
	require.Eventually(t, func() bool { // the leg of the earlier run is still there
		_, err = s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			ID: wire.LegID(j.spec.Name, 1), TaskQueue: wire.PoolQueue(j.spec.Pool),
		}, wire.WorkflowFeedLeg, map[string]any{"spec": j.spec.WithDefaults(), "number": 1})
		return err == nil
	}, 10*time.Minute, time.Millisecond)
	run, err := s.client.Resume(t.Context(), j.spec.Name, jobs.ResumeOptions{})
	require.NoError(t, err)
	j.run, j.ids = run, append(j.ids, run.ID())
	again := jobs.NewFeed[string, string](s.client, j.spec.Name, jobs.FeedOptions{})
	t.Cleanup(again.Release)
	require.NoError(t, again.Close(t.Context()))
	require.EqualValues(t, len(items), j.completes().OK)
}

// So do the legs of any other job, whose earlier run the server may not have ended altogether.
func TestJob_LegWaitsForOneOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	j := s.newJob(t, "leg-left", 10*wire.FirstPage+1, "")
	left, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: wire.LegID(j.spec.Name, 1), TaskQueue: "nobody's"}, wire.WorkflowLeg)
	require.NoError(t, err)
	j.start(jobs.StartOptions{})
	require.Eventually(t, func() bool {
		return j.count(j.spec.Name, func(h *history.HistoryEvent) bool {
			return h.GetStartChildWorkflowExecutionFailedEventAttributes() != nil
		}) > 0
	}, 10*time.Minute, time.Millisecond)
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), left.GetID(), left.GetRunID(), ""))
	require.EqualValues(t, 10*wire.FirstPage+1, j.completes().OK)
}
