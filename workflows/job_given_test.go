package workflows

import (
	"log/slog"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

// X8: inputs that make no sense fail their workflow for good, at once: no worker runs out of memory, and no workflow
// task fails again and again.
func TestD16_InputsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	loop := func(slots int) job.Spec {
		s := job.Spec{Name: "ticks", Pool: "p", Loop: &job.Loop{}}.WithDefaults()
		s.Loop.Slots = slots
		return s
	}
	feed := job.Spec{Name: "risk", Pool: "p", Feed: &job.Feed{}, Output: "out/"}.WithDefaults()
	files := job.Spec{Name: "files", Pool: "p", Files: &job.Files{Input: []string{"in.jsonl"}}, Output: "out.jsonl"}.WithDefaults()
	window := files
	window.Window = 2_000_000_000
	full := feed
	full.Feed.Capacity = 2_000_000_000
	tasks := func(b wire.Batch) wire.LegState { return wire.LegState{Tasks: []wire.Task{{Batch: b}}} }
	for name, start := range map[string]struct {
		workflow any
		input    any
	}{
		"a loop with very many slots":     {Job, wire.JobInput{StartInput: wire.StartInput{Spec: loop(2_000_000_000)}}},
		"a loop with less than no slots":  {Job, wire.JobInput{StartInput: wire.StartInput{Spec: loop(-1)}}},
		"a slot that the loop has not":    {Job, wire.JobInput{StartInput: wire.StartInput{Spec: loop(2), Loop: []job.LoopSlot{{Slot: 2}}}}},
		"less than no items":              {Job, wire.JobInput{StartInput: wire.StartInput{Spec: feed, Accepted: -1}}},
		"more items than there can be":    {Job, wire.JobInput{StartInput: wire.StartInput{Spec: feed, Accepted: 1 << 62}}},
		"a very large window":             {Job, wire.JobInput{StartInput: wire.StartInput{Spec: window}}},
		"a very large capacity":           {Job, wire.JobInput{StartInput: wire.StartInput{Spec: full}}},
		"nothing at all":                  {Job, wire.JobInput{}},
		"a leg with far too few places":   {Leg, wire.LegInput{Spec: files, LegState: wire.LegState{Window: -limits.MaxWindow - 1}}},
		"a leg with less than no items":   {Leg, wire.LegInput{Spec: files, LegState: tasks(wire.Batch{Count: -1})}},
		"a step that the job has not":     {Leg, wire.LegInput{Spec: files, LegState: tasks(wire.Batch{Count: 1, From: &wire.Parcel{Step: 7}})}},
		"a slot below 0":                  {LoopLeg, wire.LoopLegInput{Spec: loop(1), Slot: job.LoopSlot{Slot: -1}}},
		"a leg that begins below 0":       {FeedLeg, wire.FeedLegInput{Spec: feed, Opening: &wire.FeedOpening{Opening: wire.Opening{First: -5}}}},
		"a leg of a feed with no spec":    {FeedLeg, wire.FeedLegInput{}},
		"a leg with too large a capacity": {FeedLeg, wire.FeedLegInput{Spec: full}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			env := suite.NewTestWorkflowEnvironment()
			env.ExecuteWorkflow(start.workflow, start.input)
			require.True(t, env.IsWorkflowCompleted())
			var app *temporal.ApplicationError
			require.ErrorAs(t, env.GetWorkflowError(), &app)
			require.Equal(t, job.ErrorInvalid, app.Type())
			require.True(t, app.NonRetryable())
		})
	}
}
