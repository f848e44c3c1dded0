package workflows

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// runLoopLeg runs a leg of a loop whose executions end as process says.
func runLoopLeg(t *testing.T, process func(in activities.ProcessInput) (activities.ProcessResult, error), prepare func(*testsuite.TestWorkflowEnvironment)) LegResult {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(in activities.ProcessInput) (activities.ProcessResult, error) { return process(in) },
		activity.RegisterOptions{Name: protocol.ActivityProcess})
	prepare(env)
	spec := job.Spec{Name: "probe", Pool: "probe", Source: job.SourceClock, Every: time.Second}.WithDefaults()
	env.RegisterWorkflowWithOptions(LoopLeg, workflow.RegisterOptions{Name: protocol.WorkflowLoopLeg})
	env.ExecuteWorkflow(LoopLeg, LoopLegInput{
		Ref: activities.Ref{Job: "probe", Run: "run"}, Spec: spec, State: dispatch.State{Number: 1, Window: 1, Last: true},
		Slot: protocol.ClockSlot{Next: 10},
	})
	require.NoError(t, env.GetWorkflowError())
	var result LegResult
	require.NoError(t, env.GetWorkflowResult(&result))
	return result
}

// did is the result of an execution that has run ticks.
func did(in activities.ProcessInput, ticks int64) activities.ProcessResult {
	at := in.Clock.ClockSlot
	at.Next = in.Batch.First + ticks
	at.Stats.OK += ticks
	rest := in.Batch.After(ticks, 0)
	r := activities.ProcessResult{Rest: &rest, Clock: &at, Totals: job.Totals{OK: ticks, Batches: 1}}
	r.Entry.Batch, r.Entry.OK = protocol.Batch{First: in.Batch.First, Count: ticks}, ticks
	return r
}

// L5: of an execution that was lost counts what its last heartbeat says, and the next one begins there. One that had nothing in hand costs no
// attempt, however often that happens.
func TestLoopLeg_GoesOnFromTheLastHeartbeat(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	var inputs []activities.ProcessInput
	var env *testsuite.TestWorkflowEnvironment
	result := runLoopLeg(t, func(in activities.ProcessInput) (activities.ProcessResult, error) {
		inputs = append(inputs, in)
		lost := func(next, doubt, repeated, unsure int64, hand int64) error {
			at := in.Clock.ClockSlot
			at.Next, at.Doubt, at.Base, at.Unsure = next, doubt, base, unsure
			at.Stats.Repeated, at.Stats.OK = repeated, at.Stats.OK+next-in.Clock.Next
			return temporal.NewHeartbeatTimeoutError(protocol.Hint{First: next, Count: hand, Clock: &at})
		}
		switch n := len(inputs); {
		case n == 1:
			return activities.ProcessResult{}, lost(40, 44, 0, 0, 1)
		case n == 2: // before it has recorded any
			return activities.ProcessResult{}, lost(40, 47, 2, 1, 1)
		case n < 9:
			return activities.ProcessResult{}, lost(40, 47, 3, 0, 0)
		}
		env.SignalWorkflow(signalRetire, nil)
		return did(in, 5), nil
	}, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	require.Len(t, inputs, 9)
	require.EqualValues(t, 10, inputs[0].Batch.First)
	require.EqualValues(t, 40, inputs[1].Batch.First)
	require.Equal(t, base, inputs[1].Clock.Base)
	require.EqualValues(t, 44, inputs[1].Clock.Doubt)
	require.EqualValues(t, 47, inputs[2].Clock.Doubt)
	require.EqualValues(t, 3, inputs[2].Clock.Stats.Repeated, "with those that may have followed the heartbeat")
	require.EqualValues(t, 40, inputs[8].Batch.First)
	require.EqualValues(t, protocol.Endless, inputs[8].Batch.End())
	require.EqualValues(t, 35, result.Totals.OK)
	require.EqualValues(t, 8, result.Totals.Expiries)
	require.Nil(t, result.Error)
	require.EqualValues(t, 45, result.Loop[0].Next)
}

// A leg that its job retires ends once its execution has, with where the slot stands; without that it goes on.
func TestLoopLeg_Retires(t *testing.T) {
	t.Parallel()
	runs := 0
	var slices []time.Duration
	var env *testsuite.TestWorkflowEnvironment
	result := runLoopLeg(t, func(in activities.ProcessInput) (activities.ProcessResult, error) {
		slices = append(slices, in.Slice)
		if runs++; runs == 3 {
			env.SignalWorkflow(signalRetire, nil)
		}
		return did(in, 7), nil
	}, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	require.Equal(t, 3, runs)
	require.EqualValues(t, 10+3*7, result.Loop[0].Next)
	require.EqualValues(t, 21, result.Totals.OK)
	for _, slice := range slices {
		require.GreaterOrEqual(t, slice, leastSlice)
		require.Less(t, slice, longestSlice+leastSlice)
	}
}

// Executions end at the full hour, whenever they have begun, and run for a minute at least.
func TestLoopLeg_Slices(t *testing.T) {
	t.Parallel()
	hour := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	require.Equal(t, time.Hour, sliceAt(hour))
	require.Equal(t, 20*time.Minute, sliceAt(hour.Add(40*time.Minute)))
	require.Equal(t, time.Minute, sliceAt(hour.Add(59*time.Minute)))
	require.Equal(t, time.Hour+59*time.Second, sliceAt(hour.Add(59*time.Minute+time.Second)))
}
