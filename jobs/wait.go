package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
)

// Wait blocks until the job has ended and returns its final report. For a failed job it
// returns the report and a *FailedError, for a stopped one a report with that state. An unknown name is
// a *NotFoundError.
func (r *Run) Wait(ctx context.Context) (job.Report, error) {
	var report job.Report
	err := r.client.temporal.GetWorkflow(ctx, r.name, r.run).Get(ctx, &report)
	if err == nil {
		return report.WithSamples(), nil
	}
	return reportOfError(r.name, err)
}

// FailedError reports that a job has failed; its report has the details.
type FailedError struct{ Report job.Report }

func (e *FailedError) Error() string {
	if e.Report.Error == nil {
		return fmt.Sprintf("job %s failed", e.Report.Job)
	}
	return fmt.Sprintf("job %s failed: %s", e.Report.Job, e.Report.Error.Message)
}

// Unwrap returns the job's error as an *Error, or nil if it is not known.
func (e *FailedError) Unwrap() error {
	if e.Report.Error == nil {
		return nil
	}
	return e.Report.Error
}

func reportOfError(name string, err error) (job.Report, error) {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.HasDetails() {
		var report job.Report
		if detailsErr := app.Details(&report); detailsErr == nil && report.Job != "" {
			report = report.WithSamples()
			return report, &FailedError{Report: report}
		}
	}
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return job.Report{}, &NotFoundError{Name: name}
	}
	if execution, ok := errors.AsType[*temporal.WorkflowExecutionError](err); ok {
		report := job.Report{Job: name, State: job.Failed, Error: &job.Error{Type: errorWorkflow, Message: execution.Unwrap().Error()}}
		return report, &FailedError{Report: report}
	}
	return job.Report{}, fmt.Errorf("waiting for job %s: %w", name, err)
}

// followLimit is how long a report may take while a job is followed.
const followLimit = 3 * time.Second

// Follow is [Run.Wait], and calls progress with a report every interval, which must be above 0, until the job has
// ended. progress is never called twice at a time. While the job does not answer, progress gets the last known numbers,
// and their time: see [job.Report].AsOf.
func (r *Run) Follow(ctx context.Context, interval time.Duration, progress func(job.Report)) (job.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reported := trap.Go("reporting on a job", func() error { return r.reportEvery(ctx, interval, progress) })
	report, err := r.Wait(ctx)
	cancel()
	if defect := <-reported; err == nil {
		err = defect
	}
	return report, err
}

// reportEvery asks the job at every tick, unless it has not answered yet, and calls progress once a tick: when the
// answer has come, or with what is known at the next tick.
func (r *Run) reportEvery(ctx context.Context, interval time.Duration, progress func(job.Report)) error {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	known := newJobProgress(r)
	var last job.Report
	var at time.Time // of last; known belongs to who asks
	var asking <-chan error
	var shown bool
	show := func() {
		if shown = last.Job != ""; shown && !last.State.Final() && ctx.Err() == nil {
			progress(last)
		}
	}
	for {
		select {
		case <-ctx.Done():
			if asking != nil {
				return <-asking
			}
			return nil
		case err := <-asking:
			if asking = nil; err != nil {
				return err
			}
			last, at = known.report, known.at
			if !shown {
				show()
			}
		case <-ticks.C:
			if asking != nil { // it takes long
				if last.Job != "" && last.AsOf.IsZero() {
					last.AsOf = at
				}
				show()
				continue
			}
			shown = false
			asking = trap.Go("asking a job", func() error {
				limited, cancel := context.WithTimeout(ctx, followLimit)
				defer cancel()
				return known.again(limited)
			})
		}
	}
}

// Unanswered reports whether an error says that nobody answered in time: no worker is there, or it is
// still starting.
func Unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, new(*serviceerror.DeadlineExceeded)) || // the server's patience may end a little before the caller's
		errors.As(err, new(*serviceerror.FailedPrecondition)) // no worker has polled lately
}

// UnansweredError reports that nobody has answered a question to a job in time: workers coordinate no jobs, are too
// busy or gone; the job's workflow task fails (see FailingTask); or the server does not answer. Err is the client's
// error.
type UnansweredError struct {
	Name string // of the job
	Err  error
}

func (e *UnansweredError) Error() string { return fmt.Sprintf("job %s does not answer", e.Name) }

// Unwrap returns the client's error.
func (e *UnansweredError) Unwrap() error { return e.Err }

// asked is an error of a question to a job: *UnansweredError if nobody has answered it.
func (r *Run) asked(question string, err error) error {
	switch {
	case Unanswered(err) || notReady(err): // its workflow task fails
		err = &UnansweredError{Name: r.name, Err: err}
	case errors.As(err, new(*serviceerror.QueryFailed)):
		err = fmt.Errorf("the worker that coordinates job %s cannot answer, and may be of another version of stint or of another program: %w", r.name, err)
	}
	return fmt.Errorf("asking %s: %w", question, err)
}

// FailingTask is a workflow task of a job that fails each time a worker takes it, so that the job cannot go on, answer
// or stop. The usual reason is a worker of another version of stint. The server tries it again until it succeeds;
// nothing is lost.
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

// FailingTask finds out whether a workflow task of the job, or of one of its legs, fails again and again. It returns
// nil if none does. It asks the server only, so that it works when the job does not answer. The reason is known if the
// client was made with ClientOptions.Namespace.
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

// lastTaskEvent returns the latest event that says how a workflow task has ended; nil if there is none among the latest
// events. The server writes one for the first failure only.
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
		}
	}
	return nil, nil
}
