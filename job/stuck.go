package job

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// FailingTask is a workflow task of a job that fails each time a worker takes it, so that the job cannot go on, answer or stop. The usual reason is a
// worker of another version of stint. The server tries it again until it succeeds; nothing is lost.
type FailingTask struct {
	Workflow string    // ID of the job or of its leg
	Attempts int32     // so far
	Since    time.Time // of the first failure; zero: it is not known
	Reason   string    // of the first failure; empty: it is not known
}

// String describes it in a line, and says what to do.
func (f *FailingTask) String() string {
	text := "the workflow task of " + f.Workflow + " fails"
	if f.Since.IsZero() {
		text += fmt.Sprintf(" (%d times)", f.Attempts-1)
	} else {
		text += " (since " + f.Since.Local().Format(time.DateTime) + ")"
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text + "; it goes on once workers of the version that began the job coordinate it again"
}

const (
	failingLegs   = 24 // most legs that are looked at: as many as are open at once
	failingEvents = 20 // latest events of a history that are looked at
)

// FailingTask finds out whether a workflow task of the job, or of one of its legs, fails again and again. It returns nil if none does. It asks
// the server only, so that it works when the job does not answer. The reason is known if the client was made with ClientOptions.Namespace.
func (r *Run) FailingTask(ctx context.Context) (*FailingTask, error) {
	legs, found, err := r.failingTask(ctx, r.name)
	if found != nil || err != nil {
		return found, err
	}
	for _, leg := range legs[:min(len(legs), failingLegs)] {
		if _, found, err = r.failingTask(ctx, leg); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// failingTask looks at one workflow, and returns its children, too.
func (r *Run) failingTask(ctx context.Context, id string) (children []string, found *FailingTask, err error) {
	desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return nil, nil, fmt.Errorf("asking for %s: %w", id, err)
	}
	for _, child := range desc.GetPendingChildren() {
		children = append(children, child.GetWorkflowId())
	}
	task := desc.GetPendingWorkflowTask()
	if task.GetAttempt() < 2 { // one may fail because its worker has just ended
		return children, nil, nil
	}
	found = &FailingTask{Workflow: id, Attempts: task.GetAttempt()}
	if r.client.namespace == "" {
		return children, found, nil
	}
	last, err := r.lastTaskEvent(ctx, desc.GetWorkflowExecutionInfo().GetExecution())
	failed := last.GetWorkflowTaskFailedEventAttributes()
	if err != nil || failed == nil { // it has timed out: its worker was lost
		return children, nil, err
	}
	found.Since, found.Reason = last.GetEventTime().AsTime(), failed.GetFailure().GetMessage()
	return children, found, nil
}

// lastTaskEvent returns the latest event that says how a workflow task has ended; nil if there is none among the latest events. The server writes one
// for the first failure only.
func (r *Run) lastTaskEvent(ctx context.Context, of *common.WorkflowExecution) (*history.HistoryEvent, error) {
	latest, err := r.client.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: r.client.namespace, Execution: of, MaximumPageSize: failingEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("reading the history of %s: %w", of.GetWorkflowId(), err)
	}
	for _, event := range latest.GetHistory().GetEvents() {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
			return event, nil
		default:
		}
	}
	return nil, nil
}
