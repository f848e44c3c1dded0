package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// policies are Temporal's names of the overlap policies.
var policies = map[string]enums.ScheduleOverlapPolicy{
	job.OverlapSkip:      enums.SCHEDULE_OVERLAP_POLICY_SKIP,
	job.OverlapQueueOne:  enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	job.OverlapQueue:     enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
	job.OverlapStop:      enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
	job.OverlapTerminate: enums.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER,
	job.OverlapAllow:     enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
}

func overlapOf(policy enums.ScheduleOverlapPolicy) string {
	for overlap, known := range policies {
		if known == policy {
			return overlap
		}
	}
	return job.OverlapSkip // the server's default
}

// ScheduleExistsError reports that a schedule of the name exists already.
type ScheduleExistsError struct{ Name string }

func (e *ScheduleExistsError) Error() string {
	return fmt.Sprintf("a schedule named %q exists already: choose another name, replace it with ScheduleOptions.Replace, or delete it first", e.Name)
}

// Schedule makes the server start a job at each tick: a Temporal Schedule of the spec's name. Each run
// is a separate job, named after the schedule and the tick in UTC: nightly-2026-11-21T03:00:00Z. The
// placeholders {time} and {date} in the spec's locations are replaced by the time of the tick in UTC, as
// 20261121T030000Z and 2026-11-21, with an offset in days or hours ({date-1}, {time-6h}) and a layout of
// package time ({date:2006/01}) if they have one; without them each run replaces the output when it
// completes. Schedule returns once the server has recorded
// the schedule. Errors: *ScheduleExistsError if the name exists, and those of
// [job.ScheduleOptions.Validate].
func (c *Client) Schedule(ctx context.Context, spec job.Spec, o job.ScheduleOptions) error {
	var err error
	if spec.Reuse != nil && spec.Reuse.Of != "" { // otherwise each tick takes those of the last one
		if spec, err = c.withReuse(ctx, spec); err != nil {
			return err
		}
	}
	spec = spec.WithDefaults()
	if err := o.Validate(spec); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	err = error(&ScheduleNotFoundError{Name: spec.Name})
	if o.Replace {
		err = c.putSchedule(ctx, spec, o, c.updateSchedule)
	}
	if errors.As(err, new(*ScheduleNotFoundError)) {
		err = c.putSchedule(ctx, spec, o, c.createSchedule)
	}
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return &ScheduleExistsError{Name: spec.Name}
	}
	if err != nil {
		return fmt.Errorf("making schedule %s: %w", spec.Name, err)
	}
	return nil
}

// putSchedule has put record a schedule. Its jobs have search attributes if the server has them now, as those of
// [Client.Start] do.
func (c *Client) putSchedule(ctx context.Context, spec job.Spec, o job.ScheduleOptions, put func(context.Context, client.ScheduleOptions) error) error {
	in := wire.StartInput{Spec: spec, Scheduled: true, Version: wire.LogicVersion}
	of := kindOf(spec, nil)
	memo := of.memoOf(spec)
	memo[wire.MemoCron] = o.Cron
	action := client.ScheduleWorkflowAction{
		ID:                  spec.Name,
		Workflow:            wire.WorkflowJob,
		TaskQueue:           wire.AtLogic(wire.WorkflowQueue, wire.LogicVersion),
		WorkflowTaskTimeout: cmp.Or(o.TaskTimeout, DefaultTaskTimeout),
		StaticSummary:       of.summary(spec),
		StaticDetails:       of.details(spec),
		Memo:                memo,
	}
	expressions, zone := o.Ticks()
	options := client.ScheduleOptions{
		ID: spec.Name, Spec: client.ScheduleSpec{CronExpressions: expressions, TimeZoneName: zone},
		Overlap: policies[cmp.Or(o.Overlap, job.OverlapSkip)], CatchupWindow: o.CatchUp,
	}
	return c.withAttributes(ctx, in, func(in wire.StartInput, attributes temporal.SearchAttributes) error {
		action := action // each try has its own
		action.Args, action.TypedSearchAttributes = []any{in}, attributes
		options.Action = &action
		return put(ctx, options)
	})
}

