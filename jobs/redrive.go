package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// RedriveOptions may be left zero.
type RedriveOptions struct {
	// BatchItems is how many items a batch of the redrive has: 1 … 10,000,000. Default: as in the
	// completed job.
	BatchItems int64
	// Where selects the failed items that run again, by their errors; others stay as they are. Default: all. If it selects
	// none, the run ends with the job as it was.
	Where job.Where
	// TaskTimeout is the workflow task timeout; default [DefaultTaskTimeout].
	TaskTimeout time.Duration
}

// NotCompletedError reports that a job was stopped or has failed, so that its failed items cannot be
// run again yet.
type NotCompletedError struct {
	Name  string
	State job.State
}

func (e *NotCompletedError) Error() string {
	return fmt.Sprintf("job %s is %s: resume it first, and run its failed items again once it has completed", e.Name, e.State)
}

// NothingFailedError reports that a job has no failed items to run again.
type NothingFailedError struct {
	Name string
	// Dropped: items have failed, but the job keeps no records of them.
	Dropped bool
	// Where, if it is set, selects none of the items that have failed.
	Where job.Where
}

func (e *NothingFailedError) Error() string {
	if e.Dropped {
		return fmt.Sprintf("job %s drops failed items (OnError is %q): there are no records to run them again from", e.Name, job.OnErrorDrop)
	}
	if e.Where != "" {
		return fmt.Sprintf("job %s has no failed item with %s: there is nothing to run again", e.Name, e.Where)
	}
	return fmt.Sprintf("job %s has no failed items: there is nothing to run again", e.Name)
}

// RedriveBegunError reports that a redrive of other items has begun and has not completed.
type RedriveBegunError struct {
	Name  string
	Where job.Where // of that redrive; empty: it is of all failed items
}

func (e *RedriveBegunError) Error() string {
	items := "of all failed items"
	if e.Where != "" {
		items = "of the failed items with " + string(e.Where)
	}
	return fmt.Sprintf("the last redrive of job %s, %s, has not completed: continue it first, by a redrive or resume without a where of its own", e.Name, items)
}

// Redrive runs the failed items of a completed job again, as a new run of the job with the same spec, and merges their
// results into its output, which does not change before that. It also continues a redrive that was stopped or failed,
// as Resume does. It returns once the server has recorded the start. Errors: *NotFoundError, *RunningError,
// *NotCompletedError, *NothingFailedError, *RedriveBegunError; a Where that is not valid.
func (c *Client) Redrive(ctx context.Context, name string, o RedriveOptions) (*Run, error) {
	if o.Where != "" {
		if err := o.Where.Validate(); err != nil {
			return nil, fmt.Errorf("where: %w", err)
		}
	}
	report, err := c.endedReport(ctx, name)
	if err != nil {
		return nil, err
	}
	in, err := c.inputOf(ctx, name)
	if err != nil {
		return nil, err
	}
	spec := in.Spec.With(report.Settings)
	spec.BatchItems = cmp.Or(o.BatchItems, spec.BatchItems)
	start := StartOptions{Reuse: true}
	switch {
	case report.State == job.Completed && report.Failed == 0:
		return nil, &NothingFailedError{Name: name}
	case report.State == job.Completed && spec.OnError == job.OnErrorDrop:
		return nil, &NothingFailedError{Name: name, Dropped: true}
	case report.State == job.Completed:
		start.redrive = &job.Redrive{Manifests: report.Manifests, Planned: report.Planned, Where: o.Where, Runs: []string{report.Run}}
		if report.Output != nil {
			start.redrive.Output = *report.Output
		}
	case in.Redrive == nil:
		return nil, &NotCompletedError{Name: name, State: report.State}
	case o.Where != "" && o.Where != in.Redrive.Where:
		return nil, &RedriveBegunError{Name: name, Where: in.Redrive.Where}
	default:
		if start, err = c.nextRun(ctx, in, report); err != nil {
			return nil, err
		}
	}
	start.TaskTimeout = o.TaskTimeout
	return c.startNext(ctx, spec, start)
}

// redriveAgain returns what the next attempt at a redrive begins with; report is the last attempt's.
func redriveAgain(in *wire.StartInput, report job.Report) (resume []string, redrive *job.Redrive) {
	again := *in.Redrive
	again.Runs = append(slices.Clone(in.Redrive.Runs), report.Run)
	if len(again.Runs) > 1+maxEarlier { // the first one is the job that is redriven
		again.Runs = slices.Delete(again.Runs, 1, len(again.Runs)-maxEarlier)
	}
	if report.Redrive == nil {
		return in.Resume, &again
	}
	return report.Redrive.Done, &again
}
