package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Overlap says what a schedule does at a tick while its last run is still running.
type Overlap string

// The overlap policies. All but OverlapAllow never have two runs at the same time.
const (
	OverlapSkip      Overlap = "skip"      // the tick is skipped
	OverlapQueueOne  Overlap = "queue-one" // one run waits for its turn; further ticks are skipped
	OverlapQueue     Overlap = "queue"     // all wait for their turn
	OverlapStop      Overlap = "stop"      // the run is stopped, with its grace; the new one starts then
	OverlapTerminate Overlap = "terminate" // the run is ended at once, with nothing kept
	OverlapAllow     Overlap = "allow"     // both run
)

// overlaps lists the policies with Temporal's, in the order in which messages list them.
var overlaps = []struct {
	name   Overlap
	policy enums.ScheduleOverlapPolicy
}{
	{OverlapSkip, enums.SCHEDULE_OVERLAP_POLICY_SKIP},
	{OverlapQueueOne, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE},
	{OverlapQueue, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL},
	{OverlapStop, enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER},
	{OverlapTerminate, enums.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER},
	{OverlapAllow, enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL},
}

// ScheduleOptions say when a schedule starts its job. Cron is required.
type ScheduleOptions struct {
	// Cron lists expressions (see [CheckCron]); a tick is when any of them matches. Required.
	Cron []string
	// TimeZone is that of the expressions, such as Europe/Berlin. A time that a clock skips in
	// spring has no tick. A time that it repeats in autumn has one, or two: Temporal decides, and at present it is one, the second, east of
	// Greenwich, and two west of it. Expressions for each hour of each day tick evenly all the time. Default: UTC.
	TimeZone string
	// Overlap says what happens at a tick while the last run is still running. Default: OverlapSkip.
	Overlap Overlap
	// CatchUp is how late a missed tick may still run after the server was down: 10 s … 10 years.
	// Such ticks overlap like others, so with OverlapSkip one run replaces all of them. Default: the
	// server's, a year.
	CatchUp time.Duration
	// Replace replaces an existing schedule of the name, at once, without a moment in which there is none. The runs that it has started
	// continue.
	Replace bool
	// TaskTimeout is the workflow task timeout; default [DefaultTaskTimeout].
	TaskTimeout time.Duration
}

const (
	minCatchUp = 10 * time.Second
	// tickName is the length of what the server appends to the name of a scheduled job's run.
	tickName = len("-2006-01-02T15:04:05Z")
)

// Validate returns an error that names every invalid field of the options and of the spec, which must
// have its defaults filled in, or nil.
func (o ScheduleOptions) Validate(spec Spec) error {
	errs := []error{checkScheduleName(spec.Name), o.checkTimes(), spec.checkPlaceholders()}
	if o.overlap().policy() == enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED {
		errs = append(errs, fieldError("Overlap", "%q: use %s", o.Overlap, overlapNames()))
	}
	if o.overlap() == OverlapAllow {
		errs = append(errs, spec.checkApart())
	}
	switch spec.Source {
	case SourceFeed:
		errs = append(errs, errors.New("a feed is not started by a schedule: it runs until it is closed"))
	case SourceClock:
		errs = append(errs, errors.New("a loop is not started by a schedule: it runs until it is stopped, and Every is its interval"))
	}
	if slices.Contains(spec.Input, StandardInput) {
		errs = append(errs, errors.New("a scheduled job cannot read the standard input: name a file that the workers can read"))
	}
	return errors.Join(append(errs, spec.Validate())...)
}

func checkScheduleName(name string) error {
	if err := checkName("schedule", name, MaxName-tickName); err != nil && name != "" {
		return err
	}
	return nil // Spec.Validate reports an empty one
}