func (c *Client) createSchedule(ctx context.Context, o client.ScheduleOptions) error {
	_, err := c.temporal.ScheduleClient().Create(ctx, o)
	return err
}

// updateSchedule replaces a schedule of a job. If there is none it returns *ScheduleNotFoundError.
func (c *Client) updateSchedule(ctx context.Context, o client.ScheduleOptions) error {
	handle, _, err := c.schedule(ctx, o.ID)
	if err != nil {
		return err
	}
	err = handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		return &client.ScheduleUpdate{Schedule: &client.Schedule{
			Action: o.Action, Spec: &o.Spec, State: &client.ScheduleState{},
			Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow},
		}}, nil
	}})
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return &ScheduleNotFoundError{Name: o.ID} // just deleted
	}
	return err
}

// Scheduled is a schedule of a job, with its state.
type Scheduled struct {
	Name     string   `json:"name"`
	Cron     []string `json:"cron"`
	TimeZone string   `json:"time_zone"`
	Overlap  string   `json:"overlap"`
	Pool     string   `json:"pool"`
	Output   string   `json:"output,omitempty"`
	Paused   bool     `json:"paused"`
	Note     string   `json:"note,omitempty"` // why it was paused
	// Next is the next tick; nil if there is none or the schedule is paused.
	Next *time.Time `json:"next,omitempty"`
	// Last is the latest run. Its State is empty if the server has forgotten it.
	Last    *Listed  `json:"last,omitempty"`
	Running []string `json:"running,omitempty"` // names of runs that have not ended
	Runs    int      `json:"runs"`              // started so far
	Skipped int      `json:"skipped"`           // ticks skipped because the run before had not ended
	Missed  int      `json:"missed"`            // ticks missed while the server was down
}

// ScheduleNotFoundError reports that there is no schedule of the name, or that it does not start a job.
type ScheduleNotFoundError struct{ Name string }

func (e *ScheduleNotFoundError) Error() string {
	return fmt.Sprintf("there is no schedule named %q", e.Name)
}

// Schedules returns the schedules of jobs in the namespace, by name.
func (c *Client) Schedules(ctx context.Context) ([]Scheduled, error) {
	found := []Scheduled{}
	entries, err := c.temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing schedules: %w", err)
	}
	for entries.HasNext() {
		entry, err := entries.Next()
		if err != nil {
			return nil, fmt.Errorf("listing schedules: %w", err)
		}
		if entry.WorkflowType.Name != wire.WorkflowJob {
			continue
		}
		one, err := c.GetSchedule(ctx, entry.ID)
		if _, ok := errors.AsType[*ScheduleNotFoundError](err); ok {
			continue // it has just been deleted
		}
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Scheduled) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// GetSchedule returns one schedule. An unknown name is *ScheduleNotFoundError.
func (c *Client) GetSchedule(ctx context.Context, name string) (Scheduled, error) {
	_, desc, err := c.schedule(ctx, name)
	if err != nil {
		return Scheduled{}, err
	}
	memo := actionMemo(desc)
	s := Scheduled{
		Name: name, Cron: memoValue[[]string](c, memo, wire.MemoCron),
		Pool: memoValue[string](c, memo, wire.MemoPool), Output: memoValue[string](c, memo, wire.MemoOutput),
		TimeZone: cmp.Or(desc.Schedule.Spec.TimeZoneName, "UTC"), Overlap: overlapOf(desc.Schedule.Policy.Overlap),
		Paused: desc.Schedule.State.Paused, Note: desc.Schedule.State.Note,
		Runs: desc.Info.NumActions, Skipped: desc.Info.NumActionsSkippedOverlap, Missed: desc.Info.NumActionsMissedCatchupWindow,
	}
	if next := desc.Info.NextActionTimes; len(next) > 0 && !s.Paused {
		s.Next = &next[0]
	}
	for _, run := range desc.Info.RunningWorkflows {
		s.Running = append(s.Running, run.WorkflowID)
	}
	if recent := desc.Info.RecentActions; len(recent) > 0 {
		s.Last, err = c.lastRun(ctx, recent[len(recent)-1])
	}
	return s, err
}

