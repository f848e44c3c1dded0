package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

func TestFail_Process(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.ErrorInvalid, job.ErrorInput, job.ErrorChanged, job.ErrorOutput, job.ErrorFenced, job.ErrorBooks, job.ErrorCorrupt} {
		for _, items := range []int64{160, 400} {
			t.Run(fmt.Sprint(kind, " ", items), func(t *testing.T) {
				t.Parallel()
				w := setup(t, items)
				w.process = func(x *execution) {
					if x.in.Batch.First == items-50 {
						x.fails(permanentError(kind))
					}
				}
				_, err := w.run()
				report := w.failedReport(err, kind)
				require.Equal(t, "this cannot be mended: "+kind, report.Error.Message)
				require.Len(t, w.tries(items-50), 1)
				w.requireAccepted(report)
				require.Empty(t, w.finishes)
			})
		}
	}
}

// A fault that comes with every attempt, and is not an item's, fails the job, which can be resumed.
func TestFail_AttemptsExhausted(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Attempts = 2
	w.process = func(x *execution) {
		if x.in.Batch.First == 500 {
			x.fails(transient("no network"))
		}
	}
	_, err := w.run()
	report := w.failedReport(err, job.ErrorExhausted)
	require.Contains(t, report.Error.Message, "items 500–509 was tried 2 times")
	require.Contains(t, report.Error.Message, "no network")
	w.requireAccepted(report)

	w.resume = report.Manifests
	w.process = nil
	require.EqualValues(t, 1000, w.mustRun().OK)
}

// A rest is dispatched again, before what is new, with a longer slice, and costs no attempt.
func TestLeg_Rests(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.spec.Attempts = 1, 1
	w.process = func(x *execution) {
		if x.in.Batch.First < 9 {
			x.rests(1)
		}
	}
	result, err := w.runLeg(w.legInput(2))
	require.NoError(t, err)
	require.EqualValues(t, 20, result.Totals.OK)
	require.EqualValues(t, 11, result.Totals.Batches)
	require.Zero(t, result.Totals.Retries)
	require.Len(t, w.all, 11)
	slices := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 60} // minutes
	for i, x := range w.all[:10] {
		require.Equal(t, batch(int64(i), int64(10-i)), x.in.Batch, "old goes before new")
		require.Equal(t, slices[i]*time.Minute, x.in.Slice)
	}
	require.Equal(t, batch(10, 10), w.all[10].in.Batch)
	require.Equal(t, dispatch.FirstSlice, w.all[10].in.Slice)
	require.EqualValues(t, 20, tiled(w.accepted(result.Manifests)))
	w.requireSummaries("batch 1 · items 0–9", "batch 1 · items 1–9 · rest", "batch 1 · item 9 · rest", "batch 2 · items 10–19")
}

// A batch that ended before its first item leaves no entry, and is not a failure however often.
func TestLeg_EndsBeforeTheFirstItem(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.spec.Attempts = 2, 1
	w.process = func(x *execution) {
		if len(w.tries(x.in.Batch.First)) < 20 {
			x.rests(0)
		}
	}
	result, err := w.runLeg(w.legInput(3))
	require.NoError(t, err)
	require.EqualValues(t, 30, result.Totals.OK)
	require.EqualValues(t, 3, result.Totals.Batches)
	require.Zero(t, result.Totals.Retries)
	require.Len(t, w.all, 60)
	require.Len(t, w.commits[0].Entries, 3)
	require.Zero(t, w.commands["timer"], "rests wait for nothing")
}

