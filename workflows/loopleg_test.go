package workflows

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/loop"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// runLoopLeg runs a leg of a loop with ticks every second, whose executions end as process says.
func runLoopLeg(t *testing.T, process func(in wire.ProcessInput) (wire.ProcessResult, error), prepare func(*testsuite.TestWorkflowEnvironment)) wire.LegResult {
	t.Helper()
	return runLoopLegEvery(t, time.Second, process, prepare)
}

func runLoopLegEvery(t *testing.T, every time.Duration, process func(in wire.ProcessInput) (wire.ProcessResult, error), prepare func(*testsuite.TestWorkflowEnvironment)) wire.LegResult {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(in wire.ProcessInput) (wire.ProcessResult, error) { return process(in) },
		activity.RegisterOptions{Name: string(wire.ActivityProcess)})
	prepare(env)
	spec := job.Spec{Name: "probe", Pool: "probe", Loop: &job.Loop{Every: every}}.WithDefaults()
	env.RegisterWorkflowWithOptions(LoopLeg, workflow.RegisterOptions{Name: wire.WorkflowLoopLeg})
	env.ExecuteWorkflow(LoopLeg, wire.LoopLegInput{
		Ref: wire.Ref{Job: "probe", Run: "run"}, Spec: spec, LegState: wire.LegState{Number: 1, Window: 1, Last: true},
		Slot: job.LoopSlot{Next: 10},
	})
	require.NoError(t, env.GetWorkflowError())
	var result wire.LegResult
	require.NoError(t, env.GetWorkflowResult(&result))
	return result
}

// did is the result of an execution that has run ticks.
func did(in wire.ProcessInput, ticks int64) wire.ProcessResult {
	at := in.Clock.LoopSlot
	at.Next = in.Batch.First + ticks
	at.Stats.OK += ticks
	rest := in.Batch.After(ticks, 0)
	r := wire.ProcessResult{Rest: &rest, Clock: &at, Totals: job.Totals{OK: ticks, Batches: 1}}
	r.Entry.Batch, r.Entry.OK = wire.Batch{First: in.Batch.First, Count: ticks}.Sealed(), ticks
	return r
}

