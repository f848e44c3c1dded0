package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/temporal/search"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
)

// scheduling returns a Client whose schedules answer as the test says.
func scheduling(t *testing.T) (*Client, *mocks.ScheduleClient) {
	c, tc := setup(t)
	sc := &mocks.ScheduleClient{}
	sc.Test(t)
	t.Cleanup(func() { sc.AssertExpectations(t) })
	tc.On("ScheduleClient").Return(sc).Maybe()
	return c, sc
}

func TestSchedule_Options(t *testing.T) {
	t.Parallel()
	c, sc := scheduling(t)
	var got client.ScheduleOptions
	sc.On("Create", mock.Anything, mock.Anything).
		Run(func(args mock.Arguments) { got = args.Get(1).(client.ScheduleOptions) }).Return(&mocks.ScheduleHandle{}, nil)
	spec := job.Spec{Name: "nightly", Pool: "thumbs", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out-{date}.jsonl"}
	require.NoError(t, c.Schedule(t.Context(), spec, job.ScheduleOptions{
		Cron: []string{"0 3 * * *"}, TimeZone: "Europe/Berlin", Overlap: job.OverlapQueueOne, CatchUp: time.Hour, TaskTimeout: 2 * time.Second,
	}))
	require.Equal(t, "nightly", got.ID)
	require.Equal(t, client.ScheduleSpec{CronExpressions: []string{"0 3 * * *"}, TimeZoneName: "Europe/Berlin"}, got.Spec)
	require.Equal(t, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, got.Overlap)
	require.Equal(t, time.Hour, got.CatchupWindow)
	action := got.Action.(*client.ScheduleWorkflowAction)
	require.Equal(t, "nightly", action.ID)
	require.Equal(t, wire.WorkflowJob, action.Workflow)
	require.Equal(t, wire.WorkflowQueue, action.TaskQueue)
	require.Equal(t, []any{wire.StartInput{Spec: spec.WithDefaults(), Scheduled: true, Version: wire.LogicVersion}}, action.Args)
	require.Equal(t, 2*time.Second, action.WorkflowTaskTimeout)
	require.Equal(t, "pool thumbs · in.jsonl", action.StaticSummary)
	require.Contains(t, action.StaticDetails, "Window auto")
	require.Equal(t, map[string]any{
		wire.MemoPool: "thumbs", wire.MemoOutput: "out-{date}.jsonl", wire.MemoState: job.Running, wire.MemoSource: "files", wire.MemoFormat: "auto", wire.MemoCron: []string{"0 3 * * *"},
	}, action.Memo)
	require.Zero(t, action.TypedSearchAttributes.Size(), "the server has none")
}

// 14.4: jobs of a schedule have search attributes if the server has them; otherwise the schedule is made without.
func TestSchedule_SearchAttributes(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known to all of the server: %v", known), func(t *testing.T) {
			t.Parallel()
			c, sc := scheduling(t)
			c.searchable = func(context.Context) bool { return true }
			var got []*client.ScheduleWorkflowAction
			note := func(args mock.Arguments) {
				got = append(got, args.Get(1).(client.ScheduleOptions).Action.(*client.ScheduleWorkflowAction))
			}
			var err error
			if !known {
				err = serviceerror.NewInvalidArgument("search attribute StintPool is not defined")
			}
			sc.On("Create", mock.Anything, mock.Anything).Run(note).Return(&mocks.ScheduleHandle{}, err).Once()
			sc.On("Create", mock.Anything, mock.Anything).Run(note).Return(&mocks.ScheduleHandle{}, nil).Maybe()
			require.NoError(t, c.Schedule(t.Context(), valid(), job.ScheduleOptions{Cron: []string{"@daily"}}))
			require.True(t, got[0].Args[0].(wire.StartInput).Searchable)
			require.Equal(t, search.Attributes{Pool: "thumbs", State: job.Running}.Typed(), got[0].TypedSearchAttributes)
			if known {
				require.Len(t, got, 1)
				return
			}
			require.Len(t, got, 2)
			require.False(t, got[1].Args[0].(wire.StartInput).Searchable)
			require.Zero(t, got[1].TypedSearchAttributes.Size())
		})
	}
}

