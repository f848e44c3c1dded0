package jobs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworkflow "go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func valid() job.Spec {
	return job.Spec{Name: "nightly", Pool: "thumbs", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}.WithDefaults()
}

// setup returns a Client over a Temporal client that answers as the test says.
func setup(t *testing.T) (*Client, *mocks.Client) {
	tc := &mocks.Client{}
	tc.Test(t)
	t.Cleanup(func() { tc.AssertExpectations(t) })
	return NewClient(tc, nil), tc
}

func TestClient_StartOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		options  StartOptions
		reuse    enums.WorkflowIdReusePolicy
		conflict enums.WorkflowIdConflictPolicy
	}{
		{"new", StartOptions{}, enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL},
		{"fresh", StartOptions{Fresh: true}, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING},
		{"resume", StartOptions{Resume: []string{"m"}, TaskTimeout: 2 * time.Second}, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			handle := &mocks.WorkflowRun{}
			handle.On("GetRunID").Return("run")
			var got client.StartWorkflowOptions
			tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, wire.StartInput{Spec: valid(), Resume: test.options.Resume, Version: wire.LogicVersion}).
				Run(func(args mock.Arguments) { got = args.Get(1).(client.StartWorkflowOptions) }).Return(handle, nil)
			run, err := c.Start(t.Context(), job.Spec{Name: "nightly", Pool: "thumbs", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}, &test.options)
			require.NoError(t, err)
			require.Equal(t, "nightly", run.Name())
			require.Equal(t, "nightly", got.ID)
			require.Equal(t, wire.WorkflowQueue, got.TaskQueue)
			require.Equal(t, test.reuse, got.WorkflowIDReusePolicy)
			require.Equal(t, test.conflict, got.WorkflowIDConflictPolicy)
			require.Equal(t, cmp.Or(test.options.TaskTimeout, DefaultTaskTimeout), got.WorkflowTaskTimeout)
			require.True(t, got.WorkflowExecutionErrorWhenAlreadyStarted)
			require.Equal(t, map[string]any{wire.MemoPool: "thumbs", wire.MemoOutput: "out.jsonl", wire.MemoState: job.Running, wire.MemoSource: "files", wire.MemoFormat: "auto"}, got.Memo)
			require.Equal(t, "pool thumbs · in.jsonl", got.StaticSummary)
			require.Contains(t, got.StaticDetails, "Window auto")
		})
	}
}

// TestD40: a frozen worker holds the workflow tasks of other pools' jobs for five seconds and no longer (decision 056
// has the measurement).
func TestD40_AFrozenWorkerHoldsAJobForFiveSeconds(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	handle := &mocks.WorkflowRun{}
	handle.On("GetRunID").Return("run")
	tc.On("ExecuteWorkflow", mock.Anything, mock.MatchedBy(func(o client.StartWorkflowOptions) bool { return o.WorkflowTaskTimeout == 5*time.Second }),
		wire.WorkflowJob, mock.Anything).Return(handle, nil)
	_, err := c.Start(t.Context(), job.Spec{Name: "nightly", Pool: "thumbs", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}, nil)
	require.NoError(t, err)
}

func TestClient_StartRefused(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	_, err := c.Start(t.Context(), job.Spec{Name: "nightly"}, nil)
	require.ErrorContains(t, err, "pool name is empty", "a spec that cannot be is refused before anything is asked")

	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, mock.Anything).
		Return(nil, serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", "")).Once()
	_, err = c.Start(t.Context(), valid(), nil)
	var exists *ExistsError
	require.ErrorAs(t, err, &exists)
	require.Equal(t, "nightly", exists.Name)
	require.ErrorContains(t, err, "StartOptions.Fresh")

	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, mock.Anything).Return(nil, errors.New("no network"))
	_, err = c.Start(t.Context(), valid(), nil)
	require.EqualError(t, err, "starting job nightly: no network")
}

func TestDescribeInput(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a", inputsOf(job.Spec{Files: &job.Files{Input: []string{"a"}}}))
	require.Equal(t, "a and 2 more", inputsOf(job.Spec{Files: &job.Files{Input: []string{"a", "b", "c"}}}))
	require.Contains(t, kindOf(job.Spec{}, nil).details(job.Spec{Files: &job.Files{Input: []string{"a"}}, Store: "parts/"}), "parts in parts/")
}

