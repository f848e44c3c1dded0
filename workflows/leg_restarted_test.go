package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// The signal reaches the leg that the job runs itself.
func TestJob_Restarted(t *testing.T) {
	t.Parallel()
	w := setup(t, 50)
	w.spec.Attempts = 1
	w.process = func(x *execution) {
		if x.number <= 5 {
			x.took = 10 * time.Second
			x.fails(heartbeatTimeout())
		}
	}
	w.at(time.Second, func() { w.env.SignalWorkflow(wire.SignalRestarted, nil) })
	report := w.mustRun()
	require.Zero(t, report.Expiries)
	require.Zero(t, report.Retries)
}

func TestLeg_RestartedAsChild(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Attempts = 1
	w.process = func(x *execution) {
		if x.in.Batch.First >= 160 && len(w.tries(x.in.Batch.First)) == 1 {
			x.took = 10 * time.Second
			x.fails(heartbeatTimeout())
		}
	}
	w.at(time.Second, func() {
		w.env.SignalWorkflow(wire.SignalRestarted, nil)
		require.NoError(t, w.env.SignalWorkflowByID("nightly/leg-1", wire.SignalRestarted, nil))
	})
	w.spec.Window = 1000
	report := w.mustRun()
	require.Zero(t, report.Expiries)
}

// "restarted" excuses what was in flight when the process that held it was replaced.
func TestLeg_Restarted(t *testing.T) {
	t.Parallel()
	t.Run("costs no attempt", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 0)
		w.spec.Attempts, w.spec.Window = 1, 2
		w.process = func(x *execution) {
			if x.number <= 2 {
				x.took = 5 * time.Second
				x.fails(heartbeatTimeout())
			}
		}
		w.at(time.Second, func() { w.env.SignalWorkflow(wire.SignalRestarted, nil) })
		result, err := w.runLeg(w.legInput(2))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.EqualValues(t, 20, result.Totals.OK)
		require.Zero(t, result.Totals.Expiries)
		require.Zero(t, result.Totals.Retries)
	})
	t.Run("excuses nothing that came later", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 0)
		w.spec.Attempts = 1
		w.process = func(x *execution) {
			x.took = 5 * time.Second
			if x.number <= 2 {
				x.fails(heartbeatTimeout())
			}
		}
		w.at(time.Second, func() { w.env.SignalWorkflow(wire.SignalRestarted, nil) })
		result, err := w.runLeg(w.legInput(1))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.EqualValues(t, 1, result.Totals.Expiries, "the first was excused, the second not")
		require.EqualValues(t, 1, result.Totals.Isolations)
	})
	t.Run("excuses no other error", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 0)
		w.spec.Attempts = 1
		w.process = func(x *execution) {
			x.took = 5 * time.Second
			x.fails(transient("network"))
		}
		w.at(time.Second, func() { w.env.SignalWorkflow(wire.SignalRestarted, nil) })
		result, err := w.runLeg(w.legInput(1))
		require.NoError(t, err)
		require.Equal(t, job.ErrorExhausted, result.Error.Type)
	})
	t.Run("in the same workflow task as the end", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 0)
		w.spec.Attempts = 1
		w.process = func(x *execution) {
			if x.number > 1 {
				return
			}
			x.took = 0
			w.later(5*time.Second, func() {
				w.env.SignalWorkflowSkippingWorkflowTask(wire.SignalRestarted, nil)
				x.endNow(heartbeatTimeout())
			})
		}
		result, err := w.runLeg(w.legInput(1))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.EqualValues(t, 10, result.Totals.OK)
	})
}

// A worker that comes back with its batch alive has not died: the server, or the connection, was away for longer than
// the expiry. That costs no attempt, whatever the dispatcher has concluded meanwhile.
func TestD53_WorkersThatComeBackHaveNotDied(t *testing.T) {
	t.Parallel()
	const expiry = 5 * time.Second
	for _, test := range []struct {
		name     string
		attempts int
		lost     int // executions of the batch that expire and come back
		after    time.Duration
	}{
		{"while its batch waits", 3, 2, 500 * time.Millisecond},
		{"while its batch runs again", 3, 2, 2 * time.Second},
		{"with one attempt", 1, 5, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 0)
			w.spec.Attempts, w.took = test.attempts, expiry
			w.process = func(x *execution) {
				if x.number > test.lost {
					return
				}
				x.fails(heartbeatTimeout())
				w.later(expiry+test.after, func() {
					w.env.SignalWorkflow(wire.SignalCameBack, wire.CameBack{Activity: x.options.ActivityID})
				})
			}
			result, err := w.runLeg(w.legInput(1))
			require.NoError(t, err)
			require.Nil(t, result.Error)
			require.EqualValues(t, 10, result.Totals.OK)
			require.Zero(t, result.Totals.Expiries)
			require.Zero(t, result.Totals.Isolations)
			require.Zero(t, result.Totals.Failed)
		})
	}
	t.Run("but not for ever", func(t *testing.T) { // an item freezes its worker each time
		t.Parallel()
		w := setup(t, 0)
		w.perBatch, w.spec.Attempts = 4, 2
		w.process = func(x *execution) {
			switch {
			case x.in.Verdict != nil:
				x.records()
			case x.in.Batch.First <= 2 && x.in.Batch.First+x.takes() > 2:
				x.took = expiry
				x.fails(heartbeatTimeout())
				w.later(expiry+time.Millisecond, func() {
					w.env.SignalWorkflow(wire.SignalCameBack, wire.CameBack{Activity: x.options.ActivityID})
				})
			}
		}
		result, err := w.runLeg(w.legInput(1))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.EqualValues(t, 3, result.Totals.OK)
		require.EqualValues(t, 1, result.Totals.Failed)
		require.Less(t, len(w.all), 40)
	})
	t.Run("after a stop it is no straggler", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 20)
		w.spec.Window = 2
		w.process = func(x *execution) {
			x.took, x.onCancel = 0, func() { x.endAfter(expiry, x.result, nil) }
			if x.in.Batch.First == 0 {
				x.onCancel = func() { x.endAfter(time.Second, wire.ProcessResult{}, heartbeatTimeout()) }
			}
		}
		w.at(time.Minute, func() { w.stop(job.Stop{}) })
		w.at(time.Minute+2*time.Second, func() { w.env.SignalWorkflow(wire.SignalCameBack, wire.CameBack{Activity: "batch-1.1"}) })
		require.Empty(t, w.stopped().Stragglers)
	})
}
