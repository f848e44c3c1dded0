package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

func outage() error { return temporal.NewApplicationError("503 Slow Down", job.ErrorOutage) }

// A fault of the store or of an input's host costs a batch no attempt, and is waited out.
func TestOutage_CostsNoAttempt(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Attempts = 1
	w.process = func(x *execution) {
		if len(w.tries(0)) <= 8 {
			x.fails(outage())
		}
	}
	result, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Nil(t, result.Outage, "it is over")
	require.EqualValues(t, 10, result.Totals.OK)
	tries := w.tries(0)
	require.Len(t, tries, 9)
	for i, wait := range []float64{1, 2, 4, 8, 16, 32, 60, 60} {
		took := tries[i+1].at.Sub(tries[i].at.Add(w.took)).Seconds()
		require.InDelta(t, wait, took, 0.1, "before repetition %d", i+1)
	}
}

// One batch finds out whether an outage is over, however large the window is.
func TestOutage_IsProbedByOneBatch(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 20
	var began time.Time
	during := 0
	w.process = func(x *execution) {
		if began.IsZero() {
			began = x.at
		}
		if x.at.Sub(began) < 10*time.Minute {
			during++
			x.fails(outage())
		}
	}
	result, err := w.runLeg(w.legInput(100))
	require.NoError(t, err)
	require.EqualValues(t, 1000, result.Totals.OK)
	require.LessOrEqual(t, during, 20+6+10, "the window, and then one at a time")
	require.EqualValues(t, 1000, tiled(w.accepted(result.Manifests)))
}

// The batches of one input do not wait for the host of another one.
func TestOutage_OfOneInputHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 2
	var last time.Time
	w.process = func(x *execution) {
		if x.in.Batch.First < 50 && len(w.tries(x.in.Batch.First)) < 10 {
			x.fails(outage())
			return
		}
		if x.in.Batch.First >= 50 {
			last = x.at
		}
	}
	result, err := w.runLeg(w.legInput(50))
	require.NoError(t, err)
	require.EqualValues(t, 500, result.Totals.OK)
	require.Less(t, last.Sub(w.all[0].at), 10*time.Second)
}

// A job shows what it waits for, and gives up after about a day of trying. Then it can be resumed.
func TestOutage_ShowsAndHasALimit(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.process = func(x *execution) {
		if x.in.Batch.First >= 50 {
			x.fails(outage())
		}
	}
	var shown *job.Outage
	w.at(time.Hour, func() { shown = w.query().Outage })
	_, err := w.run()
	report := w.failedReport(err, job.ErrorOutage)
	require.Contains(t, report.Error.Message, "503 Slow Down")
	require.Contains(t, report.Error.Message, "resume")
	require.NotNil(t, shown)
	require.InDelta(t, 60, shown.Tries, 10)
	require.Contains(t, shown.Message, "503 Slow Down")
	require.InDelta(t, 24, report.Ended.Sub(report.Started).Hours(), 1)
	w.requireAccepted(report)

	w.resume = report.Manifests
	w.process = nil
	require.EqualValues(t, 100, w.mustRun().OK)
}
