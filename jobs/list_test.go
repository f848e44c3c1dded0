package jobs

import (
	"context"
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
)

// answerList answers a query for jobs, and no other one, with jobs that run; each has the pools of its stages, the
// first of which is its own.
func answerList(t *testing.T, tc *mocks.Client, query string, pools map[string][]string) {
	t.Helper()
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	names := make([]string, 0, len(pools))
	for name := range pools {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		memo := map[string]*common.Payload{wire.MemoPool: payload(t, pools[name][0]), wire.MemoState: payload(t, job.Running)}
		if len(pools[name]) > 1 {
			memo[wire.MemoPools] = payload(t, pools[name])
		}
		page.Executions = append(page.Executions, &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: name}, Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING, Memo: &common.Memo{Fields: memo},
		})
	}
	tc.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return r.GetQuery() == query
	})).Return(page, nil)
}

const queryOfRunning = "WorkflowType = 'Job' AND (TaskQueue = 'stint' OR TaskQueue STARTS_WITH 'stint@') AND ExecutionStatus = 'Running'"

// S17: who asks for jobs that run does not have the server list those that have ended, however many there are. A
// pipeline is a job of all its pools.
func TestClient_ListRunning(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	answerList(t, tc, queryOfRunning, map[string][]string{"a": {"clean", "score"}, "b": {"other"}, "c": {"score"}})
	jobs, err := c.List(t.Context(), 10, &ListFilter{Running: true, Pools: []string{"score"}})
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.Equal(t, "a", jobs[0].Name)
	require.Equal(t, []string{"clean", "score"}, jobs[0].Pools)
	require.Equal(t, "c", jobs[1].Name)
	require.Nil(t, jobs[1].Pools)
	require.True(t, jobs[0].Reaches("clean"))
	require.False(t, jobs[0].Reaches("other"))

	answerList(t, tc, JobsQuery, map[string][]string{"ended": {"p"}})
	all, err := c.List(t.Context(), 10, nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// S9: a stop of a pool reaches pipelines with a stage that it runs, and no job of another pool.
func TestClient_StopAllOfALaterStage(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	answerList(t, tc, queryOfRunning, map[string][]string{"a": {"clean", "score"}, "b": {"other"}})
	tc.On("SignalWorkflow", mock.Anything, "a", "", wire.SignalStop, job.Stop{Reason: "enough"}).Return(nil).Once()
	tc.On("DescribeWorkflowExecution", mock.Anything, "a", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{},
	}, nil)
	stopped, err := c.StopAll(t.Context(), "score", job.Stop{Reason: "enough"})
	require.NoError(t, err)
	require.Len(t, stopped, 1)
	require.Equal(t, "a", stopped[0].Name())
}

// A stop of many jobs whose time is over says how many it has reached, and not what became of each of the others.
func TestS19_StopAllWithoutTime(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	answerList(t, tc, queryOfRunning, map[string][]string{"a": {"p"}, "b": {"p"}, "c": {"p"}})
	ctx, cancel := context.WithCancel(t.Context())
	tc.On("SignalWorkflow", mock.Anything, mock.Anything, "", wire.SignalStop, job.Stop{}).Run(func(mock.Arguments) { cancel() }).Return(context.Canceled)
	stopped, err := c.StopAll(ctx, "", job.Stop{})
	require.Empty(t, stopped)
	require.EqualError(t, err, "stopping 3 jobs: the request has reached 0 of them: context canceled")
}

// The memo of a pipeline has the pools of all stages, each once; that of another job has its one.
func TestClient_StartNotesAllPools(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	spec := job.Spec{Name: "words", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl", Stages: []job.Stage{
		{Name: "clean", Pool: "clean"}, {Name: "route", Switch: "router", Cases: []job.Case{{Value: "a", Stage: job.Stage{Pool: "score"}}}, Default: &job.Stage{Pool: "clean"}},
	}}
	handle := &mocks.WorkflowRun{}
	handle.On("GetRunID").Return("run")
	var got client.StartWorkflowOptions
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, mock.Anything).
		Run(func(args mock.Arguments) { got = args.Get(1).(client.StartWorkflowOptions) }).Return(handle, nil)
	_, err := c.Start(t.Context(), spec, nil)
	require.NoError(t, err)
	require.Equal(t, "clean", got.Memo[wire.MemoPool])
	require.Equal(t, []string{"clean", "router", "score"}, got.Memo[wire.MemoPools])
}

// D10: a job whose workflow task fails again and again is marked in the list, as long as it runs.
func TestD10_ListedAsStuck(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	info := &workflow.WorkflowExecutionInfo{
		Execution: &common.WorkflowExecution{WorkflowId: "nightly"}, Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
	require.False(t, c.listed(info).Stuck)
	info.SearchAttributes = &common.SearchAttributes{IndexedFields: map[string]*common.Payload{
		"TemporalReportedProblems": payload(t, []string{"category=WorkflowTaskFailed", "cause=WorkflowTaskFailedCauseNonDeterministicError"}),
	}}
	require.True(t, c.listed(info).Stuck)
	info.Status = enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
	require.False(t, c.listed(info).Stuck)
}

// U9: a page of a list comes from the server's own filter as far as that goes, and continues where it ended.
func TestClient_ListPage(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	const query = JobsQuery + " AND WorkflowId STARTS_WITH 'n' AND ExecutionStatus IN ('Completed', 'Running')"
	entry := func(name string, state job.State, status enums.WorkflowExecutionStatus) *workflow.WorkflowExecutionInfo {
		return &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: name}, Status: status, Memo: &common.Memo{Fields: map[string]*common.Payload{wire.MemoState: payload(t, state)}},
		}
	}
	pages := map[string]*workflowservice.ListWorkflowExecutionsResponse{
		"": {NextPageToken: []byte("2"), Executions: []*workflow.WorkflowExecutionInfo{
			entry("na", job.Running, enums.WORKFLOW_EXECUTION_STATUS_RUNNING), entry("nb", job.Completed, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED),
		}},
		"2": {NextPageToken: []byte("3"), Executions: []*workflow.WorkflowExecutionInfo{
			entry("nc", job.Stopped, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED), entry("nd", job.Stopping, enums.WORKFLOW_EXECUTION_STATUS_RUNNING),
		}},
		"3": {},
	}
	tc.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return r.GetQuery() == query && r.GetPageSize() == 2
	})).Return(func(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		return pages[string(r.GetNextPageToken())], nil
	})
	filter := &ListFilter{States: []job.State{job.Running, job.Stopped}, Name: "n"}
	page, err := c.ListPage(t.Context(), 2, filter, nil)
	require.NoError(t, err)
	require.Len(t, page.Jobs, 2)
	require.Equal(t, "na", page.Jobs[0].Name)
	require.Equal(t, "nc", page.Jobs[1].Name)
	require.Equal(t, []byte("3"), page.Next)
	page, err = c.ListPage(t.Context(), 2, filter, page.Next)
	require.NoError(t, err)
	require.Empty(t, page.Jobs)
	require.Empty(t, page.Next)

	require.Contains(t, ListFilter{Name: "n-2026-11-21T03:00:00Z"}.query(), " AND WorkflowId STARTS_WITH 'n-2026-11-21T03:00:00Z'")
	require.NotContains(t, ListFilter{Name: "n' OR WorkflowId = 'x"}.query(), "x", "what is no name is not asked for")
}
