package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/samples"
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
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var (
	leg1   = wire.LegID("nightly", 1)
	notNow = context.DeadlineExceeded
	began  = time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
)

// pendingOf is what the server says of a workflow: its batches that run, and what their heartbeats say.
func pendingOf(t *testing.T, memo *job.Counted, legs []string, hints map[string][]wire.Answered) *workflowservice.DescribeWorkflowExecutionResponse {
	t.Helper()
	info := &workflow.WorkflowExecutionInfo{
		Execution: &common.WorkflowExecution{WorkflowId: "nightly", RunId: "r"}, Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
		Type: &common.WorkflowType{Name: wire.WorkflowJob}, StartTime: timestamppb.New(began),
		Memo: &common.Memo{Fields: map[string]*common.Payload{wire.MemoPool: payload(t, "thumbs"), wire.MemoState: payload(t, job.Running)}},
	}
	if memo != nil {
		info.Memo.Fields[wire.MemoProgress] = payload(t, memo)
	}
	desc := &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}
	for _, leg := range legs {
		desc.PendingChildren = append(desc.PendingChildren, &workflow.PendingChildExecutionInfo{WorkflowId: leg})
	}
	for id, news := range hints {
		details, err := converter.GetDefaultDataConverter().ToPayloads(wire.Hint{Progress: news})
		require.NoError(t, err)
		desc.PendingActivities = append(desc.PendingActivities, &workflow.PendingActivityInfo{
			ActivityId: id, ActivityType: &common.ActivityType{Name: string(wire.ActivityProcess)}, State: enums.PENDING_ACTIVITY_STATE_STARTED,
			HeartbeatDetails: details, LastHeartbeatTime: timestamppb.New(began), LastStartedTime: timestamppb.New(began.Add(-10 * time.Second)),
		})
	}
	return desc
}

// M3, M9: a report counts what heartbeats say of batches in flight, of any batch once, and nothing of one that its workflow
// has counted.
func TestReport_CountsBatchesInHand(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(pendingOf(t, nil, []string{leg1}, map[string][]wire.Answered{
		"batch-1.1": {{Activity: "batch-1.1", Items: 7, Failed: 2, Bytes: 70}, {Activity: "batch-2.1", Items: 3, Bytes: 30}},
	}), nil)
	tc.On("DescribeWorkflowExecution", mock.Anything, leg1, "").Return(pendingOf(t, nil, nil, map[string][]wire.Answered{
		"batch-2.1": {{Activity: "batch-2.1", Items: 4, Bytes: 40}}, "batch-3.1": {{Activity: "batch-3.1", Items: 50, Bytes: 500}},
	}), nil)
	named := []string{"batch-1.1", "batch-2.1", "batch-3.1"}
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport, named).
		Return(value(t, wire.Answer{Report: job.Report{Job: "nightly", State: job.Running, Outcomes: lived(100, time.Hour), OpenLegs: []string{leg1}}, Flying: []string{"batch-1.1"}}), nil)
	tc.On("QueryWorkflow", mock.Anything, leg1, "", wire.QueryProgress, named).
		Return(value(t, job.Progress{Outcomes: lived(60, time.Minute), Flying: []string{"batch-2.1"}}), nil) // batch 3 has just been counted
	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100+60+5+4, report.OK)
	require.EqualValues(t, 2, report.Failed)
	require.EqualValues(t, 110, report.InputBytes)
	require.EqualValues(t, 11, report.InHand)
	require.Zero(t, report.AsOf)

	require.Nil(t, report.Life)
	all := report.Samples // M9: of the job, its legs, and what they have in hand
	last := all[len(all)-1]
	require.Equal(t, job.Sample{At: began, OK: report.OK, Failed: report.Failed}, last)
	require.Equal(t, began.Add(-time.Hour), all[0].At)
	require.NotEmpty(t, report.Rates(10))
	for _, s := range all {
		if s.At.Before(began.Add(-10 * time.Second)) {
			require.LessOrEqual(t, s.OK, int64(160), "what is in hand was done since its batch began")
		}
	}
}