// L5: of an execution that was lost counts what its last heartbeat says, and the next one begins there. One that had
// nothing in hand costs no attempt, however often that happens.
func TestLoopLeg_GoesOnFromTheLastHeartbeat(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	var inputs []wire.ProcessInput
	var env *testsuite.TestWorkflowEnvironment
	result := runLoopLeg(t, func(in wire.ProcessInput) (wire.ProcessResult, error) {
		inputs = append(inputs, in)
		lost := func(next, doubt, repeated, unsure int64, hand int64) error {
			at := in.Clock.LoopSlot
			at.Next, at.Doubt, at.Base, at.Unsure = next, doubt, base, unsure
			at.Stats.Repeated, at.Stats.OK = repeated, at.Stats.OK+next-in.Clock.Next
			return temporal.NewHeartbeatTimeoutError(wire.Hint{First: next, Count: hand, Clock: &at})
		}
		switch n := len(inputs); {
		case n == 1:
			return wire.ProcessResult{}, lost(40, 44, 0, 0, 1)
		case n == 2: // before it has recorded any
			return wire.ProcessResult{}, lost(40, 47, 2, 1, 1)
		case n < 9:
			return wire.ProcessResult{}, lost(40, 47, 3, 0, 0)
		}
		env.SignalWorkflow(wire.SignalRetire, nil)
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
	require.EqualValues(t, wire.Endless, inputs[8].Batch.End())
	require.EqualValues(t, 35, result.Totals.OK)
	require.EqualValues(t, 8, result.Totals.Expiries)
	require.Nil(t, result.Error)
	require.EqualValues(t, 45, result.Loop[0].Next)
}

// hintAt is a hint of an execution of that slot which has come so far.
func hintAt(in wire.ProcessInput, next, doubt int64) wire.Hint {
	slot := in.Clock.LoopSlot
	slot.Stats.OK += next - slot.Next
	slot.Next, slot.Doubt = next, doubt
	return wire.Hint{First: next, Clock: &slot}
}

// L5: an execution that fails has done what its error says, and the next one begins there. That it had nothing in hand
// does not make its error another one: an outage is waited out, and other errors cost an attempt each, unless there is
// progress between them.
func TestLoopLeg_GoesOnFromAFailure(t *testing.T) {
	t.Parallel()
	var inputs []wire.ProcessInput
	var times []time.Time
	var env *testsuite.TestWorkflowEnvironment
	result := runLoopLeg(t, func(in wire.ProcessInput) (wire.ProcessResult, error) {
		inputs, times = append(inputs, in), append(times, env.Now())
		switch n := len(inputs); {
		case n == 1:
			return wire.ProcessResult{}, temporal.NewApplicationError("503 Slow Down", job.ErrorOutage, hintAt(in, 40, 44))
		case n <= 3: // again, without progress
			return wire.ProcessResult{}, temporal.NewApplicationError("503 Slow Down", job.ErrorOutage, hintAt(in, 40, 47))
		case n <= 10: // more often than there are attempts
			return wire.ProcessResult{}, temporal.NewApplicationError("a defect", "DefectError", hintAt(in, in.Clock.Next+5, in.Clock.Next+7))
		}
		env.SignalWorkflow(wire.SignalRetire, nil)
		return did(in, 5), nil
	}, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	require.Nil(t, result.Error)
	require.Nil(t, result.Outage)
	require.Len(t, inputs, 11)
	for i, want := range []struct{ next, doubt int64 }{{10, 0}, {40, 44}, {40, 47}, {40, 47}, {45, 47}, {50, 52}} {
		require.Equal(t, want.next, inputs[i].Batch.First, "execution %d", i+1)
		require.Equal(t, want.next, inputs[i].Clock.Next)
		require.Equal(t, want.doubt, inputs[i].Clock.Doubt)
	}
	for i, wait := range []time.Duration{time.Second, time.Second, 2 * time.Second} {
		require.GreaterOrEqual(t, times[i+1].Sub(times[i]), wait, "before repetition %d", i+1)
	}
	require.EqualValues(t, 80, result.Loop[0].Next)
	require.EqualValues(t, 70, result.Totals.OK)
	require.EqualValues(t, 10, result.Totals.Retries)
}

// L5: a permanent error ends the loop, which is resumed from where the execution stood.
func TestLoopLeg_PermanentErrorKeepsWhatWasDone(t *testing.T) {
	t.Parallel()
	runs := 0
	var env *testsuite.TestWorkflowEnvironment
	result := runLoopLeg(t, func(in wire.ProcessInput) (wire.ProcessResult, error) {
		if runs++; runs > 1 {
			env.SignalWorkflow(wire.SignalRetire, nil)
			return did(in, 1), nil
		}
		return wire.ProcessResult{}, temporal.NewNonRetryableApplicationError("permission denied", job.ErrorOutput, nil, hintAt(in, 40, 44))
	}, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	require.Equal(t, 1, runs)
	require.Equal(t, job.ErrorOutput, result.Error.Type)
	require.EqualValues(t, 40, result.Loop[0].Next)
	require.EqualValues(t, 44, result.Loop[0].Doubt)
	require.EqualValues(t, 30, result.Totals.OK)
}

// L5, S11: an execution that still runs when the stop's time is over has done what its last heartbeat says. If that is
// not known, the straggler says so, and the ticks that were due are in doubt.
func TestLoopLeg_Stragglers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		every    time.Duration
		place    *wire.ActivitySlot // nil: nobody knows
		next     int64
		doubt    int64
		repeated int64
		unknown  bool
	}{
		"known": {
			every: time.Second, next: 40, doubt: 44, repeated: 3,
			place: &wire.ActivitySlot{SlotRef: wire.SlotRef{Worker: "mill-1"}, Clock: &job.LoopSlot{
				Next: 40, Doubt: 44, Unsure: 2, Stats: job.LoopStats{OK: 30, Repeated: 1},
			}},
		},
		"known, nothing done": {
			every: time.Second, next: 10, doubt: 14,
			place: &wire.ActivitySlot{SlotRef: wire.SlotRef{Worker: "mill-1"}, Clock: &job.LoopSlot{Next: 10, Doubt: 14}},
		},
		"without a heartbeat": {every: time.Second, place: &wire.ActivitySlot{SlotRef: wire.SlotRef{Worker: "mill-1"}}, next: 10, doubt: 10 + 81, unknown: true},
		"nobody knows":        {every: time.Minute, next: 10, doubt: 10 + 2, unknown: true},
		"back to back":        {next: 10, doubt: 11, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := runLoopLegEvery(t, test.every, func(wire.ProcessInput) (wire.ProcessResult, error) {
				return wire.ProcessResult{}, activity.ErrResultPending
			}, func(env *testsuite.TestWorkflowEnvironment) {
				env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&deaf{}}})
				env.RegisterActivityWithOptions(func(wire.LocateInput) (found wire.LocateResult, err error) {
					if test.place != nil {
						place := *test.place
						place.Activity = "batch-1.1"
						found.Places = append(found.Places, place)
					}
					return found, nil
				}, activity.RegisterOptions{Name: string(wire.ActivityLocate)})
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(wire.SignalHalt, wire.StopNotice{Deadline: env.Now()}) }, time.Minute)
			})
			require.Nil(t, result.Error)
			require.Len(t, result.Stragglers, 1)
			require.Equal(t, test.unknown, strings.HasSuffix(result.Stragglers[0].Batch, " · what it has done is not known"), result.Stragglers[0].Batch)
			at := result.Loop[0]
			require.Equal(t, test.next, at.Next)
			require.Equal(t, test.doubt, at.Doubt)
			require.Equal(t, test.repeated, at.Stats.Repeated)
			require.Equal(t, test.next-10, result.Totals.OK)
		})
	}
}