// checkTimes checks the fields that say when the ticks are.
func (o ScheduleOptions) checkTimes() error {
	if len(o.Cron) == 0 {
		return errors.New("no cron expression given: use at least one, such as '0 3 * * *'")
	}
	zones := map[string]bool{}
	for _, expression := range o.Cron {
		c, err := parseCron(expression)
		if err != nil {
			return err
		}
		zones[c.zone] = true
	}
	if len(zones) > 1 || o.TimeZone != "" && !zones[""] && !zones[o.TimeZone] {
		return errors.New("a schedule has one time zone: set it once, beside its cron expressions")
	}
	if o.TimeZone != "" {
		if err := checkZone(o.TimeZone); err != nil {
			return err
		}
	}
	if o.CatchUp != 0 && (o.CatchUp < minCatchUp || o.CatchUp > maxDuration) {
		return fieldError("CatchUp", "%v: use %v to %v", o.CatchUp, minCatchUp, maxDuration)
	}
	return nil
}

func (o ScheduleOptions) overlap() Overlap {
	if o.Overlap == "" {
		return OverlapSkip
	}
	return o.Overlap
}

func overlapNames() string {
	var names []string
	for _, known := range overlaps {
		names = append(names, string(known.name))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (o Overlap) policy() enums.ScheduleOverlapPolicy {
	for _, known := range overlaps {
		if known.name == o {
			return known.policy
		}
	}
	return enums.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED
}

func overlapOf(policy enums.ScheduleOverlapPolicy) Overlap {
	for _, known := range overlaps {
		if known.policy == policy {
			return known.name
		}
	}
	return OverlapSkip // the server's default
}

// ScheduleExistsError reports that a schedule of the name exists already.
type ScheduleExistsError struct{ Name string }

func (e *ScheduleExistsError) Error() string {
	return fmt.Sprintf("a schedule named %q exists already: choose another name, replace it with ScheduleOptions.Replace, or delete it first", e.Name)
}

// Schedule makes the server start a job at each tick: a Temporal Schedule of the spec's name. Each run
// is a separate job, named after the schedule and the tick in UTC: nightly-2026-11-21T03:00:00Z. The
// placeholders {time} and {date} in the spec's locations are replaced by the time of the tick; without
// them each run replaces the output when it completes. Schedule returns once the server has recorded
// the schedule. Errors: *ScheduleExistsError if the name exists, and those of
// [ScheduleOptions.Validate].
func (c *Client) Schedule(ctx context.Context, spec Spec, o ScheduleOptions) error {
	spec = spec.WithDefaults()
	if err := o.Validate(spec); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	var none *ScheduleNotFoundError
	err := error(&ScheduleNotFoundError{Name: spec.Name})
	if o.Replace {
		err = c.putSchedule(ctx, spec, o, c.updateSchedule)
	}
	if errors.As(err, &none) {
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
func (c *Client) putSchedule(ctx context.Context, spec Spec, o ScheduleOptions, put func(context.Context, client.ScheduleOptions) error) error {
	in := Input{Spec: spec, Scheduled: true, Version: protocol.LogicVersion}
	memo := specMemo(spec)
	memo[protocol.MemoCron] = o.Cron
	action := &client.ScheduleWorkflowAction{
		ID:                  spec.Name,
		Workflow:            protocol.WorkflowJob,
		Args:                []any{in},
		TaskQueue:           protocol.WorkflowQueue,
		WorkflowTaskTimeout: cmp.Or(o.TaskTimeout, DefaultTaskTimeout),
		StaticSummary:       specSummary(spec),
		StaticDetails:       specDetails(spec),
		Memo:                memo,
	}
	options := client.ScheduleOptions{
		ID: spec.Name, Spec: o.ticks(), Overlap: o.overlap().policy(), CatchupWindow: o.CatchUp, Action: action,
	}
	if c.searchable(ctx) {
		searchable, found := in, *action
		searchable.Searchable = true
		found.Args, found.TypedSearchAttributes = []any{searchable}, SearchAttributes{Pool: spec.Pool, State: Running}.Typed()
		options.Action = &found
		err := put(ctx, options)
		if _, ok := errors.AsType[*serviceerror.InvalidArgument](err); !ok {
			return err
		}
		options.Action = action
	}
	return put(ctx, options)
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
	memo := actionMemo(desc)
	s := Scheduled{
		Name: name, Cron: memoValue[[]string](c, memo, protocol.MemoCron), Pool: c.memoString(memo, protocol.MemoPool), Output: c.memoString(memo, protocol.MemoOutput),
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

// actionMemo is the memo that a schedule gives its jobs. That of the schedule itself cannot be replaced.
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
