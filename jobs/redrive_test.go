package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
)

// latest has the server know a latest run of the job nightly.
func latest(t *testing.T, tc *mocks.Client, status enums.WorkflowExecutionStatus, in wire.StartInput, memo job.State) {
	t.Helper()
	state, err := converter.GetDefaultDataConverter().ToPayload(memo)
	require.NoError(t, err)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: "nightly", RunId: "run-2b"},
			Type:      &common.WorkflowType{Name: wire.WorkflowJob}, Status: status,
			Memo: &common.Memo{Fields: map[string]*common.Payload{wire.MemoState: state}},
		},
	}, nil)
	if status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(in)
	require.NoError(t, err)
	events := &mocks.HistoryEventIterator{}
	events.On("HasNext").Return(true)
	events.On("Next").Return(&history.HistoryEvent{Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{Input: payloads},
	}}, nil)
	tc.On("GetWorkflowHistory", mock.Anything, "nightly", "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(events)
}

// endedWith has the latest run's result be a report.
func endedWith(tc *mocks.Client, report job.Report) {
	handle := &mocks.WorkflowRun{}
	handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) { *args.Get(1).(*job.Report) = report }).Return(nil)
	tc.On("GetWorkflow", mock.Anything, "nightly", "").Return(handle)
}

func TestClient_Redrive(t *testing.T) {
	t.Parallel()
	output := job.Output{Location: "out.jsonl", Bytes: 7, Checksum: "crc32c:0"}
	completed := job.Report{
		Job: "nightly", Run: "run-2", State: job.Completed, Planned: 10, Manifests: []string{"m"}, Output: &output,
		Outcomes: job.Outcomes{Totals: job.Totals{OK: 8, Failed: 2}},
	}
	first := &job.Redrive{Manifests: []string{"m"}, Output: output, Planned: 10, Runs: []string{"run-1"}}
	begun := *first
	begun.Done = []string{"d"}
	some := *first
	some.Where = "kind=crash"
	again := some
	again.Runs = []string{"run-1", "run-2"}
	second := &job.Redrive{Manifests: []string{"m"}, Output: output, Planned: 10, Runs: []string{"run-1", "run-2"}}
	stopped := job.Report{Job: "nightly", Run: "run-2", State: job.Stopped, Redrive: &begun}
	tests := []struct {
		name    string
		started wire.StartInput // the latest run
		report  job.Report
		want    wire.StartInput
	}{
		{"completed", wire.StartInput{Spec: valid()}, completed, wire.StartInput{Spec: valid(), Redrive: &job.Redrive{Manifests: []string{"m"}, Output: output, Planned: 10, Runs: []string{"run-2"}}}},
		{"redriven before", wire.StartInput{Spec: valid(), Redrive: first}, completed, wire.StartInput{Spec: valid(), Redrive: &job.Redrive{Manifests: []string{"m"}, Output: output, Planned: 10, Runs: []string{"run-2"}}}},
		{"redrive stopped", wire.StartInput{Spec: valid(), Redrive: first}, stopped, wire.StartInput{Spec: valid(), Resume: []string{"d"}, Redrive: second, Root: "run-2"}},
		{"redrive of some items stopped", wire.StartInput{Spec: valid(), Redrive: &some}, stopped, wire.StartInput{Spec: valid(), Resume: []string{"d"}, Redrive: &again, Root: "run-2"}},
		{"redrive of which nothing is known", wire.StartInput{Spec: valid(), Resume: []string{"d"}, Redrive: first}, job.Report{Run: "run-2", State: job.Failed}, wire.StartInput{Spec: valid(), Resume: []string{"d"}, Redrive: second, Root: "run-2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, test.started, job.Completed)
			endedWith(tc, test.report)
			handle := &mocks.WorkflowRun{}
			handle.On("GetRunID").Return("run-3")
			want := test.want
			want.Spec.BatchItems = 5
			want.Version = wire.LogicVersion
			var got client.StartWorkflowOptions
			tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, want).
				Run(func(args mock.Arguments) { got = args.Get(1).(client.StartWorkflowOptions) }).Return(handle, nil)
			run, err := c.Redrive(t.Context(), "nightly", RedriveOptions{BatchItems: 5})
			require.NoError(t, err)
			require.Equal(t, "run-3", run.ID())
			require.Equal(t, "nightly", got.ID)
			require.Equal(t, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, got.WorkflowIDReusePolicy)
			require.Equal(t, enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL, got.WorkflowIDConflictPolicy)
			require.Contains(t, got.StaticSummary, "redrive of in.jsonl")
		})
	}
}

