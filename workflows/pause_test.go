package workflows

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

func (w *world) pause()   { w.env.SignalWorkflow(wire.SignalPause, wire.Pause{}) }
func (w *world) unpause() { w.env.SignalWorkflow(wire.SignalPause, wire.Pause{Over: true}) }

// pausedFor pauses the job at a time for a day, in which it must not do anything: it returns how often it did what in
// all, as it was when all had ended, and before it went on.
func (w *world) pausedFor(at, settles time.Duration) {
	var then map[string]int
	dispatched := 0
	w.at(at, w.pause)
	w.at(at+settles, func() {
		then, dispatched = maps.Clone(w.commands), len(w.all)
		require.Zero(w.t, w.flying, "nothing is in hand any more")
		r := w.query()
		require.Equal(w.t, job.Running, r.State)
		require.NotNil(w.t, r.PausedSince)
		require.Zero(w.t, r.InFlight)
	})
	w.at(at+24*time.Hour, func() {
		require.Equal(w.t, then, w.commands, "it costs nothing while it waits")
		require.Len(w.t, w.all, dispatched)
		w.unpause()
	})
}

// S21: a paused job dispatches nothing, costs no event for a day, and goes on then, without an attempt: with a leg inside
// it, with one in its own workflow, and with several.
func TestPause_CostsNothing(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Duration{"inside": 3500 * time.Millisecond, "a leg": 15500 * time.Millisecond, "legs": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 20_000)
			w.spec.Window, w.pageLimit, w.took, w.spec.Attempts = 5, 40, time.Second, 1
			w.process = func(x *execution) {
				x.onCancel = func() { x.endAfter(500*time.Millisecond, x.done(4), nil) }
				if x.number%3 == 0 { // it waits in the queue
					x.onCancel = func() { x.endAfter(0, wire.ProcessResult{}, temporal.NewCanceledError()) }
				}
			}
			w.pausedFor(at, time.Minute)
			report := w.mustRun()
			require.EqualValues(t, 20_000, report.OK)
			require.Zero(t, report.Retries)
			require.Nil(t, report.PausedSince)
			require.Equal(t, 24*time.Hour, report.PausedFor)
			require.Equal(t, true, w.memo[wire.MemoWithdrawn])
			require.Nil(t, w.memo[wire.MemoPaused])
		})
	}
}

// S21: whatever a job waits for, it has no timer while it is paused: the delay of a retry, an outage, a slow-down, limits, a
// budget, a pool that nobody serves.
func TestPause_WithoutTimers(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(w *world){
		"retries": func(w *world) {
			w.spec.Backoff = time.Minute
			w.process = func(x *execution) { x.fails(transient("busy")) }
		},
		"outage":    func(w *world) { w.process = func(x *execution) { x.fails(outage()) } },
		"slow-down": func(w *world) { w.process = func(x *execution) { x.rests(0); x.result.SlowDown = time.Minute } },
		"limits":    func(w *world) { w.spec.RequestRate, w.spec.JobRate = 60_000, 1000 },
		"budget":    func(w *world) { w.spec.MaxTokens = 1_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 2000)
			w.spec.Window, w.took, w.spec.Attempts = 5, time.Second, 100
			prepare(w)
			process := w.process
			on := false
			w.process = func(x *execution) {
				if !on && process != nil {
					process(x)
				}
			}
			w.pausedFor(20*time.Second, 10*time.Minute)
			w.at(24*time.Hour, func() { on = true })
			report := w.mustRun()
			require.EqualValues(t, 2000, report.OK)
			require.Equal(t, 24*time.Hour, report.PausedFor)
		})
	}
}

// What waited for its time before a pause waits for it after a short one, too.
func TestPause_KeepsDelays(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	w.spec.Backoff = time.Minute
	w.process = func(x *execution) {
		if x.number == 1 {
			x.fails(transient("busy"))
		}
	}
	w.at(10*time.Second, w.pause)
	w.at(20*time.Second, w.unpause)
	w.mustRun()
	require.Len(t, w.all, 2)
	require.InDelta(t, 60, w.all[1].seconds(), 1)
}

// A job for whose first activity no worker comes is not offered to the pool again and again.
func TestPause_OffersNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	offers := 0
	w.plan = func(wire.PlanInput) error {
		if offers++; offers <= 3 {
			return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return nil
	}
	w.planTook = 10 * time.Second
	w.at(0, w.pause)
	w.at(24*time.Hour, func() {
		require.LessOrEqual(t, offers, 1)
		w.unpause()
	})
	require.Equal(t, 24*time.Hour, w.mustRun().PausedFor)
	require.Equal(t, 4, offers)
}