// S1, S6: a stop's grace is a duration of 0 or more.
func TestRun_StopGrace(t *testing.T) {
	t.Parallel()
	for _, grace := range []string{"", "0", "0s", "30s", "1h30m"} {
		c, tc := setup(t)
		tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, job.Stop{Grace: grace}).Return(nil)
		describe(tc, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, wire.WorkflowJob)
		require.NoError(t, c.Get("nightly").Stop(t.Context(), job.Stop{Grace: grace}))
	}
	for _, grace := range []string{"-1s", "30", "soon"} {
		c, _ := setup(t)
		err := c.Get("nightly").Stop(t.Context(), job.Stop{Grace: grace})
		require.ErrorContains(t, err, "use a duration of 0 or more", "%q is not sent at all", grace)
	}
}

// S18: whoever requests a stop of a feed tells its legs, too: a worker that comes later would still take items.
func TestD7_AStopBarsTheLegs(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	memo := func(leg int) *workflowservice.DescribeWorkflowExecutionResponse {
		payload, err := converter.GetDefaultDataConverter().ToPayload(leg)
		require.NoError(t, err)
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Type: &common.WorkflowType{Name: wire.WorkflowJob}, Memo: &common.Memo{Fields: map[string]*common.Payload{wire.MemoLeg: payload}},
		}}
	}
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, mock.Anything).Return(nil).Once()
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(memo(1), nil).Once()
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(memo(3), nil)
	var told []string
	tc.On("SignalWorkflow", mock.Anything, mock.Anything, "", wire.SignalBar, nil).Run(func(args mock.Arguments) {
		told = append(told, args.String(1))
	}).Return(serviceerror.NewNotFound("gone"))
	require.NoError(t, c.Get("nightly").Stop(t.Context(), job.Stop{}))
	require.Equal(t, []string{wire.LegID("nightly", 1), wire.LegID("nightly", 2), wire.LegID("nightly", 3), wire.LegID("nightly", 4)}, told)

	c, tc = setup(t)
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, mock.Anything).Return(nil)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(memo(1), nil)
	tc.On("SignalWorkflow", mock.Anything, mock.Anything, "", wire.SignalBar, nil).Return(errors.New("no network"))
	require.ErrorContains(t, c.Get("nightly").Stop(t.Context(), job.Stop{}), "is requested; the feed may still take items: telling leg 1: no network")
}

// If it cannot be found out whether the job is a feed, the error does not say that it is one.
func TestRun_StopWithoutALookUp(t *testing.T) {
	t.Parallel()
	tc := &mocks.Client{}
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, job.Stop{}).Return(nil)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(nil, errors.New("no network"))
	err := NewClient(tc, nil).Get("nightly").Stop(t.Context(), job.Stop{})
	require.ErrorContains(t, err, "the stop of job nightly is requested; whether it is a feed that still takes items could not be found out: ")
	require.ErrorContains(t, err, "no network")
}

// S8: a stop of a job that has ended, or never was, says so.
func TestRun_StopWhenEnded(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, mock.Anything).Return(serviceerror.NewNotFound("gone"))
	describe(tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.WorkflowJob)
	err := c.Get("nightly").Stop(t.Context(), job.Stop{})
	var ended *EndedError
	require.ErrorAs(t, err, &ended)
	require.Equal(t, job.Completed, ended.State)

	c, tc = setup(t)
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, mock.Anything).Return(serviceerror.NewNotFound("gone"))
	describe(tc, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, wire.WorkflowJob) // it is not queried: no worker may be up
	err = c.Get("nightly").Stop(t.Context(), job.Stop{})
	require.ErrorAs(t, err, &ended)
	require.Equal(t, job.Failed, ended.State)

	c, tc = setup(t)
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, mock.Anything).Return(serviceerror.NewNotFound("gone"))
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(nil, serviceerror.NewNotFound("gone"))
	err = c.Get("nightly").Stop(t.Context(), job.Stop{})
	var none *NotFoundError
	require.ErrorAs(t, err, &none)

	c, tc = setup(t)
	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalStop, mock.Anything).Return(errors.New("no network"))
	require.EqualError(t, c.Get("nightly").Stop(t.Context(), job.Stop{}), "stopping job nightly: no network")
}

func describe(tc *mocks.Client, status enums.WorkflowExecutionStatus, kind string) {
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: "nightly", RunId: "r"},
			Status:    status, Type: &common.WorkflowType{Name: kind},
		},
	}, nil)
}

// ends makes the job end with a report or an error.
func ends(tc *mocks.Client, report job.Report, err error) {
	handle := &mocks.WorkflowRun{}
	handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		if err == nil {
			*args.Get(1).(*job.Report) = report
		}
	}).Return(err)
	tc.On("GetWorkflow", mock.Anything, "nightly", mock.Anything).Return(handle)
}

