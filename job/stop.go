package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/api/serviceerror"
)

// SignalStop is the name of the signal that requests a coordinated stop of a job. Any Temporal client
// or workflow may send it; its argument is a [Stop].
const SignalStop = "stop"

// Stop describes a request for a coordinated stop. All fields may be left zero.
type Stop struct {
	// Reason is shown to people and kept in the report.
	Reason string `json:"reason,omitempty"`
	// Error makes the job fail with this error, unless [Spec].CleanStop lists its type.
	Error *Error `json:"error,omitempty"`
	// Grace replaces the job's own: a Go duration of 0 or more, such as "30s"; "0": at once.
	Grace string `json:"grace,omitempty"`
	// IgnoreStragglers: work that is still running after the grace period does not change the job's
	// outcome.
	IgnoreStragglers bool `json:"ignore_stragglers,omitempty"`
}

// Validate returns an error if the grace period is invalid.
func (s Stop) Validate() error {
	if s.Grace == "" {
		return nil
	}
	if grace, err := time.ParseDuration(s.Grace); err != nil || grace < 0 {
		return fmt.Errorf("invalid grace %q: use a duration of 0 or more, such as 30s", s.Grace)
	}
	return nil
}

// Straggler is a batch that was still running after a stop's grace period and the time after it in
// which workers end calls by force.
type Straggler struct {
	Batch  string    `json:"batch"`
	Leg    int       `json:"leg"`
	Worker string    `json:"worker,omitempty"` // that ran it; empty: not known
	Slot   int       `json:"slot"`
	PID    int       `json:"pid,omitempty"`  // of the slot's process, or of the worker; 0: not known
	Since  time.Time `json:"since"`          // when the job dispatched it
	Noted  time.Time `json:"noted,omitzero"` // when it was found still running
	Why    string    `json:"why,omitempty"`  // it runs on; empty: that is not known
}

// ForcedEnd is a process that a stop has ended by signals, because its call had not ended within the grace.
// The items in hand have no outcome: they are run when the job is resumed.
type ForcedEnd struct {
	Batch  string `json:"batch"`
	Worker string `json:"worker"`
	Slot   int    `json:"slot"`
	PID    int    `json:"pid"`
	Signal string `json:"signal"` // the last one: "TERM" or "KILL"
}

// String describes it in a line.
func (f ForcedEnd) String() string {
	return fmt.Sprintf("%s on worker %s, slot %d, pid %d, by %s", f.Batch, f.Worker, f.Slot, f.PID, f.Signal)
}

// String names the straggler, where it runs and for how long it had been running when it was noted.
func (s Straggler) String() string {
	text := s.Batch
	if s.Worker != "" {
		text += fmt.Sprintf(" on worker %s, slot %d", s.Worker, s.Slot)
	}
	if s.PID != 0 {
		text += fmt.Sprintf(", pid %d", s.PID)
	}
	if s.Noted.IsZero() {
		return text + ", since " + s.Since.UTC().Format(time.TimeOnly)
	}
	text += fmt.Sprintf(", for %v", s.Noted.Sub(s.Since).Round(time.Second))
	if s.Why != "" {
		text += " (" + s.Why + ")"
	}
	return text
}

// StopAll requests a coordinated stop of every running job of a pool, the job's or that of a stage, or of all pools if the name
// is
// empty. It waits for none of them, and returns the jobs that it has reached. No job at all is not an
// error.
func (c *Client) StopAll(ctx context.Context, pool string, stop Stop) ([]*Run, error) {
	if err := stop.Validate(); err != nil {
		return nil, err
	}
	filter := ListFilter{Running: true}
	if pool != "" {
		filter.Pools = []string{pool}
	}
	jobs, err := c.ListWith(ctx, math.MaxInt, filter)
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
func (r *Run) Stop(ctx context.Context, stop Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	err := r.client.temporal.SignalWorkflow(ctx, r.name, "", SignalStop, stop)
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

// barFeed has a feed take no more items from now on, whatever becomes of its workers: it tells the leg that takes items and the one after it
// itself, because the job does so only when a worker comes to it. It does nothing if the job is no feed.
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

// Terminate ends a job at once, by the server: no worker is needed, and none is waited for. Calls that run are cut off once their
// workers notice; hooks are not run. The job has failed then, with [ErrorGone], and can be resumed: a worker reads
// what it had recorded. The reason, which may be empty, is for people. Errors: *EndedError, *NotFoundError.
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
	State State
	// Reported is the error of a [Run.Stop] that came too late. It is recorded nowhere else.
	Reported *Error
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
func (r *Run) ended(ctx context.Context, reported *Error) error {
	info, err := r.info(ctx)
	if err != nil {
		return err
	}
	return &EndedError{Name: r.name, State: r.client.listed(info).State, Reported: reported}
}