// An execution that a pause has taken back costs no attempt, however it ends; one that does not end keeps its place, and
// a stop still reaches its job.
func TestPause_Lost(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Attempts, w.spec.Window = 1, 2
	w.took = time.Minute
	w.process = func(x *execution) {
		if x.number <= 2 {
			x.onCancel = func() { x.endAfter(time.Second, wire.ProcessResult{}, heartbeatTimeout()) }
		}
	}
	w.at(10*time.Second, w.pause)
	w.at(time.Hour, w.unpause)
	report := w.mustRun()
	require.EqualValues(t, 2, report.Expiries)
	require.Zero(t, report.Retries)
	require.EqualValues(t, 100, report.OK)
}

// S21: a stop ends a pause, and so does the job's deadline. What is resumed is not paused.
func TestPause_StopsAndDeadlines(t *testing.T) {
	t.Parallel()
	for _, deadline := range []bool{false, true} {
		t.Run(fmt.Sprint(deadline), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 20_000)
			w.spec.Window, w.took = 5, time.Second
			if deadline {
				w.spec.Deadline = "1h"
			} else {
				w.at(time.Hour, func() { w.stop(job.Stop{Reason: "enough"}) })
			}
			w.at(20*time.Second, w.pause)
			w.at(20*time.Minute, func() { w.pause() }) // twice is as once
			w.at(30*time.Minute, func() {
				require.Equal(t, 20*time.Second, w.query().PausedSince.Sub(w.query().Started).Round(time.Second))
			})
			report := w.stopped()
			require.InDelta(t, time.Hour.Seconds(), took(report), 1)
			require.Nil(t, report.PausedSince)
			require.InDelta(t, (time.Hour - 20*time.Second).Seconds(), report.PausedFor.Seconds(), 1)
			require.Nil(t, w.memo[wire.MemoPaused])
			w.requireSettled()

			w.resume = report.Manifests
			again := w.mustRun()
			require.EqualValues(t, 20_000, again.OK)
			require.Less(t, took(again), 3000.0)
		})
	}
}