// lived are the outcomes of a job or a leg that has done so many items from some time before began on, in a second.
func lived(ok int64, before time.Duration) job.Outcomes {
	life := samples.New(0)
	at := began.Add(-before)
	life.Add(at, at.Add(time.Second), samples.Counts{samples.OK: ok}, "")
	return job.Outcomes{Totals: job.Totals{OK: ok}, Life: life.Pack()}
}

// 14.1: if nobody answers, the report has what the job has noted last, and what heartbeats say, and is marked with the
// time.
func TestReport_LastKnownOfTheMemo(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	noted := &job.Counted{OK: 40, Failed: 2, At: began.Add(time.Minute), Planned: 100, PlanDone: true}
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(pendingOf(t, noted, nil, map[string][]wire.Answered{
		"batch-5.1": {{Activity: "batch-5.1", Items: 3}},
	}), nil)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport, []string{"batch-5.1"}).Return(nil, notNow)
	report, err := c.Get("nightly").Report(t.Context())
	require.True(t, Unanswered(err), err)
	require.Equal(t, &UnansweredError{Name: "nightly", Err: notNow}, errors.Unwrap(err))
	require.EqualError(t, err, "asking for its report: job nightly does not answer")
	require.Equal(t, "thumbs", report.Pool)
	require.Equal(t, job.Running, report.State)
	require.EqualValues(t, 43, report.OK)
	require.EqualValues(t, 2, report.Failed)
	require.Equal(t, began.Add(time.Minute), report.AsOf)
	require.Equal(t, []string{"nightly"}, report.Silent)
	percent, ok := report.Percent()
	require.True(t, ok)
	require.EqualValues(t, 45, percent)
}

// A worker that coordinates jobs and cannot answer, as one of another program, is named, and is not taken for silence.
func TestD10_ReportOfAnotherProgram(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(pendingOf(t, nil, nil, nil), nil)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(nil, serviceerror.NewQueryFailed("unable to find workflow type: Job"))
	_, err := c.Get("nightly").Report(t.Context())
	require.False(t, Unanswered(err))
	require.ErrorContains(t, err, "of another version of stint or of another program: unable to find workflow type: Job")
}

// 14.1: a leg that does not answer is counted as the job has heard of it last, and then as it has answered last.
func TestReport_LegDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(pendingOf(t, nil, nil, nil), nil)
	answer := wire.Answer{
		Report: job.Report{Job: "nightly", State: job.Running, Started: began, Outcomes: job.Outcomes{Totals: job.Totals{OK: 10}}, OpenLegs: []string{leg1}},
		Heard:  []wire.Heard{{Leg: leg1, Counted: job.Counted{OK: 20, Batches: 2, At: began.Add(time.Second)}}},
	}
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, answer), nil)
	asked := func() *mock.Call {
		return tc.On("QueryWorkflow", mock.Anything, leg1, "", wire.QueryProgress).Once()
	}
	asked().Return(nil, notNow)
	asked().Return(value(t, job.Progress{Outcomes: job.Outcomes{Totals: job.Totals{OK: 33}}}), nil)
	asked().Return(nil, notNow)

	g := newJobProgress(c.Get("nightly"))
	report, err := g.ask(t.Context())
	require.True(t, Unanswered(err))
	require.EqualValues(t, 30, report.OK)
	require.Equal(t, began.Add(time.Second), report.AsOf)
	require.Equal(t, []string{leg1}, report.Silent)

	report, err = g.ask(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 43, report.OK)
	require.Zero(t, report.AsOf)

	report, err = g.ask(t.Context())
	require.True(t, Unanswered(err))
	require.EqualValues(t, 43, report.OK, "the last that is known")
	require.Equal(t, g.legs[leg1].at, report.AsOf)
}

