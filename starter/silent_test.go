package starter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// heard are workers that have polled last at this time.
func heard(n int, at time.Time) *workflowservice.DescribeTaskQueueResponse {
	poller := &taskqueue.PollerInfo{Identity: "mill", LastAccessTime: timestamppb.New(at)}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: slices.Repeat([]*taskqueue.PollerInfo{poller}, n)}
}

// 14.1: that no worker serves a pool is said only if the server has said so.
func TestSilent(t *testing.T) {
	t.Parallel()
	pollers := func(n int) *workflowservice.DescribeTaskQueueResponse {
		return heard(n, time.Now().Add(time.Hour)) // so late that it is just now, however long the test takes
	}
	for name, test := range map[string]struct {
		pool, io *workflowservice.DescribeTaskQueueResponse
		err      error
		served   bool
		says     string
	}{
		"none":      {pollers(0), pollers(0), nil, false, "no worker serves pool risk"},
		"busy":      {pollers(0), pollers(2), nil, true, "workers serve pool risk, but"},
		"some":      {pollers(1), pollers(1), nil, true, "workers serve pool risk, but"},
		"frozen":    {heard(2, time.Now().Add(-time.Hour)), pollers(1), nil, true, "no worker of pool risk has been heard of for "},
		"not known": {nil, nil, errors.New("no network"), true, "who serves pool risk is not known"},
		"away":      {nil, nil, context.DeadlineExceeded, true, "the Temporal server at here:7233 does not answer; ask again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc := &mocks.Client{}
			tc.On("DescribeTaskQueue", mock.Anything, wire.PoolQueue("risk"), mock.Anything).Return(test.pool, test.err)
			tc.On("DescribeTaskQueue", mock.Anything, wire.IOQueue("risk"), mock.Anything).Return(test.io, test.err)
			p := &Program{Options: Options{Name: "stint"}, server: "here:7233"}
			hint, served := p.silent(t.Context(), jobs.NewClient(tc, nil), "risk")
			require.Equal(t, test.served, served)
			require.Contains(t, hint, test.says)
			if served {
				require.NotContains(t, hint, "no worker serves")
			}
			var out bytes.Buffer
			show := newProgress(&out, false, false)
			noteUnserved(t.Context(), p, jobs.NewClient(tc, nil), show, "risk")
			require.Equal(t, !served, bytes.Contains(out.Bytes(), []byte("no worker serves")), out.String())
			waits := show.line(job.Report{State: job.Running})
			require.Equal(t, !served, strings.Contains(waits, ", no worker serves risk, "), "each line says what the job waits for: %s", waits)
			show.served("risk", true)
			require.NotContains(t, show.line(job.Report{State: job.Running}), "no worker")
		})
	}
}

// neverDone is a job whose workflow task fails until it is mended.
func neverDone(mended *atomic.Bool) *jobs.Run {
	tc := &mocks.Client{}
	attempt := func(context.Context, string, string) *workflowservice.DescribeWorkflowExecutionResponse {
		desc := &workflowservice.DescribeWorkflowExecutionResponse{PendingWorkflowTask: &workflow.PendingWorkflowTaskInfo{Attempt: 9}}
		if mended.Load() {
			desc.PendingWorkflowTask = nil
		}
		return desc
	}
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(attempt, nil)
	return jobs.NewClient(tc, nil).Get("nightly")
}

// D10: who waits for a stop gives up, and says why, once a workflow task of the job has failed for a while; not if it
// is mended meanwhile.
func TestD10_StopOfAJobThatCannotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		run := neverDone(&mended)
		ctx, giveUp := context.WithCancelCause(t.Context())
		began := time.Now()
		giveUpStuck(ctx, run, giveUp)
		require.Less(t, time.Since(began), 2*failingLimit)
		require.ErrorContains(t, context.Cause(ctx), "the stop of nightly stays requested, but the job cannot answer it: the workflow task of nightly fails (8 times); ")

		ctx, giveUp = context.WithCancelCause(t.Context())
		time.AfterFunc(failingLimit/2, func() { mended.Store(true) })
		time.AfterFunc(time.Hour, func() { giveUp(nil) })
		giveUpStuck(ctx, run, giveUp)
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}

// 14.4: the list tells a job that has stopped, or has failed items, from one that is all right.
func TestPrintJobs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 25, 1, 0, 0, 0, time.Local)
	ended := at.Add(90 * time.Second)
	noted := func(ok, failed int64) *job.Counted {
		return &job.Counted{OK: ok, Failed: failed, At: at, Planned: 4000, PlanDone: true}
	}
	var out bytes.Buffer
	require.NoError(t, printJobs(&out, []jobs.Listed{
		{Name: "fine", Pool: "p", Source: job.SourceFiles, State: job.Completed, Started: at, Ended: &ended, Output: "a"},
		{Name: "some", Pool: "p", Source: job.SourceFiles, State: job.Completed, Started: at, Ended: &ended, Progress: noted(3990, 10), Output: "b"},
		{Name: "halted", Pool: "p", Source: job.SourceFiles, State: job.Stopped, Started: at, Ended: &ended, Progress: noted(1000, 0), Output: "c"},
		{Name: "new", Pool: "p", Source: job.SourceFiles, State: job.Failed, Started: at, Ended: &ended, Output: "d"},
		{Name: "risk", Pool: "q", Source: job.SourceFeed, State: job.Failed, Started: at, Ended: &ended, Progress: noted(1234, 1)},
		{Name: "stands", Pool: "p", Source: job.SourceFiles, State: job.Running, Started: at, Ended: &ended, Stuck: true, Output: "e"},
	}))
	require.Equal(t, `JOB     POOL  STATE           DONE   FAILED  STARTED              TOOK   SOURCE  OUTPUT
fine    p     completed       100%   0       2026-11-25 01:00:00  1m30s  files   a
some    p     completed       100%   10      2026-11-25 01:00:00  1m30s  files   b
halted  p     stopped         25%    0       2026-11-25 01:00:00  1m30s  files   c
new     p     failed          –      –       2026-11-25 01:00:00  1m30s  files   d
risk    q     failed          1,235  1       2026-11-25 01:00:00  1m30s  feed    
stands  p     running, stuck  –      –       2026-11-25 01:00:00  1m30s  files   e
`, out.String())
}