func TestClient_RedriveRefused(t *testing.T) {
	t.Parallel()
	t.Run("not found", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(nil, serviceerror.NewNotFound("none"))
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
		var none *NotFoundError
		require.ErrorAs(t, err, &none)
	})
	for name, answers := range map[string]bool{"stopping, not listed yet": true, "nobody answers": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, wire.StartInput{}, job.Running)
			want := job.Running
			if query := tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport); answers {
				want = job.Stopping
				query.Return(value(t, job.Report{State: job.Stopping}), nil)
			} else {
				query.Return(nil, serviceerror.NewFailedPrecondition("no poller seen"))
			}
			_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
			var running *RunningError
			require.ErrorAs(t, err, &running)
			require.Equal(t, want, running.State)
		})
	}
	t.Run("stopping", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, wire.StartInput{}, job.Stopping)
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
		var running *RunningError
		require.ErrorAs(t, err, &running)
		require.Equal(t, job.Stopping, running.State)
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid()}, job.Stopped)
		endedWith(tc, job.Report{State: job.Stopped, Outcomes: job.Outcomes{Totals: job.Totals{Failed: 1}}})
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
		var not *NotCompletedError
		require.ErrorAs(t, err, &not)
		require.ErrorContains(t, err, "resume it first")
	})
	t.Run("nothing failed", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid()}, job.Completed)
		endedWith(tc, job.Report{State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{OK: 3}}})
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
		var nothing *NothingFailedError
		require.ErrorAs(t, err, &nothing)
	})
	t.Run("of other items than the one that was stopped", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid(), Redrive: &job.Redrive{Where: "kind=crash"}}, job.Stopped)
		endedWith(tc, job.Report{State: job.Stopped, Redrive: &job.Redrive{Where: "kind=crash"}})
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{Where: "kind=expired"})
		var begun *RedriveBegunError
		require.ErrorAs(t, err, &begun)
		require.EqualValues(t, "kind=crash", begun.Where)
	})
	t.Run("an expression that is none", func(t *testing.T) {
		t.Parallel()
		c, _ := setup(t)
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{Where: "expired"})
		require.ErrorContains(t, err, `where: "expired" is no condition`)
	})
	t.Run("batches that cannot be", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid()}, job.Completed)
		endedWith(tc, job.Report{State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{Failed: 3}}})
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{BatchItems: -1})
		require.ErrorContains(t, err, "BatchItems -1")
	})
	t.Run("somebody was quicker", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid()}, job.Completed)
		endedWith(tc, job.Report{State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{Failed: 3}}})
		tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, mock.Anything).
			Return(nil, serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", ""))
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
		var running *RunningError
		require.ErrorAs(t, err, &running)
	})
	t.Run("no records", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		spec := valid()
		spec.OnError = job.OnErrorDrop
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: spec}, job.Completed)
		endedWith(tc, job.Report{State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{Failed: 3}}})
		_, err := c.Redrive(t.Context(), "nightly", RedriveOptions{})
		var nothing *NothingFailedError
		require.ErrorAs(t, err, &nothing)
		require.ErrorContains(t, err, `OnError is "drop"`)
	})
}