// A stop that comes while calls of a paused job are in hand waits for these, as any other.
func TestPause_StopWhileItSettles(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Window, w.took, w.settle = 5, time.Hour, 20*time.Second
	w.at(10*time.Second, w.pause)
	w.at(15*time.Second, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.InDelta(t, 30, took(report), 1)
	require.Empty(t, report.Stragglers)
}

// The output of a job that is paused while its last items are in hand waits for it to go on.
func TestPause_HoldsTheOutput(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	w.took, w.settle = 10*time.Second, time.Second
	w.process = func(x *execution) { x.onCancel = func() { x.endAfter(time.Second, x.done(10), nil) } }
	w.at(5*time.Second, w.pause)
	w.at(time.Hour, func() {
		require.Empty(t, w.finishes)
		require.EqualValues(t, 10, w.query().OK)
		w.unpause()
	})
	require.Equal(t, time.Hour-5*time.Second, w.mustRun().PausedFor)
}

// Before its first item, and while its init hooks run, a job can be paused; the hooks see nothing of it.
func TestPause_BeforeTheFirstBatch(t *testing.T) {
	t.Parallel()
	w := setup(t, 2000)
	w.spec.Init, w.hookTook = []string{"prepare"}, 10*time.Second
	w.at(time.Second, w.pause)
	w.at(time.Hour, func() {
		require.Len(t, w.hooks, 1)
		require.Empty(t, w.all)
		require.Len(t, w.plans, 1)
		w.unpause()
	})
	require.Equal(t, time.Hour-time.Second, w.mustRun().PausedFor)
}

// A leg whose history is long continues as new while it is paused, and stays so, without an event, until its job goes on.
func TestPause_OverRunsOfALeg(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.took, w.settle, w.spec.Window = time.Hour, time.Minute, 5
	long := false
	w.historyLength = func() int {
		if long {
			return dispatch.MaxEvents
		}
		return 0
	}
	limits := func(n int, paused bool) {
		w.env.SignalWorkflow(wire.SignalLimits, wire.LegLimits{Number: n, Paused: paused})
	}
	w.process = func(x *execution) {
		if x.number == 5 {
			x.took = 10 * time.Second
			w.later(5*time.Second, func() { long = true })
		}
	}
	w.at(time.Minute, func() { limits(1, true) })
	dispatched := 0
	w.onEnv = func() {
		long = false
		w.took = time.Second
		w.later(time.Hour, func() {
			dispatched = len(w.all)
			limits(2, false)
		})
	}
	result, err := w.runLeg(w.legInput(20))
	require.NoError(t, err)
	require.Equal(t, 2, w.runs)
	require.Equal(t, 5, dispatched, "the second run has begun nothing before the job went on")
	require.EqualValues(t, 200, result.Totals.OK)
}

// A job that has continued as new looks every ten minutes whether legs still run that an earlier run has started. A
// paused one does not.
func TestPause_LooksAtNoLegs(t *testing.T) {
	t.Parallel()
	f := setupScripted(t, nil)
	alive := 0
	f.sent = func(signal string, _ any) {
		if signal == wire.SignalAlive {
			alive++
		}
	}
	since := f.env.Now()
	in := wire.JobInput{StartInput: wire.StartInput{Spec: f.spec, Version: wire.LogicVersion}, State: &wire.JobState{
		Held: true, Portions: 1, Ref: wire.Ref{Job: "risk", Run: "run"}, LastLeg: 1, Carried: []wire.CarriedLeg{{Number: 1, Places: 1}},
		Work:   wire.WorkState{Feed: &wire.FeedWorkState{Planned: true, Latest: 1, Open: 1}},
		Report: job.Report{Job: "risk", State: job.Running, Started: since, PausedSince: &since},
	}}
	f.at(24*time.Hour, func() {
		require.Zero(t, alive)
		f.unpause()
	})
	f.at(25*time.Hour, func() {
		require.Greater(t, alive, 5)
		f.env.SignalWorkflow(wire.SignalEnded, fromLeg(wire.KeptResult{Leg: 1}))
		f.stop(job.Stop{})
	})
	for _, fn := range f.began {
		fn()
	}
	f.began = nil
	f.env.ExecuteWorkflow(Job, in)
	require.NoError(t, f.env.GetWorkflowError())
}

// Any client may send the signal without an argument, and what comes of order is as it was sent.
func TestPause_Signals(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Window, w.took = 2, time.Second
	w.at(5*time.Second, func() {
		w.env.SignalWorkflow(wire.SignalPause, nil)
		w.unpause()
		w.pause()
	})
	w.at(time.Minute, func() {
		require.NotNil(t, w.query().PausedSince)
		w.unpause()
		w.unpause()
	})
	w.at(61*time.Second, func() { require.Nil(t, w.query().PausedSince) })
	w.mustRun()
}

// A slot of a loop returns where it stands, and begins no tick until its job goes on.
func TestPause_OfALoop(t *testing.T) {
	t.Parallel()
	var env *testsuite.TestWorkflowEnvironment
	var at []time.Duration
	var began time.Time
	result := runLoopLeg(t, func(in wire.ProcessInput) (wire.ProcessResult, error) {
		at = append(at, env.Now().Sub(began))
		if len(at) == 2 {
			env.SignalWorkflow(wire.SignalRetire, nil)
			return did(in, 5), nil
		}
		env.SignalWorkflow(wire.SignalLimits, wire.LegLimits{Number: 1, Paused: true})
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(wire.SignalLimits, wire.LegLimits{Number: 2}) }, time.Hour)
		return did(in, 3), nil
	}, func(e *testsuite.TestWorkflowEnvironment) { env, began = e, e.Now() })
	require.Len(t, at, 2)
	require.InDelta(t, time.Hour.Seconds(), at[1].Seconds(), 5)
	require.EqualValues(t, 15, result.Loop[0].Next, "the environment ends a cancelled activity at once")
}

// S21: a paused feed accepts items up to its capacity, and refuses others; it is not stalled. It goes on with what it has.
func TestPause_OfAFeed(t *testing.T) {
	t.Parallel()
	w := setupFeed(t, func(s *job.Spec) { s.Feed.Capacity = 5 })
	w.limits(time.Second, wire.LegLimits{Number: 1, Paused: true})
	w.put(2*time.Second, "a", 0, 3)
	w.put(time.Hour, "b", 3, 2)
	w.put(2*time.Hour, "c", 5, 1)
	var paused job.Progress
	w.progressAt(3*time.Hour, &paused)
	w.limits(24*time.Hour, wire.LegLimits{Number: 2})
	var early job.Progress
	w.progressAt(24*time.Hour+5*time.Millisecond, &early)
	w.close(24*time.Hour + time.Minute)
	w.run()
	require.Equal(t, "Full", w.refused["c"])
	require.Zero(t, paused.Feed.StalledSince)
	require.Zero(t, early.Feed.StalledSince)
	require.NotEmpty(t, w.at)
	require.GreaterOrEqual(t, w.at[0], 24*time.Hour)
	n := 0
	for _, b := range w.batches {
		n += len(b.Items)
	}
	require.Equal(t, 5, n)
}

func (w *feedWorld) limits(at time.Duration, l wire.LegLimits) {
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalLimits, l) }, at)
}