// deaf has activities take no notice of their cancellation.
type deaf struct {
	interceptor.WorkerInterceptorBase
}

func (*deaf) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &deafInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type deafInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (d *deafInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return d.Next.Init(&deafOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}})
}

type deafOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (d *deafOutbound) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return d.Next.ExecuteActivity(ctx, kind, args...)
}

// A leg that its job retires ends once its execution has, with where the slot stands; without that it goes on.
func TestLoopLeg_Retires(t *testing.T) {
	t.Parallel()
	runs := 0
	var slices []time.Duration
	var env *testsuite.TestWorkflowEnvironment
	result := runLoopLeg(t, func(in wire.ProcessInput) (wire.ProcessResult, error) {
		slices = append(slices, in.Slice)
		if runs++; runs == 3 {
			env.SignalWorkflow(wire.SignalRetire, nil)
		}
		return did(in, 7), nil
	}, func(e *testsuite.TestWorkflowEnvironment) { env = e })
	require.Equal(t, 3, runs)
	require.EqualValues(t, 10+3*7, result.Loop[0].Next)
	require.EqualValues(t, 21, result.Totals.OK)
	for _, slice := range slices {
		require.GreaterOrEqual(t, slice, loop.LeastSlice)
		require.Less(t, slice, loop.LongestSlice+loop.LeastSlice)
	}
}

// L5: a slot whose execution was given up while its worker was cut off, and went on, says how many ticks it has begun
// when it comes back. Those run again, and are counted: by the next execution if it has not begun, and by the leg
// otherwise.
func TestD54_TicksOfAWorkerThatWasCutOffCountAsRepeated(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		var inputs []wire.ProcessInput
		var env *testsuite.TestWorkflowEnvironment
		result := runLoopLeg(t, func(in wire.ProcessInput) (wire.ProcessResult, error) {
			inputs = append(inputs, in)
			back := in.Clock.LoopSlot
			back.Doubt = 142 // it was at 40 when it was heard of last, and has begun 102 more
			signal := func() {
				env.SignalWorkflow(wire.SignalCameBack, wire.CameBack{Activity: "batch-1.1", Clock: &back})
			}
			switch len(inputs) {
			case 1:
				if !late {
					env.RegisterDelayedCallback(signal, 500*time.Millisecond) // while the next one waits for its turn
				}
				hint := hintAt(in, 40, 44)
				hint.Count = 1
				return wire.ProcessResult{}, temporal.NewHeartbeatTimeoutError(hint)
			case 2:
				if late {
					signal()
				}
				r := did(in, 200)
				r.Clock.Stats.Repeated += max(0, in.Clock.Doubt-in.Clock.Next) // as a slot counts them
				return r, nil
			}
			env.SignalWorkflow(wire.SignalRetire, nil)
			return did(in, 1), nil
		}, func(e *testsuite.TestWorkflowEnvironment) { env = e })
		require.Nil(t, result.Error)
		report := job.Spec{Loop: &job.Loop{Slots: 1}}.Loop.Report(result.Loop)
		require.EqualValues(t, 102, report.Repeated, "late: %v", late)
		require.EqualValues(t, 241, report.Ticks)
		require.Zero(t, result.Loop[0].Doubt)
	}
}
