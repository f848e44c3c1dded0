package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Input is what a job's workflow is started with.
type Input struct {
	Spec Spec `json:"spec"`
	// Resume lists the heads of the manifest chain of earlier runs: what they account for is not
	// run again.
	Resume []string `json:"resume,omitempty"`
	// Scheduled says that a schedule has started it: its name is the workflow's own ID, and its
	// locations may have placeholders (see [Spec.Ticked]).
	Scheduled bool `json:"scheduled,omitempty"`
	// Salvage lists what an earlier run that Temporal has ended had accepted and not committed, as
	// [QueryPending] gave it: it is committed first.
	Salvage []json.RawMessage `json:"salvage,omitempty"`
	// Redrive, where it is set, has only the failed items of a completed job run again. Resume then
	// lists what earlier attempts at that have done.
	Redrive *Redrive `json:"redrive,omitempty"`
	// Version is the [LogicVersion] of who starts the job.
	Version int `json:"version,omitempty"`
}

// LogicVersion tells a job's workflows which logic to follow, all its life. Version 1 has brought
// batches with activity IDs of their own, tolerances, and stops that reach Finish.
const LogicVersion = 1

// Client starts, watches and stops jobs. It is safe for concurrent use and owns nothing: closing
// the Temporal client stays with the caller.
type Client struct {
	temporal client.Client
}

// NewClient returns a Client that speaks to Temporal through c.
func NewClient(c client.Client) *Client { return &Client{temporal: c} }

// StartOptions tell how Start treats a job of the same name, and how it goes on with an earlier run.
type StartOptions struct {
	// Fresh starts anew where a job of the name exists; one that still runs is terminated.
	Fresh bool
	// Resume lists the manifests (Report.Manifests) of a stopped or failed run to go on from.
	Resume []string
	// Reuse lets the job follow an ended one of its name, as Fresh and Resume do.
	Reuse bool
	// TaskTimeout is the workflow task timeout; default Temporal's 10 s.
	TaskTimeout time.Duration

	redrive *Redrive          // see [Client.Redrive]
	salvage []json.RawMessage // see [Client.Resume]
}

// ExistsError says that a job of the name exists already.
type ExistsError struct{ Name string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("a job named %q exists already: choose another name, or start it anew with --fresh", e.Name)
}

// NotFoundError says that there is no job of the name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no job named %q: `stint list` shows the jobs there are", e.Name)
}

// Start starts a job. A name that exists is refused with *ExistsError.
func (c *Client) Start(ctx context.Context, spec Spec) (*Run, error) {
	return c.StartWith(ctx, spec, StartOptions{})
}

// StartWith starts a job with options. It returns once the server has recorded the start.
func (c *Client) StartWith(ctx context.Context, spec Spec, o StartOptions) (*Run, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("job spec: %w", err)
	}
	opts := client.StartWorkflowOptions{
		ID:                                       spec.Name,
		TaskQueue:                                WorkflowQueue,
		WorkflowTaskTimeout:                      o.TaskTimeout,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:                            specSummary(spec),
		StaticDetails:                            specDetails(spec),
		Memo:                                     specMemo(spec),
	}
	if o.redrive != nil {
		opts.StaticSummary = fmt.Sprintf("pool %s · redrive of %s", spec.Pool, describeInput(spec.Input))
	}
	if o.Fresh || o.Reuse || len(o.Resume) > 0 {
		opts.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	if o.Fresh {
		opts.WorkflowIDConflictPolicy = enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	handle, err := c.temporal.ExecuteWorkflow(ctx, opts, WorkflowJob, Input{Spec: spec, Resume: o.Resume, Redrive: o.redrive, Salvage: o.salvage, Version: LogicVersion})
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &exists) {
		return nil, &ExistsError{Name: spec.Name}
	}
	if err != nil {
		return nil, fmt.Errorf("starting job %s: %w", spec.Name, err)
	}
	return &Run{client: c, name: spec.Name, run: handle.GetRunID(), pool: spec.Pool}, nil
}

func specSummary(s Spec) string { return fmt.Sprintf("pool %s · %s", s.Pool, describeInput(s.Input)) }

func specMemo(s Spec) map[string]any {
	return map[string]any{MemoPool: s.Pool, MemoOutput: s.Output, MemoState: Running}
}

func describeInput(input []string) string {
	if len(input) == 1 {
		return input[0]
	}
	return fmt.Sprintf("%s and %d more", input[0], len(input)-1)
}

func specDetails(s Spec) string {
	output := s.Output
	if output == "" {
		output = "parts in " + s.Store
	}
	return fmt.Sprintf("Input %s\n\nOutput %s\n\nWindow %d · expiry %v · attempts %d", describeInput(s.Input), output, s.Window, s.Expiry, s.Attempts)
}

// Get returns the latest run of the job of that name, without asking whether there is one.
func (c *Client) Get(name string) *Run { return &Run{client: c, name: name} }

