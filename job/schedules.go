package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Scheduled is a schedule of a job, with its state.
type Scheduled struct {
	Name     string   `json:"name"`
	Cron     []string `json:"cron"`
	TimeZone string   `json:"time_zone"`
	Overlap  Overlap  `json:"overlap"`
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
		if entry.WorkflowType.Name != protocol.WorkflowJob {
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
	s := Scheduled{
		Name: name, Cron: memoValue[[]string](c, desc.Memo, protocol.MemoCron), Pool: c.memoString(desc.Memo, protocol.MemoPool), Output: c.memoString(desc.Memo, protocol.MemoOutput),
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
	handle, _, err := c.schedule(ctx, name)
	if err != nil {
		return err
	}
	return scheduleError(name, "deleting", handle.Delete(ctx))
}

// PauseSchedule stops starting runs until [Client.ResumeSchedule]; note says why, for people. An
// unknown name is *ScheduleNotFoundError, here and in the methods below.
func (c *Client) PauseSchedule(ctx context.Context, name, note string) error {
	handle, _, err := c.schedule(ctx, name)
	if err != nil {
		return err
	}
	return scheduleError(name, "pausing", handle.Pause(ctx, client.SchedulePauseOptions{Note: note}))
}

// ResumeSchedule lets a paused schedule start runs again. Ticks that have passed stay missed.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	handle, _, err := c.schedule(ctx, name)
	if err != nil {
		return err
	}
	return scheduleError(name, "resuming", handle.Unpause(ctx, client.ScheduleUnpauseOptions{}))
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
	if running := desc.Info.RunningWorkflows; len(running) > 0 && overlapOf(desc.Schedule.Policy.Overlap) == OverlapSkip {
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
	if !ok || action.Workflow != protocol.WorkflowJob {
		return nil, nil, &ScheduleNotFoundError{Name: name} // of another kind of workflow
	}
	return handle, desc, nil
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
