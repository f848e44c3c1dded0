package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// Redrive is what a redrive begins with: a completed job, whose failed items are run again.
type Redrive struct {
	Manifests []string `json:"manifests"` // heads of the completed job's manifest chain
	Output    Output   `json:"output"`    // the completed job's
	Planned   int64    `json:"planned"`   // items of the completed job
	// Runs are the completed job's run and those of earlier attempts at this redrive: nothing of what
	// they have left in the store is needed once the redrive has completed.
	Runs []string `json:"runs"`
	// Done, in the report of a redrive, lists the heads of the manifest chain of what it has done so
	// far: another attempt goes on from there.
	Done []string `json:"done,omitempty"`
}

// RedriveOptions may be left zero.
type RedriveOptions struct {
	// BatchItems is how many items a batch of the redrive has: 1 … 10,000,000. Default: as in the
	// completed job.
	BatchItems int64
	// TaskTimeout is the workflow task timeout; default Temporal's 10 s.
	TaskTimeout time.Duration
}

// NotCompletedError says that a job has not completed, so that its failed items cannot be run again
// yet.
type NotCompletedError struct {
	Name  string
	State State
}

func (e *NotCompletedError) Error() string {
	if e.State.Final() {
		return fmt.Sprintf("job %s is %s: go on with it first (`stint resume %s`), and run its failed items again once it has completed",
			e.Name, e.State, e.Name)
	}
	return fmt.Sprintf("job %s is %s: its failed items can be run again once it has completed (`stint watch %s` waits for that)",
		e.Name, e.State, e.Name)
}

// NothingFailedError says that a job has no failed items to run again.
type NothingFailedError struct{ Name string }

func (e *NothingFailedError) Error() string {
	return fmt.Sprintf("job %s has no failed items: there is nothing to run again", e.Name)
}

// Redrive runs the failed items of a completed job again, as a new run of the job with the spec that
// it had, and merges what they come to into its output, which stays as it is until then. It goes on
// with a redrive that was stopped or failed. It returns once the server has recorded the start.
// Errors: *NotFoundError, *NotCompletedError, *NothingFailedError.
func (c *Client) Redrive(ctx context.Context, name string, o RedriveOptions) (*Run, error) {
	latest, err := c.latestRun(ctx, name)
	if err != nil {
		return nil, err
	}
	report, err := c.Get(name).Report(ctx)
	if err != nil {
		return nil, err
	}
	in, err := latest.redrive(report)
	if err != nil {
		return nil, err
	}
	if o.BatchItems != 0 {
		in.Spec.BatchItems = o.BatchItems
	}
	if err := in.Spec.Validate(); err != nil {
		return nil, fmt.Errorf("job spec: %w", err)
	}
	opts := client.StartWorkflowOptions{
		ID:                                       name,
		TaskQueue:                                WorkflowQueue,
		WorkflowTaskTimeout:                      o.TaskTimeout,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:                            fmt.Sprintf("pool %s · redrive of %s", in.Spec.Pool, describeInput(in.Spec.Input)),
		StaticDetails:                            specDetails(in.Spec),
		Memo:                                     map[string]any{MemoPool: in.Spec.Pool, MemoOutput: in.Spec.Output, MemoState: Running},
	}
	handle, err := c.temporal.ExecuteWorkflow(ctx, opts, WorkflowJob, in)
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &exists) {
		return nil, &NotCompletedError{Name: name, State: Running} // somebody else was quicker
	}
	if err != nil {
		return nil, fmt.Errorf("starting the redrive of job %s: %w", name, err)
	}
	return &Run{client: c, name: name, run: handle.GetRunID()}, nil
}

// ended is the latest run of a job that does not run, and what it was started with.
type ended struct {
	name, run string // the first run ID
	input     Input
}

// redrive is the input of the run that redrives the job or goes on with its redrive.
func (e *ended) redrive(report Report) (Input, error) {
	in := Input{Spec: e.input.Spec}
	switch before := e.input.Redrive; {
	case report.State == Completed && report.Failed == 0:
		return in, &NothingFailedError{Name: e.name}
	case report.State == Completed:
		in.Redrive = &Redrive{Manifests: report.Manifests, Planned: report.Planned, Runs: []string{report.Run}}
		if report.Output != nil {
			in.Redrive.Output = *report.Output
		}
	case before == nil:
		return in, &NotCompletedError{Name: e.name, State: report.State}
	default:
		again := *before
		again.Runs = append(slices.Clone(before.Runs), e.run)
		in.Redrive, in.Resume = &again, e.input.Resume
		if report.Redrive != nil { // not where it was terminated
			in.Resume = report.Redrive.Done
		}
	}
	return in, nil
}

// latestRun looks at the latest run of a job. A job that runs gives *NotCompletedError.
func (c *Client) latestRun(ctx context.Context, name string) (*ended, error) {
	desc, err := c.temporal.DescribeWorkflowExecution(ctx, name, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil, &NotFoundError{Name: name}
	}
	if err != nil {
		return nil, fmt.Errorf("asking for job %s: %w", name, err)
	}
	info := desc.GetWorkflowExecutionInfo()
	if info.GetType().GetName() != WorkflowJob {
		return nil, &NotFoundError{Name: name}
	}
	if info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, &NotCompletedError{Name: name, State: runningState(desc)}
	}
	e := &ended{name: name, run: info.GetFirstRunId()}
	if e.run == "" {
		e.run = info.GetExecution().GetRunId()
	}
	e.input, err = c.startedWith(ctx, name, info.GetExecution().GetRunId())
	return e, err
}

// runningState is the state that a running job has last noted of itself.
func runningState(desc *workflowservice.DescribeWorkflowExecutionResponse) State {
	if State(memoString(desc.GetWorkflowExecutionInfo().GetMemo(), MemoState)) == Stopping {
		return Stopping
	}
	return Running
}

// startedWith reads what a run was started with from the first event of its history.
func (c *Client) startedWith(ctx context.Context, name, run string) (Input, error) {
	var in Input
	events := c.temporal.GetWorkflowHistory(ctx, name, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !events.HasNext() {
		return in, &NotFoundError{Name: name}
	}
	first, err := events.Next()
	if err != nil {
		return in, fmt.Errorf("reading how job %s was started: %w", name, err)
	}
	started := first.GetWorkflowExecutionStartedEventAttributes()
	if err := converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &in); err != nil {
		return in, fmt.Errorf("reading how job %s was started: %w", name, err)
	}
	return in, nil
}
