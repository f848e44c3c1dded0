package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
)

// SetStopsLimit is how long the worker waits for stops that are under way when it starts.
func (w *Worker) SetStopsLimit(d time.Duration) { w.stopsLimit = d }

// payloads encodes values as a server has them.
func payloads(t *testing.T) func(v any) *common.Payload {
	return func(v any) *common.Payload {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		require.NoError(t, err)
		return p
	}
}

// S17: a worker asks every job that runs and reaches its pool, however many there are: also pipelines with a later
// stage of the pool. It has the server list no job that has ended, and asks none of another pool. One that does not
// answer keeps no other from being asked.
func TestWorker_AwaitStopsAsksAllRunning(t *testing.T) {
	t.Parallel()
	tc := &mocks.Client{}
	tc.Test(t)
	payload := payloads(t)
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("job-%d", i)
		memo := map[string]*common.Payload{wire.MemoState: payload(job.Running), wire.MemoPool: payload("score")}
		switch i % 3 {
		case 1:
			memo[wire.MemoPool], memo[wire.MemoPools] = payload("clean"), payload([]string{"clean", "score"})
		case 2:
			memo[wire.MemoPool], memo[wire.MemoPools] = payload("clean"), payload([]string{"clean", "turn"})
		}
		if i%3 < 2 {
			want = append(want, name)
		}
		page.Executions = append(page.Executions, &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: name}, Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING, Memo: &common.Memo{Fields: memo},
		})
	}
	tc.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return strings.HasSuffix(r.GetQuery(), " AND ExecutionStatus = 'Running'")
	})).Return(page, nil)
	var mu sync.Mutex
	var asked []string
	everyOther := make(chan struct{})
	tc.On("QueryWorkflow", mock.Anything, mock.Anything, "", wire.QueryReport).Run(func(args mock.Arguments) {
		mu.Lock()
		asked = append(asked, args.String(1))
		n := len(asked)
		mu.Unlock()
		if n == len(want) {
			close(everyOther)
		}
		if args.String(1) == "job-0" {
			select {
			case <-everyOther:
			case <-args.Get(0).(context.Context).Done():
			}
		}
	}).Return(nil, errors.New("nobody answers"))
	w := &Worker{pool: "score", client: jobs.NewClient(tc, nil), stopsLimit: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // matters only if something is broken
	defer cancel()
	require.NoError(t, w.awaitStops(ctx))
	require.NoError(t, ctx.Err())
	require.ElementsMatch(t, want, asked)
}

// S17: a job that does not answer at first, because its coordinator has just been killed, is asked again, and its legs
// are waited for.
func TestWorker_AwaitStopsAsksAgain(t *testing.T) {
	t.Parallel()
	tc := &mocks.Client{}
	tc.Test(t)
	payload := payloads(t)
	tc.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{
		Executions: []*workflow.WorkflowExecutionInfo{{
			Execution: &common.WorkflowExecution{WorkflowId: "nightly"}, Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
			Memo: &common.Memo{Fields: map[string]*common.Payload{wire.MemoState: payload(job.Running), wire.MemoPool: payload("score")}},
		}},
	}, nil)
	query := func() *mock.Call { return tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport) }
	query().Return(nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")).Once()
	query().Return(nil, serviceerror.NewFailedPrecondition("no poller seen for task queue recently")).Once()
	answer := wire.Answer{Report: job.Report{State: job.Stopping}}
	answer.OpenLegs = []string{"nightly/leg-7"}
	query().Return(client.NewValue(&common.Payloads{Payloads: []*common.Payload{payload(answer)}}), nil).Once()
	described := func(fields map[string]*common.Payload) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING, Memo: &common.Memo{Fields: fields},
		}}
	}
	describe := func() *mock.Call {
		return tc.On("DescribeWorkflowExecution", mock.Anything, "nightly/leg-7", "")
	}
	describe().Return(described(nil), nil).Times(6)
	describe().Return(described(map[string]*common.Payload{wire.MemoStop: payload(wire.StopNotice{})}), nil).Once()
	w := &Worker{pool: "score", client: jobs.NewClient(tc, nil), stopsLimit: time.Hour}
	require.NoError(t, w.awaitStops(t.Context()))
	tc.AssertExpectations(t)
}