// actionMemo returns the memo that a schedule gives its jobs. That of the schedule itself cannot be replaced.
func actionMemo(desc *client.ScheduleDescription) *common.Memo {
	memo := &common.Memo{Fields: map[string]*common.Payload{}}
	action, _ := desc.Schedule.Action.(*client.ScheduleWorkflowAction)
	for name, value := range action.Memo {
		if payload, ok := value.(*common.Payload); ok {
			memo.Fields[name] = payload
		}
	}
	return memo
}

// lastRun returns the state of a run that a schedule has started; nil if it could not be started.
func (c *Client) lastRun(ctx context.Context, action client.ScheduleActionResult) (*Listed, error) {
	started := action.StartWorkflowResult
	if started == nil {
		return nil, nil
	}
	desc, err := c.temporal.DescribeWorkflowExecution(ctx, started.WorkflowID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return &Listed{Name: started.WorkflowID, Run: started.FirstExecutionRunID, Started: action.ActualTime}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", started.WorkflowID, err)
	}
	last := c.listed(desc.GetWorkflowExecutionInfo())
	last.Started = action.ActualTime // of the first of its workflow's runs
	return &last, nil
}

// Unschedule deletes a schedule. Runs that it has started continue, and stay listed. An unknown name is
// *ScheduleNotFoundError.
func (c *Client) Unschedule(ctx context.Context, name string) error {
	return c.act(ctx, name, "deleting", func(h client.ScheduleHandle) error { return h.Delete(ctx) })
}

// PauseSchedule stops starting runs until [Client.ResumeSchedule]; note says why, for people. An
// unknown name is *ScheduleNotFoundError, here and in the methods below.
func (c *Client) PauseSchedule(ctx context.Context, name, note string) error {
	why := client.SchedulePauseOptions{Note: note}
	return c.act(ctx, name, "pausing", func(h client.ScheduleHandle) error { return h.Pause(ctx, why) })
}

// ResumeSchedule lets a paused schedule start runs again. Ticks that have passed stay missed.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	var none client.ScheduleUnpauseOptions
	return c.act(ctx, name, "resuming", func(h client.ScheduleHandle) error { return h.Unpause(ctx, none) })
}

// StillRunningError reports that a schedule's run has not ended, and that its overlap policy allows no
// second one.
type StillRunningError struct{ Name, Run string }

func (e *StillRunningError) Error() string {
	return fmt.Sprintf("schedule %s starts nothing while %s runs: wait for that run, or stop it", e.Name, e.Run)
}

// TriggerSchedule makes a schedule act as at a tick now, paused or not. If its run has not ended and its
// overlap policy is OverlapSkip, it returns *StillRunningError.
func (c *Client) TriggerSchedule(ctx context.Context, name string) error {
	handle, desc, err := c.schedule(ctx, name)
	if err != nil {
		return err
	}
	if running := desc.Info.RunningWorkflows; len(running) > 0 && overlapOf(desc.Schedule.Policy.Overlap) == job.OverlapSkip {
		return &StillRunningError{Name: name, Run: running[0].WorkflowID}
	}
	return scheduleError(name, "triggering", handle.Trigger(ctx, client.ScheduleTriggerOptions{}))
}

// schedule finds a schedule of a job.
func (c *Client) schedule(ctx context.Context, name string) (client.ScheduleHandle, *client.ScheduleDescription, error) {
	handle := c.temporal.ScheduleClient().GetHandle(ctx, name)
	desc, err := handle.Describe(ctx)
	if err != nil {
		return nil, nil, scheduleError(name, "asking for", err)
	}
	action, ok := desc.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok || action.Workflow != wire.WorkflowJob {
		return nil, nil, &ScheduleNotFoundError{Name: name} // of another kind of workflow
	}
	return handle, desc, nil
}

// act does something with a schedule. doing says what, for the error.
func (c *Client) act(ctx context.Context, name, doing string, do func(client.ScheduleHandle) error) error {
	handle, _, err := c.schedule(ctx, name)
	if err != nil {
		return err
	}
	return scheduleError(name, doing, do(handle))
}

func scheduleError(name, doing string, err error) error {
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return &ScheduleNotFoundError{Name: name}
	}
	if err != nil {
		return fmt.Errorf("%s schedule %s: %w", doing, name, err)
	}
	return nil
}