// Resume continues a redrive as Redrive does.
func TestClient_ResumeOfARedrive(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	first := job.Redrive{Manifests: []string{"m"}, Planned: 10, Runs: []string{"run-1"}}
	begun, again := first, first
	begun.Done, again.Runs = []string{"d"}, []string{"run-1", "run-2"}
	latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid(), Redrive: &first}, job.Stopped)
	endedWith(tc, job.Report{Run: "run-2", State: job.Stopped, Manifests: []string{"m"}, Redrive: &begun})
	handle := &mocks.WorkflowRun{}
	handle.On("GetRunID").Return("run-3")
	want := wire.StartInput{Spec: valid(), Resume: []string{"d"}, Redrive: &again, Root: "run-2", Version: wire.LogicVersion}
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, want).Return(handle, nil)
	_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
}

// Of two who continue a job at the same time, one gets the error that it runs.
func TestClient_ResumeTwiceAtOnce(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid()}, job.Stopped)
	endedWith(tc, job.Report{Run: "run-2", State: job.Stopped})
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, mock.Anything).Return(nil, &serviceerror.WorkflowExecutionAlreadyStarted{})
	_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
	var running *RunningError
	require.ErrorAs(t, err, &running)
}

// What a job was to commit of an earlier run, and has not, is left to the next run.
func TestClient_ResumeBeforeAllIsSalvaged(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	first, second := json.RawMessage(`{"leg":1}`), json.RawMessage(`{"leg":2}`)
	latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: valid(), Salvage: []json.RawMessage{first, second}}, job.Failed)
	endedWith(tc, job.Report{Job: "nightly", Run: "run-2", State: job.Failed, Error: &job.Error{Type: job.ErrorOutput}, Manifests: []string{"m1"}, Salvage: 1})
	next := &mocks.WorkflowRun{}
	next.On("GetRunID").Return("run-3")
	want := wire.StartInput{Spec: valid(), Resume: []string{"m1"}, Salvage: []json.RawMessage{second}, Earlier: []string{"run-2"}, Root: "run-2", Version: wire.LogicVersion}
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, want).Return(next, nil)
	_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
}

// A job whose workflow has failed by a defect, without a report, is resumed from all that it had recorded.
func TestClient_ResumeOfAFailureWithoutAReport(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_FAILED, wire.StartInput{Spec: valid()}, job.Running)
	handle := &mocks.WorkflowRun{}
	handle.On("Get", mock.Anything, mock.Anything).Return(executionError(errors.New("nobody expected this")))
	tc.On("GetWorkflow", mock.Anything, "nightly", "").Return(handle)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, job.Report{
		Job: "nightly", State: job.Running, Outcomes: job.Outcomes{Totals: job.Totals{OK: 10}}, Manifests: []string{"m"},
	}), nil)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryPending).Return(value(t, []json.RawMessage{json.RawMessage(`{"leg":1}`)}), nil)
	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.Failed, report.State)
	require.EqualValues(t, 10, report.OK)
	require.Equal(t, "the workflow has failed: nobody expected this; the job can be resumed", report.Error.Message)

	next := &mocks.WorkflowRun{}
	next.On("GetRunID").Return("run-3")
	want := wire.StartInput{Spec: valid(), Resume: []string{"m"}, Salvage: []json.RawMessage{json.RawMessage(`{"leg":1}`)}, Version: wire.LogicVersion}
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, want).Return(next, nil)
	_, err = c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
}

// However often a redrive is attempted, it knows the job that it redrives and its last attempts.
func TestInput_AttemptsAtARedriveAreBounded(t *testing.T) {
	t.Parallel()
	in := wire.StartInput{Spec: valid(), Redrive: &job.Redrive{Runs: []string{"job"}}}
	for i := range 3 * maxEarlier {
		_, in.Redrive = redriveAgain(&in, job.Report{Run: fmt.Sprint("attempt-", i)})
	}
	runs := in.Redrive.Runs
	require.Len(t, runs, 1+maxEarlier)
	require.Equal(t, []string{"job", fmt.Sprint("attempt-", 2*maxEarlier)}, runs[:2])
	require.Equal(t, fmt.Sprint("attempt-", 3*maxEarlier-1), runs[maxEarlier])
}
