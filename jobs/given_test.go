package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// eventsOf is a history.
type eventsOf struct{ left []*history.HistoryEvent }

func (e *eventsOf) HasNext() bool { return len(e.left) > 0 }

func (e *eventsOf) Next() (*history.HistoryEvent, error) {
	if len(e.left) == 0 {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	first := e.left[0]
	e.left = e.left[1:]
	return first, nil
}

// hasHistory has the history of a workflow's latest run begin with an input, and go on with events of these types.
func hasHistory(t *testing.T, tc *mocks.Client, id, input string, types ...enums.EventType) {
	t.Helper()
	var events []*history.HistoryEvent
	for _, of := range types {
		events = append(events, &history.HistoryEvent{EventType: of})
	}
	hasEvents(t, tc, id, input, events...)
}

// hasEvents is hasHistory with these events.
func hasEvents(t *testing.T, tc *mocks.Client, id, input string, events ...*history.HistoryEvent) {
	t.Helper()
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(json.RawMessage(input))
	require.NoError(t, err)
	all := []*history.HistoryEvent{{
		EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
		Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{
			Input: payloads, FirstExecutionRunId: "run-1",
		}},
	}}
	all = append(all, events...)
	tc.On("GetWorkflowHistory", mock.Anything, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(
		func(context.Context, string, string, bool, enums.HistoryEventFilterType) client.HistoryEventIterator {
			return &eventsOf{all}
		})
}

// A workflow's events if it was terminated before it completed a workflow task, and after it had.
var (
	neverRan = []enums.EventType{
		enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
	}
	hasRun = []enums.EventType{
		enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
	}
)

// terminated has the job nightly be terminated.
func terminated(tc *mocks.Client) {
	tc.On("DescribeWorkflowExecution", mock.Anything, "nightly", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: "nightly", RunId: "run-2"},
			Type:      &common.WorkflowType{Name: wire.WorkflowJob}, Status: enums.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		},
	}, nil)
}

// unready has a workflow answer no query.
func unready(tc *mocks.Client, id, query string, args ...any) {
	tc.On("QueryWorkflow", append([]any{mock.Anything, id, "", query}, args...)...).Return(nil, serviceerror.NewWorkflowNotReady("not ready"))
}

// restarts has the job be started with an input.
func restarts(tc *mocks.Client, want any) {
	next := &mocks.WorkflowRun{}
	next.On("GetRunID").Return("run-3")
	tc.On("ExecuteWorkflow", mock.Anything, mock.Anything, wire.WorkflowJob, want).Return(next, nil)
}