// The failure classes of the design, one execution after the other, with three attempts.
func TestLeg_FailureClasses(t *testing.T) {
	t.Parallel()
	expired := func() error { return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil) }
	tests := []struct {
		name     string
		errors   []error // of the executions of the first batch, until one succeeds
		kind     string  // of the leg's error
		retries  int64
		expiries int64
		waits    []float64 // in seconds, before each repetition
	}{
		{"heartbeat timeout", []error{heartbeatTimeout()}, "", 1, 1, []float64{1}},
		{"heartbeat timeout as a cause", []error{temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, heartbeatTimeout())}, "", 1, 1, []float64{1}},
		{"two of them", []error{heartbeatTimeout(), heartbeatTimeout()}, "", 2, 2, []float64{1, 2}},
		{"three of them", []error{heartbeatTimeout(), heartbeatTimeout(), heartbeatTimeout()}, "", 3, 3, []float64{1, 2, 0}},
		{"transient", []error{transient("network")}, "", 1, 0, []float64{1}},
		{"transient, too often", []error{transient("a"), transient("b"), transient("c")}, job.ErrorExhausted, 2, 0, []float64{1, 2}},
		{"of both kinds", []error{transient("a"), heartbeatTimeout(), transient("c")}, "", 3, 1, []float64{1, 2, 4}},
		{"batch timeout", []error{expired()}, "", 1, 0, []float64{1}},
		{"any error", []error{errors.New("panic")}, "", 1, 0, []float64{1}},
		{"orphans cost nothing", []error{orphaned(), orphaned()}, "", 0, 0, []float64{0, 0}},
		{"orphans between", []error{transient("a"), orphaned(), transient("b"), orphaned()}, "", 2, 0, []float64{1, 0, 2, 0}},
		{"spec invalid", []error{permanentError(job.ErrorInvalid)}, job.ErrorInvalid, 0, 0, nil},
		{"input unreadable", []error{permanentError(job.ErrorInput)}, job.ErrorInput, 0, 0, nil},
		{"input changed", []error{permanentError(job.ErrorChanged)}, job.ErrorChanged, 0, 0, nil},
		{"output unwritable", []error{permanentError(job.ErrorOutput)}, job.ErrorOutput, 0, 0, nil},
		{"overtaken", []error{permanentError(job.ErrorFenced)}, job.ErrorFenced, 0, 0, nil},
		{"part corrupt", []error{permanentError(job.ErrorCorrupt)}, job.ErrorCorrupt, 0, 0, nil},
		{"permanent after a repetition", []error{transient("a"), permanentError(job.ErrorInput)}, job.ErrorInput, 1, 0, []float64{1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 0)
			w.spec.Window = 1
			w.process = func(x *execution) {
				if tries := len(w.tries(0)); x.in.Batch.First == 0 && tries <= len(test.errors) {
					x.fails(test.errors[tries-1])
				}
			}
			in := w.legInput(2)
			in.Previous = []string{"before"}
			result, err := w.runLeg(in)
			require.NoError(t, err, "a leg reports its error in its result")
			require.Equal(t, test.retries, result.Totals.Retries)
			require.Equal(t, test.expiries, result.Totals.Expiries)
			tries := w.tries(0)
			for i, wait := range test.waits {
				took := tries[i+1].at.Sub(tries[i].at.Add(w.took)).Seconds()
				require.InDelta(t, wait, took, 0.1, "before repetition %d", i+1)
			}
			if test.kind == "" {
				require.Nil(t, result.Error)
				require.Len(t, tries, len(test.errors)+1)
				require.EqualValues(t, 20, result.Totals.OK)
				return
			}
			require.Len(t, tries, len(test.errors))
			require.Equal(t, test.kind, result.Error.Type)
			require.NotEmpty(t, result.Error.Message)
			require.EqualValues(t, 20, result.Left+result.Totals.OK)
			require.GreaterOrEqual(t, result.Left, int64(10))
		})
	}
}

// While a repetition waits, its place works for other batches.
func TestLeg_BackoffHoldsNoPlace(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.spec.Backoff = 1, time.Minute
	w.process = func(x *execution) {
		if x.in.Batch.First == 0 && len(w.tries(0)) == 1 {
			x.fails(transient("once"))
		}
	}
	result, err := w.runLeg(w.legInput(5))
	require.NoError(t, err)
	require.EqualValues(t, 50, result.Totals.OK)
	for _, x := range w.all[1:5] {
		require.Less(t, x.seconds(), 1.0)
	}
	require.InDelta(t, 60, w.all[5].seconds(), 1)
	w.requireSummaries("batch 1 · items 0–9 · attempt 2")
}