// S10: waiting returns what the job has come to.
func TestRun_Wait(t *testing.T) {
	t.Parallel()
	failed := job.Report{Job: "nightly", State: job.Failed, Error: &job.Error{Type: job.ErrorBooks, Message: "the books do not balance"}, Manifests: []string{"m"}}
	tests := []struct {
		name  string
		err   error
		check func(t *testing.T, report job.Report, err error)
	}{
		{"completed", nil, func(t *testing.T, report job.Report, err error) {
			require.NoError(t, err)
			require.Equal(t, job.Completed, report.State)
		}},
		{"failed", executionError(temporal.NewNonRetryableApplicationError("the books do not balance", job.ErrorBooks, nil, failed)), func(t *testing.T, report job.Report, err error) {
			var failure *FailedError
			require.ErrorAs(t, err, &failure)
			require.Equal(t, failed, failure.Report)
			require.Equal(t, failed, report)
			require.EqualError(t, err, "job nightly failed: the books do not balance")
			var cause *job.Error
			require.ErrorAs(t, err, &cause)
			require.Equal(t, job.ErrorBooks, cause.Type)
		}},
		{"terminated", executionError(errors.New("terminated")), func(t *testing.T, report job.Report, err error) {
			var failure *FailedError
			require.ErrorAs(t, err, &failure)
			require.Equal(t, job.Failed, report.State)
			require.Equal(t, "terminated", report.Error.Message)
		}},
		{"other details", executionError(temporal.NewNonRetryableApplicationError("x", "X", nil, 17)), func(t *testing.T, report job.Report, err error) {
			require.Equal(t, job.Failed, report.State)
			require.Error(t, err)
		}},
		{"unknown", serviceerror.NewNotFound("no such workflow"), func(t *testing.T, report job.Report, err error) {
			var none *NotFoundError
			require.ErrorAs(t, err, &none)
			require.ErrorContains(t, err, "there is no job named")
		}},
		{"out of reach", context.DeadlineExceeded, func(t *testing.T, report job.Report, err error) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			ends(tc, job.Report{Job: "nightly", State: job.Completed}, test.err)
			report, err := c.Get("nightly").Wait(t.Context())
			test.check(t, report, err)
		})
	}
}

// executionError is the SDK's error for a workflow that has not completed.
func executionError(cause error) error {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(sdkworkflow.Context) error { return cause })
	return env.GetWorkflowError()
}

func TestFailedError_WithoutCause(t *testing.T) {
	t.Parallel()
	err := &FailedError{Report: job.Report{Job: "nightly"}}
	require.EqualError(t, err, "job nightly failed")
	require.NoError(t, errors.Unwrap(err))
}

// The report of a running job is that of its workflow and of every leg that answers.
func TestRun_ReportOfRunningJob(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	describe(tc, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, wire.WorkflowJob)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, job.Report{
		Job: "nightly", State: job.Running, Planned: 100, Outcomes: job.Outcomes{Totals: job.Totals{OK: 10}}, OpenLegs: []string{wire.LegID("nightly", 1), wire.LegID("nightly", 2)},
	}), nil)
	tc.On("QueryWorkflow", mock.Anything, wire.LegID("nightly", 1), "", wire.QueryProgress).Return(value(t, job.Progress{Outcomes: job.Outcomes{Totals: job.Totals{OK: 5}}, InFlight: 3}), nil)
	tc.On("QueryWorkflow", mock.Anything, wire.LegID("nightly", 2), "", wire.QueryProgress).Return(nil, serviceerror.NewNotFound("not yet there"))
	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 15, report.OK)
	require.Equal(t, 3, report.InFlight)
}

func value(t *testing.T, v any) converter.EncodedValue {
	t.Helper()
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(v)
	require.NoError(t, err)
	return client.NewValue(payloads)
}

func TestRun_ReportOfSomethingElse(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	describe(tc, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, "Somebody's")
	_, err := c.Get("nightly").Report(t.Context())
	var none *NotFoundError
	require.ErrorAs(t, err, &none, "a workflow of another type is not a job")
}

func TestRun_ReportOfFailedJob(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	describe(tc, enums.WORKFLOW_EXECUTION_STATUS_FAILED, wire.WorkflowJob)
	want := job.Report{Job: "nightly", State: job.Failed, Error: &job.Error{Message: "x"}}
	ends(tc, job.Report{}, executionError(temporal.NewNonRetryableApplicationError("x", "X", nil, want)))
	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err, "that it failed is in the report")
	require.Equal(t, want, report)
}

