package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stretchr/testify/require"
)

func TestLeg_DispatchesInOrder(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 3
	w.spec.Retry, w.spec.NoRetry = []job.Retry{"type=RateLimit attempts=10"}, []string{"Bad"}
	result, err := w.runLeg(w.legInput(50))
	require.NoError(t, err)
	require.EqualValues(t, 500, result.Totals.OK)
	require.Zero(t, result.Left)
	for i, x := range w.all {
		require.EqualValues(t, 10*i, x.in.Batch.First)
		require.Equal(t, dispatch.FirstSlice, x.in.Slice)
		require.Equal(t, w.spec.Grace, x.in.Grace)
		require.Equal(t, wire.CallLimits{Timeout: w.spec.CallTimeout, Attempts: 3, ItemAttempts: 1, Backoff: time.Second, Retry: w.spec.Retry, Final: "type=Bad"}, x.in.Calls)
	}
	require.Len(t, w.commits, 1)
	require.Len(t, w.commits[0].Entries, 50)
	w.requireSettled()
}

// What is in flight still ends, and nothing new is begun, once the history is long enough.
func TestLeg_StopsDispatchingWhenFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 10
	w.process = uneven
	w.historyLength = func() int {
		if w.runs == 1 && len(w.all) >= 25 {
			return dispatch.MaxEvents
		}
		return 0
	}
	atTheEnd := 0
	w.commit = func(wire.CommitInput) error {
		if len(w.commits) == 1 {
			atTheEnd = len(w.all)
		}
		return nil
	}
	result, err := w.runLeg(w.legInput(40))
	require.NoError(t, err)
	require.EqualValues(t, 400, result.Totals.OK)
	require.Equal(t, 25, atTheEnd)
	require.Len(t, w.commits[0].Entries, 25)
	require.Equal(t, 2, w.runs)
}

func TestLeg_OptionsOfBatches(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Expiry, w.spec.BatchTimeout = 7*time.Second, time.Hour
	_, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	o := w.all[0].options
	require.Equal(t, "stint.thumbs", o.TaskQueue)
	require.Equal(t, 7*time.Second, o.HeartbeatTimeout, "the batch's expiry (T16)")
	require.Equal(t, time.Hour, o.StartToCloseTimeout)
	require.Zero(t, o.ScheduleToCloseTimeout, "a batch may lie in the queue for as long as it takes (W11)")
	require.True(t, o.WaitForCancellation)
	require.EqualValues(t, 1, o.RetryPolicy.MaximumAttempts, "the leg counts attempts, not the server")

	w = setup(t, 0)
	_, err = w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Equal(t, execute.Unlimited, w.all[0].options.StartToCloseTimeout, "batches do not have their own timeout")
}

// None (-1) of a spec means no limit for Process, not a negative one.
func TestLeg_SwitchedOffLimits(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.CallTimeout, w.spec.Grace = job.NoLimit, time.Nanosecond
	_, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Zero(t, w.all[0].in.Calls.Timeout)
	require.Equal(t, time.Nanosecond, w.all[0].in.Grace)
}