// Listed is one job in a list.
type Listed struct {
	Name    string     `json:"name"`
	Run     string     `json:"run"`
	Pool    string     `json:"pool"`
	State   State      `json:"state"`
	Output  string     `json:"output,omitempty"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// Run is a job that has been started.
type Run struct {
	client *Client
	name   string
	run    string // first run ID; "" is the latest
	pool   string // "" where it is not known
}

// Name is the job's name.
func (r *Run) Name() string { return r.name }

// Pool is the pool of a job that this client has started; empty for one that [Client.Get] returned.
func (r *Run) Pool() string { return r.pool }

// ID is the first run ID of a job that this client has started: its data in the store lies below
// it. It is empty for one that [Client.Get] returned.
func (r *Run) ID() string { return r.run }

// Wait blocks until the job has ended and returns its final report. A job that failed gives its
// report and a *FailedError; one that was stopped gives a report whose state says so.
func (r *Run) Wait(ctx context.Context) (Report, error) {
	var report Report
	err := r.client.temporal.GetWorkflow(ctx, r.name, r.run).Get(ctx, &report)
	if err == nil {
		return report, nil
	}
	return reportOfError(r.name, err)
}

// FailedError says that a job ended as failed; its report has the details.
type FailedError struct{ Report Report }

func (e *FailedError) Error() string {
	if e.Report.Error == nil {
		return fmt.Sprintf("job %s failed", e.Report.Job)
	}
	return fmt.Sprintf("job %s failed: %s", e.Report.Job, e.Report.Error.Message)
}

func (e *FailedError) Unwrap() error {
	if e.Report.Error == nil {
		return nil
	}
	return e.Report.Error
}

func reportOfError(name string, err error) (Report, error) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.HasDetails() {
		var report Report
		if detailsErr := app.Details(&report); detailsErr == nil && report.Job != "" {
			return report, &FailedError{Report: report}
		}
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return Report{}, &NotFoundError{Name: name}
	}
	var execution *temporal.WorkflowExecutionError
	if errors.As(err, &execution) {
		report := Report{Job: name, State: Failed, Error: &Error{Type: "Workflow", Message: execution.Unwrap().Error()}}
		return report, &FailedError{Report: report}
	}
	return Report{}, fmt.Errorf("waiting for job %s: %w", name, err)
}

// Stop asks the job for a coordinated stop and returns once the server has recorded the wish. It can
// be asked for any number of times: the first one counts, and errors of later ones are listed in the
// report. A job that has ended gives *EndedError, which wraps the stop's error where it has one.
func (r *Run) Stop(ctx context.Context, stop Stop) error {
	if err := stop.validate(); err != nil {
		return err
	}
	err := r.client.temporal.SignalWorkflow(ctx, r.name, "", SignalStop, stop)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return r.ended(ctx, stop.Error)
	}
	if err != nil {
		return fmt.Errorf("stopping job %s: %w", r.name, err)
	}
	return nil
}

// EndedError says that a job had ended when it was asked for something.
type EndedError struct {
	Name  string
	State State
	// Reported is the error that should have been reported to it, and comes back: nobody else has it.
	Reported *Error
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("job %s has ended already: it is %s", e.Name, e.State)
	if e.Reported != nil {
		text += fmt.Sprintf("; the error that was not taken: %v", e.Reported)
	}
	return text
}

func (e *EndedError) Unwrap() error {
	if e.Reported == nil {
		return nil
	}
	return e.Reported
}

// ended tells how a job has ended, for which no worker need be up.
func (r *Run) ended(ctx context.Context, reported *Error) error {
	info, err := r.info(ctx)
	if err != nil {
		return err
	}
	return &EndedError{Name: r.name, State: listed(info).State, Reported: reported}
}

// info is what the server knows of the job's latest run.
func (r *Run) info(ctx context.Context) (*workflow.WorkflowExecutionInfo, error) {
	desc, err := r.client.temporal.DescribeWorkflowExecution(ctx, r.name, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil, &NotFoundError{Name: r.name}
	}
	if err != nil {
		return nil, fmt.Errorf("asking for job %s: %w", r.name, err)
	}
	info := desc.GetWorkflowExecutionInfo()
	if info.GetType().GetName() != WorkflowJob {
		return nil, &NotFoundError{Name: r.name}
	}
	return info, nil
}

// Report tells how the job stands now. A running job, and one that Temporal itself has ended, needs a worker that answers for it; while
// there is none, Report fails when ctx ends (see [Client.Pollers]).
func (r *Run) Report(ctx context.Context) (Report, error) {
	info, err := r.info(ctx)
	if err != nil {
		return Report{}, err
	}
	if closedByServer(info.GetStatus()) {
		return r.lastWords(ctx, info.GetStatus(), info.GetCloseTime().AsTime())
	}
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		report, err := (&Run{client: r.client, name: r.name}).Wait(ctx)
		var failed *FailedError
		if errors.As(err, &failed) {
			err = nil
		}
		return report, err
	}
	return r.query(ctx)
}

func (r *Run) query(ctx context.Context) (Report, error) {
	var report Report
	value, err := r.client.temporal.QueryWorkflow(ctx, r.name, "", QueryReport)
	if err != nil {
		return report, fmt.Errorf("asking job %s for its report: %w", r.name, err)
	}
	if err := value.Get(&report); err != nil {
		return report, fmt.Errorf("reading the report of job %s: %w", r.name, err)
	}
	if t := report.Throttle; t != nil && t.Rate == 0 && time.Now().After(t.Until) {
		report.Throttle = nil // the job's own clock stands still while nothing happens
	}
	for _, leg := range report.OpenLegs {
		value, err := r.client.temporal.QueryWorkflow(ctx, leg, "", QueryProgress)
		var none *serviceerror.NotFound
		if errors.As(err, &none) {
			continue // it has not been started yet
		}
		if err != nil {
			return report, fmt.Errorf("asking %s for its progress: %w", leg, err)
		}
		var p Progress
		if err := value.Get(&p); err != nil {
			return report, fmt.Errorf("reading the progress of %s: %w", leg, err)
		}
		report.Include(p)
	}
	return report, nil
}
