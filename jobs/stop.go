package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// StopAll requests a coordinated stop of every running job of a pool, the job's or that of a stage, or of all pools if
// the name is empty. It waits for none of them, and returns the jobs that it has reached. No job at all is not an
// error.
func (c *Client) StopAll(ctx context.Context, pool string, stop job.Stop) ([]*Run, error) {
	if err := stop.Validate(); err != nil {
		return nil, err
	}
	filter := ListFilter{Running: true}
	if pool != "" {
		filter.Pools = []string{pool}
	}
	jobs, err := c.List(ctx, math.MaxInt, &filter)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name
	}
	var mu sync.Mutex
	reached := map[string]bool{}
	err = eachOf(names, func(name string) error {
		if ctx.Err() != nil {
			return nil // see below
		}
		err := c.Get(name).Stop(ctx, stop)
		if _, ended := errors.AsType[*EndedError](err); ended { // just now, by itself
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		reached[name] = err == nil
		return nil
	})
	var runs []*Run
	for _, name := range names {
		if reached[name] {
			runs = append(runs, c.Get(name))
		}
	}
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("stopping %d jobs: the request has reached %d of them: %w", len(names), len(runs), context.Cause(ctx)))
	}
	return runs, err
}

// Stop requests a coordinated stop and returns once the server has recorded the request. It can be
// repeated: the first request counts, and the errors of later ones are listed in the report. For a job
// that has ended it returns *EndedError, which wraps the stop's error if it has one; for an unknown
// name, *NotFoundError.
func (r *Run) Stop(ctx context.Context, stop job.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	err := r.client.temporal.SignalWorkflow(ctx, r.name, "", wire.SignalStop, stop)
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return r.ended(ctx, stop.Error)
	}
	if err != nil {
		return fmt.Errorf("stopping job %s: %w", r.name, err)
	}
	if err := r.barFeed(ctx); err != nil {
		return fmt.Errorf("the stop of job %s is requested; %w", r.name, err)
	}
	return nil
}

// barFeed has a feed take no more items from now on, whatever becomes of its workers: it tells the leg that takes items
// and the one after it itself, because the job does so only when a worker comes to it. It does nothing if the job is no
// feed.
func (r *Run) barFeed(ctx context.Context) error {
	for told := -1; ; {
		info, err := r.info(ctx)
		if _, gone := errors.AsType[*NotFoundError](err); gone {
			return nil
		}
		if err != nil {
			return fmt.Errorf("whether it is a feed that still takes items could not be found out: %w", err)
		}
		if info.GetMemo().GetFields()[wire.MemoLeg] == nil {
			return nil
		}
		leg := memoValue[int](r.client, info.GetMemo(), wire.MemoLeg)
		if leg == told {
			return nil
		}
		for _, number := range []int{leg, leg + 1} {
			err := r.client.temporal.SignalWorkflow(ctx, wire.LegID(r.name, number), "", wire.SignalBar, nil)
			if _, gone := errors.AsType[*serviceerror.NotFound](err); err != nil && !gone {
				return fmt.Errorf("the feed may still take items: telling leg %d: %w", number, err)
			}
		}
		told = leg // another leg may have begun to take items meanwhile
	}
}

// Terminate ends a job at once, by the server: no worker is needed, and none is waited for. Calls that run are cut off
// once their workers notice; hooks are not run. The job has failed then, with [ErrorGone], and can be resumed: a worker
// reads what it had recorded. The reason, which may be empty, is for people. Errors: *EndedError, *NotFoundError.
//
// It is for jobs whose workers are gone for good: others end in order with [Run.Stop].
func (r *Run) Terminate(ctx context.Context, reason string) error {
	if _, err := r.info(ctx); err != nil {
		return err
	}
	desc, err := r.describe(ctx, r.name)
	if err != nil {
		return err
	}
	if desc == nil {
		return r.ended(ctx, nil)
	}
	var legs []string
	for _, child := range desc.GetPendingChildren() {
		legs = append(legs, child.GetWorkflowId())
	}
	err = r.client.temporal.TerminateWorkflow(ctx, r.name, "", reason)
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return r.ended(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("ending job %s: %w", r.name, err)
	}
	return r.client.endLegs(ctx, legs)
}

// EndedError reports that a job had ended before a request reached it.
type EndedError struct {
	Name  string
	State job.State
	// Reported is the error of a [Run.Stop] that came too late. It is recorded nowhere else.
	Reported *job.Error
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("job %s has ended already: it is %s", e.Name, e.State)
	if e.Reported != nil {
		text += fmt.Sprintf("; the error was not recorded: %v", e.Reported)
	}
	return text
}

// Unwrap returns the error that was not recorded, or nil.
func (e *EndedError) Unwrap() error {
	if e.Reported == nil {
		return nil
	}
	return e.Reported
}

// ended returns the *EndedError of a job. It needs no worker.
func (r *Run) ended(ctx context.Context, reported *job.Error) error {
	info, err := r.info(ctx)
	if err != nil {
		return err
	}
	return &EndedError{Name: r.name, State: r.client.listed(info).State, Reported: reported}
}

// Set changes settings of the running job and returns all settings that are then in force. They take
// effect within a workflow task; batches that already run keep their size and rate. A job that has
// ended returns *EndedError, and a stopping job refuses. A worker must answer; Set waits for one until
// ctx ends.
func (r *Run) Set(ctx context.Context, s job.Settings) (job.Settings, error) {
	handle, err := r.client.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.name, UpdateName: wire.UpdateSet, Args: []any{s}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var now job.Settings
	if err == nil {
		err = handle.Get(ctx, &now)
	}
	var refused *temporal.ApplicationError
	switch {
	case err == nil:
		return now, nil
	case errors.As(err, new(*serviceerror.NotFound)):
		return job.Settings{}, r.ended(ctx, nil)
	case errors.As(err, &refused):
		return job.Settings{}, fmt.Errorf("job %s: %s", r.name, refused.Message())
	}
	if Unanswered(err) || notReady(err) {
		err = &UnansweredError{Name: r.name, Err: err}
	}
	return job.Settings{}, fmt.Errorf("changing the settings of job %s: %w", r.name, err)
}