// Getting on forgives: a batch whose rest fails has all its attempts again.
func TestLeg_ProgressForgivesAttempts(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Attempts = 2
	w.process = func(x *execution) {
		switch x.number % 2 {
		case 1:
			x.fails(heartbeatTimeout())
		default:
			if x.in.Batch.Count > 1 {
				x.rests(1)
			}
		}
	}
	result, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.EqualValues(t, 10, result.Totals.OK)
	require.EqualValues(t, 10, result.Totals.Retries)

	// But an end before the first item does not.
	w = setup(t, 0)
	w.spec.Attempts = 2
	w.process = func(x *execution) {
		if x.number == 2 {
			x.rests(0)
			return
		}
		x.fails(transient("network"))
	}
	result, err = w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Equal(t, job.ErrorExhausted, result.Error.Type)
	require.Len(t, w.all, 3)
}

// An error ends the leg: batches in flight get the notice, and their outcomes so far are committed.
func TestLeg_ErrorKeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 4
	w.process = func(x *execution) {
		x.took = time.Second
		if x.in.Batch.First == 60 {
			x.took = 500 * time.Millisecond
			x.fails(permanentError(job.ErrorChanged))
		}
		x.onCancel = func() { x.endAfter(time.Millisecond, x.done(3), nil) }
	}
	in := w.legInput(20)
	in.Previous = []string{"before"}
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, job.ErrorChanged, result.Error.Type)
	require.Contains(t, result.Error.Message, "cannot be mended")
	require.EqualValues(t, 4*10+3*3, result.Totals.OK, "a first round, and the beginnings of three")
	require.EqualValues(t, 200-49, result.Left)
	require.Equal(t, []string{"before"}, w.commits[0].Previous)
	require.Equal(t, []string{"m-1"}, result.Manifests)
	require.Len(t, w.all, 8, "nothing more is dispatched")
}

// S3: the first error wins; while stopping, whatever a batch ends with is a rest.
func TestLeg_FirstErrorWins(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.process = func(x *execution) {
		x.took = time.Duration(x.number) * time.Second
		x.fails(permanentError([]string{job.ErrorOutput, job.ErrorInput, job.ErrorChanged}[x.number%3]))
		x.onCancel = func() {} // continues
	}
	result, err := w.runLeg(w.legInput(6))
	require.NoError(t, err)
	require.Equal(t, job.ErrorInput, result.Error.Type)
	require.EqualValues(t, 60, result.Left)
	require.Zero(t, result.Totals.Retries)
	require.Empty(t, w.commits)
}

// The first failed item of the leg is reported, whichever batch ends first.
func TestLeg_FirstError(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 1
	w.process = func(x *execution) {
		if x.in.Batch.First >= 20 {
			x.result.FirstError = &job.FirstError{Item: x.in.Batch.First, Kind: job.KindError}
		}
	}
	result, err := w.runLeg(w.legInput(5))
	require.NoError(t, err)
	require.EqualValues(t, 20, result.FirstError.Item)
}

// S16: with on-error stop the first failed item ends the job with its error.
func TestOnError_Stop(t *testing.T) {
	t.Parallel()
	for _, leg := range []int64{0, 1} {
		t.Run(fmt.Sprint("leg ", leg), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 5000)
			w.spec.OnError, w.spec.Window = job.OnErrorStop, 5
			w.took = time.Second
			bad := 30 + leg*1000
			w.process = func(x *execution) {
				require.Equal(t, job.OnErrorStop, x.in.OnError)
				if x.in.Batch.First == bad {
					x.failing(1)
				}
			}
			_, err := w.run()
			report := w.failedReport(err, "ValueError")
			require.Equal(t, fmt.Sprintf("item %s failed (error): no number", text.Thousands(bad)), report.Error.Message)
			require.EqualValues(t, 1, report.Failed)
			require.Empty(t, report.LaterErrors)
			w.requireAccepted(report)
			w.resume = report.Manifests
			w.process = nil
			require.EqualValues(t, 1, w.mustRun().Failed, "what was recorded stays")
		})
	}
}

// S5 with S16: an item's error of a clean-stop type stops the job and does not make it fail.
func TestOnError_StopsCleanly(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.spec.OnError, w.spec.CleanStop, w.spec.Window = job.OnErrorStop, []string{"ValueError"}, 5
	w.process = func(x *execution) {
		if x.in.Batch.First == 2000 {
			x.failing(1)
		}
	}
	require.Equal(t, "item 2,000 failed (error): no number", w.stopped().Reason)
}