func TestSchedule_Refused(t *testing.T) {
	t.Parallel()
	daily := []string{"@daily"}
	tests := []struct {
		name   string
		change func(*job.Spec, *job.ScheduleOptions)
		says   []string
	}{
		{"no cron", func(_ *job.Spec, o *job.ScheduleOptions) { o.Cron = nil }, []string{"no cron expression given"}},
		{"bad cron", func(_ *job.Spec, o *job.ScheduleOptions) { o.Cron = []string{"@daily", "61 * * * *"} }, []string{`cron expression "61 * * * *"`, "0 to 59"}},
		{"bad zone", func(_ *job.Spec, o *job.ScheduleOptions) { o.TimeZone = "Nowhere" }, []string{`time zone "Nowhere"`, "Europe/Berlin"}},
		{"two zones", func(_ *job.Spec, o *job.ScheduleOptions) {
			o.Cron, o.TimeZone = []string{"TZ=UTC 0 3 * * *"}, "Europe/Berlin"
		}, []string{"one time zone"}},
		{"bad overlap", func(_ *job.Spec, o *job.ScheduleOptions) { o.Overlap = "forbid" }, []string{`Overlap "forbid"`, "skip, queue-one, queue, stop, terminate or allow"}},
		{"catch-up", func(_ *job.Spec, o *job.ScheduleOptions) { o.CatchUp = time.Second }, []string{"CatchUp 1s: use 10s to"}},
		{"both at once", func(_ *job.Spec, o *job.ScheduleOptions) { o.Overlap = job.OverlapAllow }, []string{"out.jsonl", "{time}"}},
		{"both at once, errors", func(s *job.Spec, o *job.ScheduleOptions) {
			s.Output, s.Errors, o.Overlap = "out-{time}.jsonl", "errors.jsonl", job.OverlapAllow
		}, []string{"errors errors.jsonl", "{time}"}},
		{"a layout of another language", func(s *job.Spec, _ *job.ScheduleOptions) { s.Files.Input = []string{"in/{date-1:%Y}/*.jsonl"} }, []string{"Files.Input 1 of 1", "{date-1:%Y}", "{date:2006/01/02}"}},
		{"no such placeholder", func(s *job.Spec, _ *job.ScheduleOptions) { s.Output = "out-{day}.jsonl" }, []string{"unknown placeholder {day}", "{date}"}},
		{"stdin", func(s *job.Spec, _ *job.ScheduleOptions) { s.Files.Input = []string{"-"} }, []string{"standard input"}},
		{"long name", func(s *job.Spec, _ *job.ScheduleOptions) { s.Name = strings.Repeat("n", 180) }, []string{"at most 179"}},
		{"a run's name", func(s *job.Spec, _ *job.ScheduleOptions) { s.Name = "n-2026-11-21T03:04:05Z" }, []string{"schedule name"}},
		{"no pool", func(s *job.Spec, _ *job.ScheduleOptions) { s.Pool = "" }, []string{"pool name is empty"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, _ := scheduling(t)
			spec, o := valid(), job.ScheduleOptions{Cron: daily}
			spec.Store, spec.Errors = "", ""
			test.change(&spec, &o)
			err := c.Schedule(t.Context(), spec, o)
			for _, text := range test.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestSchedule_Exists(t *testing.T) {
	t.Parallel()
	c, sc := scheduling(t)
	sc.On("Create", mock.Anything, mock.Anything).Return(nil, temporal.ErrScheduleAlreadyRunning)
	err := c.Schedule(t.Context(), valid(), job.ScheduleOptions{Cron: []string{"@daily"}})
	var exists *ScheduleExistsError
	require.ErrorAs(t, err, &exists)
	require.Equal(t, "nightly", exists.Name)
	require.ErrorContains(t, err, "ScheduleOptions.Replace")
	require.ErrorContains(t, err, "or delete it first")
}

func TestSchedule_NoneOfTheName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		desc *client.ScheduleDescription
		err  error
	}{
		{"none", nil, serviceerror.NewNotFound("no schedule")},
		{"somebody else's", &client.ScheduleDescription{Schedule: client.Schedule{Action: &client.ScheduleWorkflowAction{Workflow: "Theirs"}}}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, sc := scheduling(t)
			handle := &mocks.ScheduleHandle{}
			handle.Test(t) // it is not deleted
			handle.On("Describe", mock.Anything).Return(test.desc, test.err)
			sc.On("GetHandle", mock.Anything, "nightly").Return(handle)
			for _, do := range []func() error{
				func() error { return c.Unschedule(t.Context(), "nightly") },
				func() error { return c.PauseSchedule(t.Context(), "nightly", "") },
				func() error { return c.ResumeSchedule(t.Context(), "nightly") },
				func() error { return c.TriggerSchedule(t.Context(), "nightly") },
			} {
				var none *ScheduleNotFoundError
				require.ErrorAs(t, do(), &none)
				require.ErrorContains(t, none, "there is no schedule named")
			}
		})
	}
	c, sc := scheduling(t)
	handle := &mocks.ScheduleHandle{}
	handle.On("Describe", mock.Anything).Return(nil, errors.New("no network"))
	sc.On("GetHandle", mock.Anything, "nightly").Return(handle)
	require.EqualError(t, c.Unschedule(t.Context(), "nightly"), "asking for schedule nightly: no network")
}

// A schedule is replaced in one step: it is not deleted, and one that is not there is made.
func TestD44_ReplacingUpdatesInPlace(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{true, false} {
		t.Run(fmt.Sprint(there), func(t *testing.T) {
			t.Parallel()
			c, sc := scheduling(t)
			handle := &mocks.ScheduleHandle{}
			handle.Test(t) // it is not deleted
			sc.On("GetHandle", mock.Anything, "nightly").Return(handle)
			var got *client.ScheduleUpdate
			if there {
				handle.On("Describe", mock.Anything).Return(&client.ScheduleDescription{
					Schedule: client.Schedule{Action: &client.ScheduleWorkflowAction{Workflow: wire.WorkflowJob}},
				}, nil)
				handle.On("Update", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
					var err error
					got, err = args.Get(1).(client.ScheduleUpdateOptions).DoUpdate(client.ScheduleUpdateInput{})
					require.NoError(t, err)
				}).Return(nil)
			} else {
				handle.On("Describe", mock.Anything).Return(nil, serviceerror.NewNotFound("no schedule"))
				sc.On("Create", mock.Anything, mock.Anything).Return(handle, nil)
			}
			o := job.ScheduleOptions{Cron: []string{"@daily"}, Replace: true, Overlap: job.OverlapQueue, CatchUp: time.Hour}
			require.NoError(t, c.Schedule(t.Context(), valid(), o))
			if there {
				require.Equal(t, []string{"@daily"}, got.Schedule.Spec.CronExpressions)
				require.Equal(t, enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL, got.Schedule.Policy.Overlap)
				require.Equal(t, time.Hour, got.Schedule.Policy.CatchupWindow)
				require.Equal(t, []string{"@daily"}, got.Schedule.Action.(*client.ScheduleWorkflowAction).Memo[wire.MemoCron])
			}
		})
	}
}