// asJSON is a value as JSON.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// What a leg that never ran was to name is kept.
func TestGivenInput_Pending(t *testing.T) {
	t.Parallel()
	var leg givenInput
	require.NoError(t, json.Unmarshal([]byte(`{"ref":{"job":"a"},"number":3,"previous":["m1","m2"],"page":"AA=="}`), &leg))
	require.Len(t, leg.pending(), 1)
	require.JSONEq(t, `{"ref":{"job":"a","run":"","store":""},"leg":3,"previous":["m1","m2"],"entries":null}`, string(leg.pending()[0]))

	var nothing givenInput
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{},"number":1}`), &nothing))
	require.Empty(t, nothing.pending())
}

// S12: a feed whose job has continued as new, and was terminated before the new run had done anything, is resumed from
// all that its legs have: they are ended, and asked for it. One of them never ran, and one has been removed.
func TestResume_FeedThatWasToGoOn(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	spec := job.Spec{Name: "nightly", Pool: "thumbs", Feed: &job.Feed{}, Output: "out/"}.WithDefaults()
	input := `{"spec":` + asJSON(t, spec) + `,"resume":["before"],"accepted":5,"version":1,"state":{
		"heads":["m1"],"work":{"feed":{"accepted":40,"session":3,"segments":6,"lost":2,"gone":["nightly/leg-1"],"earlier":{"items":7,"done":4}}},
		"carried":[{"number":4,"sofar":{"manifests":["m2","m3"],"accepted":30}},{"number":5,"sofar":{"accepted":50}},{"number":6,"sofar":{"manifests":["m4"]}}],
		"report":{"job":"nightly","run":"run-1","state":"running","planned":45,"ok":20,"legs":6,"unsaved":["nightly/leg-2"]}}}`
	terminated(tc)
	hasHistory(t, tc, "nightly", input, neverRan...)
	unready(tc, "nightly", wire.QueryReport)
	ran, never, gone, unsaved := wire.LegID("nightly", 4), wire.LegID("nightly", 5), wire.LegID("nightly", 6), wire.LegID("nightly", 2)
	tc.On("QueryWorkflow", mock.Anything, ran, "", wire.QueryProgress).Return(value(t, job.Progress{Outcomes: job.Outcomes{Totals: job.Totals{OK: 9}}, Feed: &job.FeedReport{Session: 4, Accepted: 60}}), nil)
	hasHistory(t, tc, ran, `{"number":4}`, hasRun...)
	hasHistory(t, tc, never, `{"number":5,"ref":{"job":"nightly"},"previous":["m5"]}`, neverRan...)
	tc.On("GetWorkflowHistory", mock.Anything, gone, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(&eventsOf{})
	tc.On("QueryWorkflow", mock.Anything, gone, "", wire.QueryProgress).Return(nil, serviceerror.NewNotFound("removed"))

	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.Failed, report.State)
	require.Equal(t, job.ErrorGone, report.Error.Type)
	require.Equal(t, []string{"m1", "m2", "m3", "m4"}, report.Manifests)
	require.Equal(t, []string{ran, never, gone}, report.OpenLegs)
	require.EqualValues(t, 29, report.OK)
	require.EqualValues(t, 60, report.Planned)
	require.Equal(t, &job.FeedReport{
		Session: 4, Accepted: 60, Capacity: spec.Feed.Capacity, CapacityBytes: spec.Feed.CapacityBytes, Segments: 6, Earlier: 3, Lost: 2, Gone: []string{"nightly/leg-1"},
	}, report.Feed)

	for _, leg := range []string{unsaved, ran, never} {
		tc.On("TerminateWorkflow", mock.Anything, leg, "", mock.Anything).Return(nil)
	}
	tc.On("TerminateWorkflow", mock.Anything, gone, "", mock.Anything).Return(serviceerror.NewNotFound("removed"))
	unready(tc, "nightly", wire.QueryPending, fromNowhere)
	unready(tc, never, wire.QueryPending, fromNowhere)
	tc.On("QueryWorkflow", mock.Anything, gone, "", wire.QueryPending, fromNowhere).Return(nil, serviceerror.NewNotFound("removed"))
	for _, leg := range []string{unsaved, ran} {
		tc.On("QueryWorkflow", mock.Anything, leg, "", wire.QueryPending, fromNowhere).Return(value(t, []byte{}), nil)
		tc.On("DescribeWorkflowExecution", mock.Anything, leg, "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
			WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Execution: &common.WorkflowExecution{WorkflowId: leg, RunId: "its-run"}},
		}, nil)
	}
	restarts(tc, mock.MatchedBy(func(in wire.StartInput) bool {
		return in.Accepted == 60 && asJSON(t, in.Resume) == `["m1","m2","m3","m4"]` && asJSON(t, in.Salvage) ==
			`[{"run":"its-run","workflow":"nightly/leg-2"},{"run":"its-run","workflow":"nightly/leg-4"},`+
				`{"ref":{"job":"nightly","run":"","store":""},"leg":5,"previous":["m5"],"entries":null},{"gone":true,"workflow":"nightly/leg-6"}]`
	}))
	_, err = c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
}

// L5: a loop in the same place goes on where its slots stood; one that had only been resumed, where they had been left.
func TestResume_LoopThatWasToGoOn(t *testing.T) {
	t.Parallel()
	base := time.Unix(1_700_000_000, 0).UTC()
	slots := []job.LoopSlot{
		{Slot: 0, Next: 12, Base: base, Head: "m1", Stats: job.LoopStats{OK: 11, Failed: 1}},
		{Slot: 1, Next: 15, Skipped: 2, Base: base, Head: "m2", Stats: job.LoopStats{OK: 15}},
	}
	spec := job.Spec{Name: "nightly", Pool: "thumbs", Loop: &job.Loop{Slots: 2, Every: time.Second}, Output: "out/"}.WithDefaults()
	unborn := []job.LoopSlot{slots[0], slots[1]}
	unborn[0].Base, unborn[1].Base = time.Time{}, time.Time{}
	for _, test := range []struct {
		name, input string
		at          []job.LoopSlot
	}{
		{"continued", `{"spec":` + asJSON(t, spec) + `,"version":1,"state":{"heads":["stale"],"work":{"loop":{"planned":true,"slots":` + asJSON(t, slots) +
			`}},"report":{"job":"nightly","run":"run-1","state":"running","ok":26,"failed":1}}}`, slots},
		{"resumed", `{"spec":` + asJSON(t, spec) + `,"version":1,"resume":["m1","m2"],"loop":` + asJSON(t, slots) + `}`, unborn},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			terminated(tc)
			hasHistory(t, tc, "nightly", test.input, neverRan...)
			unready(tc, "nightly", wire.QueryReport)
			unready(tc, "nightly", wire.QueryPending)
			report, err := c.Get("nightly").Report(t.Context())
			require.NoError(t, err)
			require.Equal(t, spec.Loop.Report(test.at), report.Loop)
			require.EqualValues(t, 27, report.Loop.Ticks)
			require.Equal(t, []string{"m1", "m2"}, report.Manifests)
			require.Equal(t, "run-1", report.Run)
			want := wire.StartInput{Spec: spec, Resume: []string{"m1", "m2"}, Loop: test.at, Root: "run-1", Version: wire.LogicVersion}
			restarts(tc, want)
			_, err = c.Resume(t.Context(), "nightly", ResumeOptions{})
			require.NoError(t, err)
		})
	}
}

// A redrive in the same place goes on with what it has done, and knows its own run, whose data it replaces in the end.
func TestResume_RedriveThatWasToGoOn(t *testing.T) {
	t.Parallel()
	first := job.Redrive{Manifests: []string{"m"}, Planned: 10, Runs: []string{"run-0"}}
	again := first
	again.Runs = []string{"run-0", "run-1"}
	given := `{"spec":` + asJSON(t, valid()) + `,"resume":["d1"],"redrive":` + asJSON(t, first) + `,"version":1`
	for name, test := range map[string]struct{ input, done string }{
		"continued": {given + `,"state":{"heads":["d2"],"report":{"job":"nightly","run":"run-1","state":"running"}}}`, "d2"},
		"started":   {given + `}`, "d1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			terminated(tc)
			hasHistory(t, tc, "nightly", test.input, neverRan...)
			unready(tc, "nightly", wire.QueryReport)
			unready(tc, "nightly", wire.QueryPending)
			restarts(tc, wire.StartInput{Spec: valid(), Resume: []string{test.done}, Redrive: &again, Root: "run-1", Version: wire.LogicVersion})
			_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
			require.NoError(t, err)
		})
	}
}

// A job of which only a leg never ran is resumed from its own answer. A leg that has continued as new is known from its
// input.
func TestResume_LegThatNeverRan(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	terminated(tc)
	first, second := wire.LegID("nightly", 1), wire.LegID("nightly", 2)
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, job.Report{
		Job: "nightly", Run: "run-1", State: job.Running, Manifests: []string{"m1"}, Outcomes: job.Outcomes{Totals: job.Totals{OK: 10}}, InFlight: 1, OpenLegs: []string{first, second},
	}), nil)
	tc.On("QueryWorkflow", mock.Anything, first, "", wire.QueryProgress).Return(value(t, job.Progress{Outcomes: job.Outcomes{Totals: job.Totals{OK: 5}}}), nil)
	unready(tc, second, wire.QueryProgress)
	hasHistory(t, tc, "nightly", `{"spec":`+asJSON(t, valid())+`,"version":1}`, hasRun...)
	hasHistory(t, tc, second, `{"number":2,"ref":{"job":"nightly"},"previous":["m2"],"so_far":{"ok":3}}`, neverRan...)
	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 18, report.OK)
	require.Equal(t, []string{"m1"}, report.Manifests)

	tc.On("TerminateWorkflow", mock.Anything, mock.Anything, "", mock.Anything).Return(serviceerror.NewNotFound("closed"))
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryPending).Return(value(t, []json.RawMessage{}), nil)
	tc.On("QueryWorkflow", mock.Anything, first, "", wire.QueryPending).Return(value(t, []json.RawMessage{json.RawMessage(`{"leg":1}`)}), nil)
	unready(tc, second, wire.QueryPending)
	restarts(tc, wire.StartInput{Spec: valid(), Resume: []string{"m1"}, Earlier: []string{"run-1"}, Root: "run-1", Version: wire.LogicVersion, Salvage: []json.RawMessage{
		json.RawMessage(`{"leg":1}`), json.RawMessage(`{"ref":{"job":"nightly","run":"","store":""},"leg":2,"previous":["m2"],"entries":null}`),
	}})
	_, err = c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
}

// A leg of a loop that has continued as new, and never ran since, stands where it was to go on.
func TestReport_LegOfALoopThatNeverRan(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	terminated(tc)
	leg := wire.LegID("nightly", 1)
	spec := job.Spec{Name: "nightly", Loop: &job.Loop{Slots: 1}}
	tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, job.Report{
		Job: "nightly", State: job.Running, OpenLegs: []string{leg}, Loop: spec.Loop.Report(nil),
	}), nil)
	unready(tc, leg, wire.QueryProgress)
	hasHistory(t, tc, leg, `{"number":1,"slot":{"slot":0,"next":7,"head":"m7"}}`, neverRan...)
	tc.On("DescribeWorkflowExecution", mock.Anything, leg, "").Return(nil, serviceerror.NewNotFound("closed"))
	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, report.Loop.At[0].Next)
	require.Equal(t, []string{"m7"}, report.Manifests)
}

// event is one of a history.
func event(id int64, of enums.EventType) *history.HistoryEvent {
	return &history.HistoryEvent{EventId: id, EventType: of}
}

// payloadsOf are a value as JSON.
func payloadsOf(t *testing.T, text string) *common.Payloads {
	t.Helper()
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(json.RawMessage(text))
	require.NoError(t, err)
	return payloads
}

// commitOf is a commit that was scheduled and, if it names a manifest, carried out.
func commitOf(t *testing.T, id int64, input, manifest string) []*history.HistoryEvent {
	t.Helper()
	scheduled := event(id, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	scheduled.Attributes = &history.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &history.ActivityTaskScheduledEventAttributes{
		ActivityType: &common.ActivityType{Name: string(wire.ActivityCommit)}, Input: payloadsOf(t, input),
	}}
	if manifest == "" {
		return []*history.HistoryEvent{scheduled}
	}
	completed := event(id+1, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	completed.Attributes = &history.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &history.ActivityTaskCompletedEventAttributes{
		ScheduledEventId: id, Result: payloadsOf(t, `{"manifest":"`+manifest+`"}`),
	}}
	return []*history.HistoryEvent{scheduled, completed}
}

// legOf is a leg that was started and, if it has a result, has returned.
func legOf(t *testing.T, leg, input, result string) []*history.HistoryEvent {
	t.Helper()
	begun := event(0, enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED)
	begun.Attributes = &history.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes{StartChildWorkflowExecutionInitiatedEventAttributes: &history.StartChildWorkflowExecutionInitiatedEventAttributes{
		WorkflowId: leg, Input: payloadsOf(t, input),
	}}
	if result == "" {
		return []*history.HistoryEvent{begun}
	}
	done := event(0, enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED)
	done.Attributes = &history.HistoryEvent_ChildWorkflowExecutionCompletedEventAttributes{ChildWorkflowExecutionCompletedEventAttributes: &history.ChildWorkflowExecutionCompletedEventAttributes{
		WorkflowExecution: &common.WorkflowExecution{WorkflowId: leg}, Result: payloadsOf(t, result),
	}}
	return []*history.HistoryEvent{begun, done}
}

// TestD50_WhatHasRunAndDoesNotAnswer: a job that was terminated after its last workflow task had failed answers no
// query. It is resumed from what its history, and those of its legs, show to be committed.
func TestD50_WhatHasRunAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	terminated(tc)
	done, open := wire.LegID("nightly", 2), wire.LegID("nightly", 3)
	events := slices.Concat(
		[]*history.HistoryEvent{event(2, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)},
		commitOf(t, 10, `{"leg":9,"previous":["s2"],"entries":[{}]}`, "salvaged"),
		commitOf(t, 20, `{"leg":1,"previous":["m1"]}`, "m2"), // of a leg inside the job
		commitOf(t, 30, `{"leg":1,"previous":["m2"]}`, ""),   // that was not carried out
		legOf(t, done, `{"number":2,"previous":["m0"]}`, `{"manifests":["m4"]}`),
		legOf(t, open, `{"number":3,"previous":["m4"]}`, ""),
		[]*history.HistoryEvent{event(99, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED)},
	)
	input := `{"spec":` + asJSON(t, valid()) + `,"version":1,"resume":["m0","m1"],"salvage":[{"leg":8,"previous":["s1"]},{"leg":9,"previous":["s2"],"entries":[{}]}]}`
	hasEvents(t, tc, "nightly", input, events...)
	hasEvents(t, tc, open, `{"number":3,"ref":{"job":"nightly"},"previous":["m4"]}`, append(
		[]*history.HistoryEvent{event(2, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)}, commitOf(t, 10, `{"leg":3,"previous":["m4"]}`, "m5")...)...)
	unready(tc, "nightly", wire.QueryReport)
	unready(tc, open, wire.QueryProgress)

	report, err := c.Get("nightly").Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.Failed, report.State)
	require.Equal(t, job.ErrorGone, report.Error.Type)
	require.Equal(t, []string{"s1", "salvaged", "m2"}, report.Manifests)
	require.Equal(t, []string{open}, report.OpenLegs)
	require.Zero(t, report.Salvage)

	tc.On("TerminateWorkflow", mock.Anything, open, "", mock.Anything).Return(serviceerror.NewNotFound("closed"))
	unready(tc, "nightly", wire.QueryPending)
	unready(tc, open, wire.QueryPending)
	restarts(tc, wire.StartInput{Spec: valid(), Resume: report.Manifests, Earlier: []string{"run-1"}, Root: "run-1", Version: wire.LogicVersion, Salvage: []json.RawMessage{
		json.RawMessage(`{"ref":{"job":"nightly","run":"","store":""},"leg":3,"previous":["m5"],"entries":null}`),
	}})
	_, err = c.Resume(t.Context(), "nightly", ResumeOptions{})
	require.NoError(t, err)
}

// What the run before had not committed, and this one has not either, stays to be committed.
func TestD50_WhatIsStillToBeCommitted(t *testing.T) {
	t.Parallel()
	c, tc := setup(t)
	left := json.RawMessage(`{"leg":7,"previous":["s3"],"entries":[{}]}`)
	in := givenInput{JobInput: wire.JobInput{StartInput: wire.StartInput{Salvage: []json.RawMessage{
		json.RawMessage(`{"leg":5,"previous":["s2"],"entries":[{}]}`), json.RawMessage(`{"leg":6,"previous":["s1"]}`), left,
	}}}}
	hasEvents(t, tc, "nightly", `{}`, commitOf(t, 10, `{"leg":5,"previous":["s2"],"entries":[{}]}`, "salvaged")...)
	r, err := c.remainsOf(t.Context(), "nightly", in)
	require.NoError(t, err)
	require.Equal(t, []string{"salvaged", "s1"}, r.heads)
	require.Equal(t, []json.RawMessage{left}, r.salvage)
}

// A feed or loop in the same place cannot be read: what it had not committed is nowhere else. It says so.
func TestD50_FeedsAndLoopsSaySo(t *testing.T) {
	t.Parallel()
	isStuck := func(t *testing.T, c *Client, run string) {
		t.Helper()
		_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
		var typed *StuckError
		require.ErrorAs(t, err, &typed)
		require.ErrorContains(t, err, "start it anew with StartOptions.Fresh")
		require.ErrorContains(t, err, "the results that it had committed stay in /data/nightly/"+run+"/parts/")
	}
	for _, source := range []string{"feed", "loop"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			c, tc := setup(t)
			terminated(tc)
			hasHistory(t, tc, "nightly", `{"spec":{"name":"nightly","`+source+`":{},"store":"/data/nightly/"}}`, hasRun...)
			unready(tc, "nightly", wire.QueryReport)
			isStuck(t, c, "run-1")
		})
	}
	t.Run("leg", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		terminated(tc)
		leg := wire.LegID("nightly", 1)
		tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryReport).Return(value(t, job.Report{
			Job: "nightly", Run: "run-1", Store: "/data/nightly", InFlight: 1, OpenLegs: []string{leg}, Feed: &job.FeedReport{},
		}), nil)
		tc.On("QueryWorkflow", mock.Anything, leg, "", wire.QueryProgress).Return(value(t, job.Progress{}), nil)
		hasHistory(t, tc, "nightly", `{"spec":{"name":"nightly","feed":{}}}`, hasRun...)
		tc.On("TerminateWorkflow", mock.Anything, leg, "", mock.Anything).Return(nil)
		tc.On("QueryWorkflow", mock.Anything, "nightly", "", wire.QueryPending, fromNowhere).Return(value(t, []json.RawMessage{}), nil)
		unready(tc, leg, wire.QueryPending, fromNowhere)
		hasHistory(t, tc, leg, `{"number":1}`, hasRun...)
		isStuck(t, c, "run-1")
	})
	t.Run("history", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		terminated(tc)
		unready(tc, "nightly", wire.QueryReport)
		events := &mocks.HistoryEventIterator{}
		events.On("Next").Return(nil, errors.New("no network"))
		tc.On("GetWorkflowHistory", mock.Anything, "nightly", "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(events)
		_, err := c.Resume(t.Context(), "nightly", ResumeOptions{})
		require.EqualError(t, err, "reading how nightly was started: no network")
	})
}

// TestD51_StoredSpecGetsItsDefaults: a spec in a history may have been written by a program that knew fewer fields.
func TestD51_StoredSpecGetsItsDefaults(t *testing.T) {
	t.Parallel()
	older := valid()
	older.Files.Flush, older.Files.MaxInput, older.ItemAttempts = 0, 0, 0
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		latest(t, tc, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, wire.StartInput{Spec: older}, job.Stopped)
		endedWith(tc, job.Report{Job: "nightly", Run: "run-2", State: job.Stopped})
		want := valid()
		want.Window = 7
		restarts(tc, wire.StartInput{Spec: want, Earlier: []string{"run-2"}, Root: "run-2", Version: wire.LogicVersion})
		window := 7
		_, err := c.Resume(t.Context(), "nightly", ResumeOptions{Settings: job.Settings{Window: &window}})
		require.NoError(t, err)
		spec, err := c.Spec(t.Context(), "nightly")
		require.NoError(t, err)
		require.Equal(t, valid(), spec)
	})
	t.Run("given", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		hasHistory(t, tc, "nightly", `{"spec":`+asJSON(t, older)+`}`, neverRan...)
		in, err := c.given(t.Context(), "nightly")
		require.NoError(t, err)
		require.Equal(t, valid(), in.Spec)
		require.Equal(t, valid().Attempts, in.answer().Attempts)
	})
	t.Run("scheduled", func(t *testing.T) {
		t.Parallel()
		c, tc := setup(t)
		hasHistory(t, tc, "nightly", `{"scheduled":true,"spec":`+asJSON(t, older)+`}`, neverRan...)
		in, err := c.inputOf(t.Context(), "nightly")
		require.NoError(t, err)
		require.Equal(t, valid(), in.Spec)
		require.False(t, in.Scheduled)
	})
}

// What the legs of a job with very many batches in flight had not committed may be more than an input takes: the rest
// of it runs again, but no manifest is forgotten.
func TestFitting_WhatIsLeftOutNamesItsManifests(t *testing.T) {
	t.Parallel()
	piece := func(leg int) json.RawMessage {
		entries := strings.Repeat(`{"l":1},`, 50_000)
		return json.RawMessage(fmt.Sprintf(`{"ref":{"run":"r"},"leg":%d,"previous":["manifest-%d"],"entries":[%s{}]}`, leg, leg, entries))
	}
	var all []json.RawMessage
	for leg := range 24 {
		all = append(all, piece(leg))
	}
	got := fitting(all)
	size, whole := 0, 0
	for leg, p := range got {
		size += len(p)
		require.Contains(t, string(p), fmt.Sprintf(`"previous":["manifest-%d"]`, leg))
		require.Contains(t, string(p), `"ref":{"run":"r"}`)
		if strings.Contains(string(p), "entries") {
			whole++
		}
	}
	require.LessOrEqual(t, size, maxPending)
	require.Equal(t, 2, whole)
}