func TestClient_List(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	memo := func(state job.State) *common.Memo {
		return &common.Memo{Fields: map[string]*common.Payload{
			wire.MemoPool: payload(t, "p"), wire.MemoState: payload(t, state), wire.MemoOutput: payload(t, "out"), wire.MemoSource: payload(t, job.SourceFiles),
		}}
	}
	info := func(id string, status enums.WorkflowExecutionStatus, memo *common.Memo) *workflow.WorkflowExecutionInfo {
		return &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: id, RunId: "later"}, FirstRunId: "first",
			Status: status, Memo: memo, StartTime: timestamppb.New(time.Unix(1, 0)),
		}
	}
	closed := info("stopped", enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, memo(job.Stopped))
	closed.CloseTime = timestamppb.New(time.Unix(2, 0))
	tc.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return len(r.NextPageToken) == 0 && r.PageSize == 10
	})).Return(&workflowservice.ListWorkflowExecutionsResponse{
		NextPageToken: []byte("more"),
		Executions: []*workflow.WorkflowExecutionInfo{
			info("running", enums.WORKFLOW_EXECUTION_STATUS_RUNNING, memo(job.Running)),
			info("running", enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, memo(job.Running)),
			closed,
		},
	}, nil)
	tc.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return string(r.NextPageToken) == "more" && r.PageSize == 8
	})).Return(&workflowservice.ListWorkflowExecutionsResponse{
		Executions: []*workflow.WorkflowExecutionInfo{
			info("completed", enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, memo(job.Stopping)),
			info("terminated", enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, memo(job.Running)),
			info("no memo", enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil),
			info("odd memo", enums.WORKFLOW_EXECUTION_STATUS_RUNNING, &common.Memo{Fields: map[string]*common.Payload{wire.MemoPool: payload(t, 7)}}),
		},
	}, nil)
	jobs, err := c.List(t.Context(), 10, nil)
	require.NoError(t, err)
	start, end := time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()
	require.Equal(t, []Listed{
		{Name: "running", Run: "first", Pool: "p", Source: job.SourceFiles, State: job.Running, Output: "out", Started: start},
		{Name: "stopped", Run: "first", Pool: "p", Source: job.SourceFiles, State: job.Stopped, Output: "out", Started: start, Ended: &end},
		{Name: "completed", Run: "first", Pool: "p", Source: job.SourceFiles, State: job.Completed, Output: "out", Started: start},
		{Name: "terminated", Run: "first", Pool: "p", Source: job.SourceFiles, State: job.Failed, Output: "out", Started: start},
		{Name: "no memo", Run: "first", Started: start},
		{Name: "odd memo", Run: "first", Started: start},
	}, jobs)
}

func payload(t *testing.T, v any) *common.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return p
}

func TestClient_ListFails(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("ListWorkflow", mock.Anything, mock.Anything).Return(nil, errors.New("no network"))
	_, err := c.List(t.Context(), 1, nil)
	require.EqualError(t, err, "listing jobs: no network")
}

func TestClient_Pollers(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeTaskQueue", mock.Anything, "stint.thumbs", enums.TASK_QUEUE_TYPE_ACTIVITY).
		Return(&workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueue.PollerInfo{{}, {}}}, nil).Once()
	n, err := c.Pollers(t.Context(), "thumbs")
	require.NoError(t, err)
	require.Equal(t, 2, n)

	tc.On("DescribeTaskQueue", mock.Anything, mock.Anything, mock.Anything).Return(nil, errors.New("no network"))
	_, err = c.Pollers(t.Context(), "thumbs")
	require.EqualError(t, err, "asking who serves pool thumbs: no network")
}

// Those who list workflows see what the items of a pipeline go through.
func TestStages_Summary(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Pool: "awk", Files: &job.Files{Input: []string{"in.jsonl"}}, Stages: []job.Stage{{Name: "clean", Pool: "awk"}, {Name: "score", Pool: "models"}}}
	require.Equal(t, "stages clean, score · in.jsonl", kindOf(spec, nil).summary(spec))
	for range 30 {
		spec.Stages = append(spec.Stages, job.Stage{Name: "another"})
	}
	require.Less(t, len(kindOf(spec, nil).summary(spec)), 150)
}

func TestLoop_Summary(t *testing.T) {
	t.Parallel()
	loop := job.Spec{Loop: &job.Loop{Slots: 1, Every: 10 * time.Second}}
	require.Equal(t, "loop every 10s, 1 slot", kindOf(loop, nil).items(loop))
	require.Equal(t, "loop back to back, 4 slots", ticksOf(job.Spec{Loop: &job.Loop{Slots: 4}}))
}
