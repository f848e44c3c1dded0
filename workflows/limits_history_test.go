package workflows_test

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/workflows"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

// counted is the size of a real history.
type counted struct {
	workflows.Commands
	events  int
	tasks   int // events of workflow tasks
	timed   int // events that come in the course of time: of timers, memos and reports
	largest int // payload
	size    int64
	signals []string // received
}

// TestLimits_OnARealServer runs a job of 3,000 batches and compares its histories with the
// arithmetic of the package's documentation.
func TestLimits_OnARealServer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const batches = 3000
	j := s.newJob(t, "limits", batches, "")
	j.spec.BatchItems = 1
	report, err := j.start(jobs.StartOptions{}).run.Wait(t.Context()) // ten seconds, or more beside other tests
	require.NoError(t, err)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, batches, report.Batches)
	const legs = 5
	require.Equal(t, 1+legs, report.Legs)

	var all counted
	for name, h := range j.histories(report.Legs) {
		id := j.spec.Name
		if name != "job" {
			id = wire.LegID(j.spec.Name, int(name[len(name)-1]-'0'))
		}
		c := count(h)
		desc, err := s.temporal.DescribeWorkflowExecution(t.Context(), id, "")
		require.NoError(t, err)
		c.size = desc.GetWorkflowExecutionInfo().GetHistorySizeBytes()
		t.Logf("%s: %d events (%d of workflow tasks), %d bytes, %d in payloads, %+v, signals %q", name, c.events, c.tasks, c.size, c.Bytes, c.Commands, c.signals)
		require.EqualValues(t, len(h.GetEvents()), desc.GetWorkflowExecutionInfo().GetHistoryLength())
		require.Equal(t, c.Events()+c.tasks, c.events, "%s: the sum of the commands", name)
		require.LessOrEqual(t, c.events, c.Most(), name)
		require.LessOrEqual(t, c.size, int64(c.Bytes+workflows.EventBytes*c.events), "%s: bytes of the history", name)
		require.Less(t, c.size, int64(2<<20), name)
		if name != "job" {
			require.LessOrEqual(t, c.Received, 8, "%s: signals %q", name, c.signals)
		}
		all.events += c.events
		all.tasks += c.tasks
		all.timed += c.timed
		all.Activities += c.Activities
		all.size += c.size
		all.largest = max(all.largest, c.largest)
	}
	needed := batches + 2*(1+legs) + 1 // a Plan and a Commit for each leg, and Finish
	require.GreaterOrEqual(t, all.Activities, needed)
	require.LessOrEqual(t, all.Activities, needed+batches/100, "a busy machine may have some repeated")
	without := float64(all.events - all.tasks)
	t.Logf("%.2f events a batch, %.2f without workflow tasks, %d in the course of time, %d bytes; largest payload %d", float64(all.events)/batches, without/batches, all.timed, all.size/batches, all.largest)
	repeated := 3 * (all.Activities - needed)
	require.InEpsilon(t, 3*batches+workflows.LegEvents*legs, without-float64(all.timed+repeated), 0.01, "three events a batch, and those of the legs")
	require.LessOrEqual(t, float64(all.events)/batches, 6.3, "at most a workflow task for each, and those of the legs")
	require.Less(t, all.largest, 200<<10)
}

// reports are the signals that legs send in the course of time.
var reports = map[string]bool{wire.SignalCounts: true, wire.SignalPool: true}

// count counts a history's events by what has caused them.
func count(h *history.History) counted {
	c := counted{events: len(h.GetEvents())}
	for _, e := range h.GetEvents() {
		switch e.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			c.Activities++
		case enums.EVENT_TYPE_TIMER_STARTED:
			c.Timers++
			c.timed += 2
		case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
			c.Children++
		case enums.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
			c.Sent++
			if reports[e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName()] {
				c.timed += 2
			}
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			c.Received++
			signal := e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()
			c.signals = append(c.signals, signal)
			if reports[signal] {
				c.timed++
			}
		case enums.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
			c.Memos++
			c.timed++
		case enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED: // three a task, unless a busy machine is late
			c.tasks++
		}
		for _, p := range payloads(e) {
			c.Bytes += len(p.GetData())
			c.largest = max(c.largest, len(p.GetData()))
		}
	}
	return c
}

// payloads are those that an event carries.
func payloads(e *history.HistoryEvent) []*common.Payload {
	var found []*common.Payload
	for _, p := range []*common.Payloads{
		e.GetWorkflowExecutionStartedEventAttributes().GetInput(),
		e.GetWorkflowExecutionCompletedEventAttributes().GetResult(),
		e.GetActivityTaskScheduledEventAttributes().GetInput(),
		e.GetActivityTaskCompletedEventAttributes().GetResult(),
		e.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetInput(),
		e.GetChildWorkflowExecutionCompletedEventAttributes().GetResult(),
		e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetInput(),
		e.GetWorkflowExecutionSignaledEventAttributes().GetInput(),
	} {
		found = append(found, p.GetPayloads()...)
	}
	return append(found, e.GetUserMetadata().GetSummary(), e.GetUserMetadata().GetDetails())
}
