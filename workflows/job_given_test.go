package workflows

import (
	"log/slog"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/intake"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

// Inputs that make no sense fail their workflow for good, at once: no worker runs out of memory, and no workflow task fails again and
// again.
func TestD16_InputsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	loop := func(slots int) job.Spec {
		s := job.Spec{Name: "ticks", Pool: "p", Source: job.SourceClock}.WithDefaults()
		s.Slots = slots
		return s
	}
	feed := job.Spec{Name: "risk", Pool: "p", Source: job.SourceFeed, Output: "out/"}.WithDefaults()
	files := job.Spec{Name: "files", Pool: "p", Input: []string{"in.jsonl"}, Output: "out.jsonl"}.WithDefaults()
	window := files
	window.Window = 2_000_000_000
	full := feed
	full.Capacity = 2_000_000_000
	tasks := func(b wire.Batch) dispatch.State { return dispatch.State{Tasks: []dispatch.Task{{Batch: b}}} }
	for name, start := range map[string]struct {
		workflow any
		input    any
	}{
		"a loop with very many slots":     {Job, JobInput{StartInput: wire.StartInput{Spec: loop(2_000_000_000)}}},
		"a loop with less than no slots":  {Job, JobInput{StartInput: wire.StartInput{Spec: loop(-1)}}},
		"a slot that the loop has not":    {Job, JobInput{StartInput: wire.StartInput{Spec: loop(2), Loop: []job.LoopSlot{{Slot: 2}}}}},
		"less than no items":              {Job, JobInput{StartInput: wire.StartInput{Spec: feed, Accepted: -1}}},
		"more items than there can be":    {Job, JobInput{StartInput: wire.StartInput{Spec: feed, Accepted: 1 << 62}}},
		"a very large window":             {Job, JobInput{StartInput: wire.StartInput{Spec: window}}},
		"a very large capacity":           {Job, JobInput{StartInput: wire.StartInput{Spec: full}}},
		"nothing at all":                  {Job, JobInput{}},
		"a leg with far too few places":   {Leg, LegInput{Spec: files, State: dispatch.State{Window: -job.MaxWindow - 1}}},
		"a leg with less than no items":   {Leg, LegInput{Spec: files, State: tasks(wire.Batch{Count: -1})}},
		"a step that the job has not":     {Leg, LegInput{Spec: files, State: tasks(wire.Batch{Count: 1, From: &wire.Parcel{Step: 7}})}},
		"a slot below 0":                  {LoopLeg, LoopLegInput{Spec: loop(1), Slot: job.LoopSlot{Slot: -1}}},
		"a leg that begins below 0":       {FeedLeg, FeedLegInput{Spec: feed, Opening: &feedOpening{Opening: intake.Opening{First: -5}}}},
		"a leg of a feed with no spec":    {FeedLeg, FeedLegInput{}},
		"a leg with too large a capacity": {FeedLeg, FeedLegInput{Spec: full}},
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