// Who reads what a feed has recorded asks no leg, so that none can keep it waiting.
func TestReport_OfTheJobAlone(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(pendingOf(t, nil, nil, nil), nil)
	answer := wire.Answer{Report: job.Report{Job: "nightly", State: job.Running, Manifests: []string{"head"}, OpenLegs: []string{leg1}}}
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, answer), nil).Once()
	feed := NewFeed[string, string](c, "nightly", FeedOptions{})
	defer feed.Release()
	report, err := feed.report(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"head"}, report.Manifests)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(nil, notNow)
	_, err = feed.report(t.Context())
	require.True(t, Unanswered(err))
	tc.AssertNotCalled(t, "QueryWorkflow", mock.Anything, leg1, "", wire.QueryProgress)
}

// 14.1: while a job is followed and does not answer, its last numbers come at every tick, with their age.
func TestFollow_TicksWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(pendingOf(t, nil, nil, nil), nil)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, job.Report{Job: "nightly", State: job.Running, Outcomes: job.Outcomes{Totals: job.Totals{OK: 10}}}), nil).Once()
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).
		Run(func(args mock.Arguments) { <-args.Get(0).(context.Context).Done() }).Return(nil, notNow)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []job.Report
	err := c.Get("nightly").reportEvery(ctx, time.Millisecond, func(r job.Report) {
		if seen = append(seen, r); len(seen) == 5 {
			cancel()
		}
	})
	require.NoError(t, err)
	require.Len(t, seen, 5)
	require.Zero(t, seen[0].AsOf)
	for _, r := range seen {
		require.EqualValues(t, 10, r.OK)
	}
	require.NotZero(t, seen[4].AsOf)
}

// 14.4: a list can be of some states and pools only; its limit counts what it chooses.
func TestClient_ListFilter(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, j := range []struct {
		name, pool string
		state      job.State
	}{{"a", "p", job.Running}, {"b", "q", job.Running}, {"c", "p", job.Stopped}, {"d", "p", job.Running}, {"e", "p", job.Running}} {
		page.Executions = append(page.Executions, &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: j.name}, Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
			Memo: &common.Memo{Fields: map[string]*common.Payload{wire.MemoPool: payload(t, j.pool), wire.MemoState: payload(t, j.state)}},
		})
	}
	tc.On("ListWorkflow", mock.Anything, mock.Anything).Return(page, nil)
	jobs, err := c.List(t.Context(), 10, &ListFilter{States: []job.State{job.Running}, Pools: []string{"p"}})
	require.NoError(t, err)
	var names []string
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	require.Equal(t, []string{"a", "d", "e"}, names)
}

// 14.4: pools are known by the workers that coordinate jobs, with batches or without.
func TestClient_Pools(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeTaskQueue", mock.Anything, wire.WorkflowQueue, enums.TASK_QUEUE_TYPE_WORKFLOW).Return(&workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueue.PollerInfo{
		{Identity: wire.Identity{Worker: "host-2", Pool: "risk"}.String()}, {Identity: "somebody"}, {Identity: wire.Identity{Worker: "host-1", Pool: "idle"}.String()},
		{Identity: wire.Identity{Worker: "host-1", Pool: "risk"}.String()},
	}}, nil)
	pools, err := c.Pools(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"idle", "risk"}, pools)
}

// 14.1: workers whose slots are all busy do not poll for batches; they are there.
func TestClient_PollersOfABusyPool(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	tc.On("DescribeTaskQueue", mock.Anything, wire.PoolQueue("thumbs"), mock.Anything).Return(&workflowservice.DescribeTaskQueueResponse{}, nil)
	tc.On("DescribeTaskQueue", mock.Anything, wire.IOQueue("thumbs"), mock.Anything).
		Return(&workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueue.PollerInfo{{Identity: "host-1"}}}, nil).Once()
	n, err := c.Pollers(t.Context(), "thumbs")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	tc.On("DescribeTaskQueue", mock.Anything, wire.IOQueue("thumbs"), mock.Anything).Return(nil, errors.New("no network"))
	_, err = c.Pollers(t.Context(), "thumbs")
	require.Error(t, err)
}
