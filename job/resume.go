package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
)

// ResumeOptions tell how Resume goes on.
type ResumeOptions struct {
	// Settings are given over those that were in force.
	Settings Settings
	// TaskTimeout is the workflow task timeout; default Temporal's 10 s.
	TaskTimeout time.Duration
}

// RunningError says that a job runs that should have ended.
type RunningError struct {
	Name  string
	State State
}

func (e *RunningError) Error() string {
	if e.State == Stopping {
		return fmt.Sprintf("job %s is still stopping: wait for its end with 'stint watch %s'", e.Name, e.Name)
	}
	return fmt.Sprintf("job %s is running", e.Name)
}

// Resume goes on with a job that was stopped, has failed, or was ended by Temporal itself (terminated,
// cancelled, timed out): what its manifests account for is not run again, everything else is. The
// stop, the first error and what was tolerated are forgotten; the spec is the job's own, with the
// settings that were in force. A job that runs gives *RunningError, one that has completed
// *EndedError, an unknown name *NotFoundError.
//
// A job that Temporal has ended itself is asked for what it has recorded by queries, for which a worker
// must be up.
func (c *Client) Resume(ctx context.Context, name string, o ResumeOptions) (*Run, error) {
	report, err := c.endedReport(ctx, name)
	if err != nil {
		return nil, err
	}
	if report.State == Completed {
		return nil, &EndedError{Name: name, State: Completed}
	}
	in, err := c.inputOf(ctx, name)
	if err != nil {
		return nil, err
	}
	start := StartOptions{Resume: report.Manifests, Reuse: true, TaskTimeout: o.TaskTimeout}
	if in.Redrive != nil {
		start.Resume, start.redrive = in.redriveAgain(report)
	}
	if report.Error != nil && report.Error.Type == ErrorGone {
		if start.salvage, err = c.pending(ctx, name, report.OpenLegs); err != nil {
			return nil, err
		}
	}
	return c.goOn(ctx, in.Spec.With(report.Settings).With(o.Settings), start)
}

// goOn starts the next run of an ended job.
func (c *Client) goOn(ctx context.Context, spec Spec, o StartOptions) (*Run, error) {
	run, err := c.StartWith(ctx, spec, o)
	var exists *ExistsError
	if errors.As(err, &exists) { // somebody else was quicker
		return nil, &RunningError{Name: spec.Name, State: Running}
	}
	return run, err
}

// pending asks a job that Temporal has ended, and its legs, for what they had accepted and not
// committed.
func (c *Client) pending(ctx context.Context, name string, legs []string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for _, id := range append([]string{name}, legs...) {
		value, err := c.temporal.QueryWorkflow(ctx, id, "", QueryPending)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			continue // a leg that was not begun any more
		}
		if err != nil {
			return nil, fmt.Errorf("asking %s what it had not committed: %w", id, err)
		}
		var some []json.RawMessage
		if err := value.Get(&some); err != nil {
			return nil, fmt.Errorf("reading what %s had not committed: %w", id, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// endedReport is the last report of a job that must have ended.
func (c *Client) endedReport(ctx context.Context, name string) (Report, error) {
	run := c.Get(name)
	desc, err := run.describe(ctx, name)
	if err != nil {
		return Report{}, err
	}
	if desc != nil {
		state := State(memoString(desc.GetWorkflowExecutionInfo().GetMemo(), MemoState))
		return Report{}, &RunningError{Name: name, State: state}
	}
	return run.Report(ctx)
}

// inputOf reads what a job's latest run was given from the first event of its history.
func (c *Client) inputOf(ctx context.Context, name string) (Input, error) {
	events := c.temporal.GetWorkflowHistory(ctx, name, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !events.HasNext() {
		return Input{}, &NotFoundError{Name: name}
	}
	first, err := events.Next()
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return Input{}, &NotFoundError{Name: name}
	}
	if err != nil {
		return Input{}, fmt.Errorf("reading how job %s was started: %w", name, err)
	}
	var in Input
	err = decodeFirst(first.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in)
	if err != nil || in.Spec.Name == "" {
		return Input{}, fmt.Errorf("reading how job %s was started: its input is no job's: %w", name, err)
	}
	if in.Scheduled { // the input is the same at every tick
		in.Spec, in.Scheduled = in.Spec.Ticked(name), false
	}
	return in, nil
}

func decodeFirst(payloads *common.Payloads, to any) error {
	if len(payloads.GetPayloads()) == 0 {
		return errors.New("it has none")
	}
	return converter.GetDefaultDataConverter().FromPayload(payloads.GetPayloads()[0], to)
}

// closedByServer reports whether Temporal has ended a workflow that has not told how it stood.
func closedByServer(status enums.WorkflowExecutionStatus) bool {
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return true
	}
	return false
}

// lastWords is the report of a job that Temporal has ended, as its history has it.
func (r *Run) lastWords(ctx context.Context, status enums.WorkflowExecutionStatus, ended time.Time) (Report, error) {
	report, err := r.query(ctx)
	if err != nil {
		return report, err
	}
	report.State, report.Ended = Failed, &ended
	report.Error = &Error{Type: ErrorGone, Message: fmt.Sprintf("Temporal has ended the workflow: %s; 'stint resume %s' goes on with the job", status, r.name)}
	return report, nil
}
