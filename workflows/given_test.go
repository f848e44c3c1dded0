package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The report of a job that was ended before it began is made of its input by package job. It says what the job would
// have answered.
func TestJob_GivenReport(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	slots := []job.LoopSlot{{Slot: 0, Next: 5, Base: at, Head: "s0", Stats: job.LoopStats{OK: 5, Late: time.Second}}, {Slot: 1, Next: 7, Skipped: 1, Base: at}}
	feed := job.Spec{Name: "nightly", Pool: "thumbs", Feed: &job.Feed{}, Output: "out/"}.WithDefaults()
	loop := job.Spec{Name: "nightly", Pool: "thumbs", Loop: &job.Loop{Slots: 2, Every: time.Second}, Output: "out/"}.WithDefaults()
	files := job.Spec{Name: "nightly", Pool: "thumbs", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}.WithDefaults()
	redrive := &job.Redrive{Manifests: []string{"m"}, Planned: 10, Runs: []string{"run-0"}, Output: job.Output{Location: "out.jsonl"}}
	state := func(spec job.Spec, work wire.WorkState, carried ...wire.CarriedLeg) *wire.JobState {
		return &wire.JobState{
			Ref: wire.Ref{Job: spec.Name, Run: "run-1", Store: spec.Store}, Work: work, Portions: 9, Batches: 100, Heads: []string{"m1", "m2"}, Carried: carried,
			Report: job.Report{
				Job: spec.Name, Run: "run-1", Pool: spec.Pool, State: job.Running, Started: at, Store: spec.Store, Settings: spec.Settings(), Planned: 200, Legs: 8,
				Outcomes: job.Outcomes{Totals: job.Totals{OK: 90, Failed: 2}}, Manifests: []string{"older"}, Unsaved: []string{"nightly/leg-1"}, Grace: spec.Grace,
			},
		}
	}
	for name, in := range map[string]wire.JobInput{
		"feed": {StartInput: wire.StartInput{Spec: feed}},
		"feed, continued": {StartInput: wire.StartInput{Spec: feed, Resume: []string{"m0"}, Accepted: 10}, State: state(feed, wire.WorkState{Feed: &wire.FeedWorkState{
			Planned: true, Accepted: 210, Session: 4, Wanted: 1, Latest: 8, Open: 7, Segments: 5, Stalled: at, Lost: 3, Gone: []string{"nightly/leg-0"},
			Earlier: wire.Earlier{Items: 9, Done: 4, Freed: 4}, Began: 2,
		}},
			wire.CarriedLeg{Number: 6, Reported: wire.Counts{Leg: 6, OK: 4, Sofar: job.Counted{OK: 4, At: at}}, Places: 3, Sofar: wire.LegResult{Manifests: []string{"c6"}, Accepted: 205}},
			wire.CarriedLeg{Number: 7, Places: 5, Sofar: wire.LegResult{Manifests: []string{"c7a", "c7b"}, Accepted: 210}}, wire.CarriedLeg{Number: 8})},
		"loop":               {StartInput: wire.StartInput{Spec: loop, Resume: []string{"s0"}, Loop: slots}},
		"loop, continued":    {StartInput: wire.StartInput{Spec: loop}, State: state(loop, wire.WorkState{Loop: &wire.LoopWorkState{Planned: true, Slots: slots}})},
		"files":              {StartInput: wire.StartInput{Spec: files, Resume: []string{"m0"}}},
		"files, continued":   {StartInput: wire.StartInput{Spec: files, Resume: []string{"m0"}}, State: state(files, wire.WorkState{Cursor: wire.Cursor{Item: 200}})},
		"redrive":            {StartInput: wire.StartInput{Spec: files, Redrive: redrive, Resume: []string{"d0"}}},
		"redrive, continued": {StartInput: wire.StartInput{Spec: files, Redrive: redrive, Resume: []string{"d0"}}, State: state(files, wire.WorkState{Cursor: wire.Cursor{Item: 200}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := answerOf(t, in)
			given := givenReport(t, in, own.OpenLegs)
			require.Equal(t, job.Failed, given.State)
			require.Equal(t, job.ErrorGone, given.Error.Type)
			given.State, given.Error, given.Ended, given.Window = own.State, nil, nil, own.Window
			if in.State == nil { // the server's
				require.Equal(t, "first", given.Run)
				require.Equal(t, at, given.Started)
				given.Run, given.Started = own.Run, own.Started
			}
			require.Equal(t, own.Report, given)
		})
	}
}

// answerOf is what a job answers that has just begun with an input.
func answerOf(t *testing.T, in wire.JobInput) (a wire.Answer) {
	t.Helper()
	w := setup(t, 0)
	beginning := func(ctx workflow.Context, in wire.JobInput) (wire.Answer, error) {
		c := coordinate.New(ctx, in, workOf)
		err := c.Setup()
		return c.Answer(nil), err
	}
	w.env.OnSignalExternalWorkflow(anything, anything, anything, anything, anything).Return(nil)
	w.env.RegisterWorkflow(beginning)
	w.env.ExecuteWorkflow(beginning, in)
	require.NoError(t, w.env.GetWorkflowResult(&a))
	return a
}

// givenReport is the report of a job that was terminated before it began with an input. Its legs have not begun either.
func givenReport(t *testing.T, in wire.JobInput, legs []string) job.Report {
	t.Helper()
	began := func(input any) *mocks.HistoryEventIterator {
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(input)
		require.NoError(t, err)
		events := &mocks.HistoryEventIterator{}
		events.On("Next").Return(started(payloads), nil)
		events.On("HasNext").Return(false)
		return events
	}
	tc := &mocks.Client{}
	tc.Test(t)
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Type: &common.WorkflowType{Name: wire.WorkflowJob}, Status: enums.WORKFLOW_EXECUTION_STATUS_TERMINATED},
	}, nil)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(nil, serviceerror.NewWorkflowNotReady("it never ran"))
	tc.On("GetWorkflowHistory", mock.Anything, "nightly", "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(began(in))
	for _, leg := range legs {
		tc.On("GetWorkflowHistory", mock.Anything, leg, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(began(wire.FeedLegInput{}))
	}
	report, err := jobs.NewClient(tc, nil).Get("nightly").Report(t.Context())
	require.NoError(t, err)
	return report
}

// started is the first event of a workflow.
func started(input *common.Payloads) *history.HistoryEvent {
	return &history.HistoryEvent{
		EventTime: timestamppb.New(time.Unix(1_700_000_000, 0)),
		Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{Input: input, FirstExecutionRunId: "first"},
		},
	}
}
