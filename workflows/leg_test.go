package workflows

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// uneven gives every batch a time of its own, from a tenth of the usual one to ten times that.
func uneven(x *execution) {
	h := fnv.New64a()
	fmt.Fprint(h, x.in.Batch.First)
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	x.took = x.w.took/10 + time.Duration(random.Int64N(int64(x.w.took)))
	if random.IntN(10) == 0 {
		x.took = 10 * x.w.took
	}
}

// The window is exact: never more in flight, over legs that overlap and places that are handed on,
// and it is used.
func TestWindow_NeverExceeded(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 2, 7, 64} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 8000)
			w.spec.Window, w.pageLimit = window, 150
			w.process = uneven
			report := w.mustRun()
			require.GreaterOrEqual(t, report.Legs, 5)
			require.Equal(t, window, w.most)
			for leg := 1; leg < report.Legs; leg++ {
				require.LessOrEqual(t, w.commands["signals to "+job.LegID("nightly", leg)], 8, "leg %d", leg)
			}
		})
	}
}

// The end of a leg is not a gap: its free places work for the next leg while its last batches run.
func TestWindow_NoGapBetweenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_000)
	w.spec.Window, w.pageLimit, w.took = 10, 150, time.Millisecond
	w.process = uneven
	report := w.mustRun()
	require.GreaterOrEqual(t, report.Legs, 7)
	var work time.Duration
	for _, x := range w.all {
		work += x.took
	}
	last := w.all[len(w.all)-1]
	took := last.at.Add(last.took).Sub(w.all[0].at)
	require.Less(t, took, work/time.Duration(w.spec.Window)*5/4, "all places work nearly all of the time")
}

// A batch that takes very long keeps its own place and no other: legs after it work on, whether it
// runs in the job itself or in a leg, and although later legs end before its own.
func TestWindow_SlowBatchHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]int64{"in the job": 30, "in a leg": 300, "at the end of a leg": 16*10 + 50*10 - 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 4000)
			w.spec.Window, w.pageLimit, w.took = 4, 50, time.Second
			w.process = func(x *execution) {
				if x.in.Batch.First == slow {
					x.took = 10 * time.Hour
				}
			}
			w.mustRun()
			last := w.all[len(w.all)-1]
			// 400 batches of a second with three or four places.
			require.Less(t, last.seconds(), 200.0, "when the last batch was dispatched")
		})
	}
}

// The same with two slow batches in two legs: as both are open, no other leg can be, but the places
// are not lost for those that follow.
func TestWindow_PlacesSurviveTwoSlowLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.spec.Window, w.pageLimit, w.took = 4, 50, time.Second
	w.process = func(x *execution) {
		if first := x.in.Batch.First; first == 200 || first == 700 {
			x.took = time.Hour
		}
	}
	w.mustRun()
	last := w.all[len(w.all)-1]
	require.Less(t, last.seconds(), time.Hour.Seconds()+200)
}

func TestLeg_DispatchesInOrder(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 3
	result, err := w.runLeg(w.legInput(50))
	require.NoError(t, err)
	require.EqualValues(t, 500, result.Totals.OK)
	require.Zero(t, result.Left)
	require.Equal(t, 3, result.Window)
	for i, x := range w.all {
		require.EqualValues(t, 10*i, x.in.Batch.First)
		require.Equal(t, firstSlice, x.in.Slice)
		require.Equal(t, w.spec.Grace, x.in.Grace)
		require.Equal(t, activities.CallLimits{Timeout: w.spec.CallTimeout, Attempts: 3, ItemAttempts: 1, Backoff: time.Second}, x.in.Calls)
	}
	require.Len(t, w.commits, 1)
	require.Len(t, w.commits[0].Entries, 50)
	w.requireSettled()
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
	require.Equal(t, unlimited, w.all[0].options.StartToCloseTimeout, "batches have no timeout of their own")
}

// None (-1) of a spec is no limit for Process, and not a negative one.
func TestLeg_SwitchedOffLimits(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.CallTimeout, w.spec.Grace = job.None, job.None
	_, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Zero(t, w.all[0].in.Calls.Timeout)
	require.Zero(t, w.all[0].in.Grace)
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
	require.Equal(t, firstSlice, w.all[10].in.Slice)
	require.EqualValues(t, 20, tiled(w.accepted(result.Manifests)))
	w.requireSummaries("batch 1 · items 0–9", "batch 1 · items 1–9 · rest", "batch 1 · item 9 · rest", "batch 2 · items 10–19")
}

// A batch that ended before its first item leaves no entry, and is no failure however often.
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
		{"of both kinds", []error{transient("a"), heartbeatTimeout(), transient("c")}, job.ErrorExhausted, 2, 1, []float64{1, 2}},
		{"batch timeout", []error{expired()}, "", 1, 0, []float64{1}},
		{"any error", []error{errors.New("panic")}, "", 1, 0, []float64{1}},
		{"orphans cost nothing", []error{orphaned(), orphaned(), orphaned(), orphaned(), orphaned()}, "", 0, 0, []float64{0, 0, 0, 0, 0}},
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
			require.NoError(t, err, "a leg tells of its error in its result")
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

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 6: 32, 7: 60, 900: 60} {
		require.Equal(t, want*time.Second, retryDelay(time.Second, tries))
	}
	require.Equal(t, time.Minute, retryDelay(time.Minute, 1))
}

// An error ends the leg: what is in flight is told, and what it had done is committed.
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
		x.onCancel = func() {} // goes on
	}
	result, err := w.runLeg(w.legInput(6))
	require.NoError(t, err)
	require.Equal(t, job.ErrorInput, result.Error.Type)
	require.EqualValues(t, 60, result.Left)
	require.Zero(t, result.Totals.Retries)
	require.Empty(t, w.commits)
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
		w.at(time.Second, func() { w.env.SignalWorkflow(job.SignalRestarted, nil) })
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
		w.at(time.Second, func() { w.env.SignalWorkflow(job.SignalRestarted, nil) })
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
		w.at(time.Second, func() { w.env.SignalWorkflow(job.SignalRestarted, nil) })
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
				w.env.SignalWorkflowSkippingWorkflowTask(job.SignalRestarted, nil)
				x.endNow(heartbeatTimeout())
			})
		}
		result, err := w.runLeg(w.legInput(1))
		require.NoError(t, err)
		require.Nil(t, result.Error)
		require.EqualValues(t, 10, result.Totals.OK)
	})
}

// A leg goes on in a new run when its history is long, with all that it knows.
func TestLeg_ContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.spec.Attempts = 7, 2
	events, dispatched := 0, 0
	w.historyLength = func() int { // three events a batch, as on a server, a hundred times over
		if w.runs != events {
			events, dispatched = w.runs, len(w.all)
		}
		return 300 * (len(w.all) - dispatched)
	}
	w.process = func(x *execution) {
		tries := len(w.tries(x.in.Batch.First))
		switch {
		case x.in.Batch.First%70 == 0 && tries == 1:
			x.fails(heartbeatTimeout())
		case x.in.Batch.First%50 == 0 && tries <= 2 && x.in.Batch.Count == 10:
			x.rests(5)
		}
	}
	in := w.legInput(100)
	in.Base, in.Previous = 5000, []string{"before"}
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Greater(t, w.runs, 5)
	require.EqualValues(t, 1000, result.Totals.OK)
	require.Zero(t, result.Left)
	require.Equal(t, 7, result.Window)
	require.LessOrEqual(t, w.most, 7)
	require.Len(t, w.commits, w.runs, "each run commits")
	w.manifests["before"] = activities.CommitInput{}
	require.EqualValues(t, 1000, tiled(w.accepted(result.Manifests)), "the last run's manifest leads to all")
	require.Equal(t, []string{"before"}, w.commits[0].Previous)
	for i := 1; i < len(w.commits); i++ {
		require.Equal(t, []string{fmt.Sprintf("m-%d", i)}, w.commits[i].Previous)
	}
	require.EqualValues(t, 15, result.Totals.Retries)
	w.requireSummaries("batch 5,001 · items 0–9", "batch 5,001 · items 0–9 · attempt 2", "batch 5,100 · items 990–999", "batch 5,006 · items 55–59 · rest")
}

// The number of attempts goes with a batch into the new run.
func TestLeg_ContinuesAsNewWithAttempts(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Attempts = 3
	w.historyLength = func() int { return legEvents * min(1, len(w.all)-(w.runs-1)) }
	w.process = func(x *execution) { x.fails(transient("network")) }
	result, err := w.runLeg(w.legInput(1))
	require.NoError(t, err)
	require.Equal(t, 3, w.runs)
	require.Len(t, w.all, 3)
	require.Equal(t, job.ErrorExhausted, result.Error.Type)
	require.Empty(t, w.commits)
}

// What is in flight still ends, and nothing new is begun, once the history is long enough.
func TestLeg_StopsDispatchingWhenFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 10
	w.process = uneven
	w.historyLength = func() int {
		if w.runs == 1 && len(w.all) >= 25 {
			return legEvents
		}
		return 0
	}
	atTheEnd := 0
	w.commit = func(activities.CommitInput) error {
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

// A stop while the leg drains in order to continue as new is no end of it.
func TestLeg_StopWhenFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 5, time.Second
	w.historyLength = func() int { return legEvents * min(1, len(w.all)/10) }
	w.at(1500*time.Millisecond, func() {
		w.env.SignalWorkflow(signalHalt, job.StopNotice{Deadline: w.env.Now().Add(time.Minute)})
	})
	result, err := w.runLeg(w.legInput(40))
	require.NoError(t, err)
	require.Equal(t, 1, w.runs)
	require.EqualValues(t, 50, result.Totals.OK)
	require.EqualValues(t, 350, result.Left)
}

// A stop that comes while the leg commits, before it continues as new, is still in force (S17).
func TestLeg_StopWhileCommittingWhenFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took, w.commitTook = 5, time.Second, 10*time.Second
	w.historyLength = func() int { return legEvents * min(1, len(w.all)/10) }
	w.commit = func(activities.CommitInput) error {
		w.later(5*time.Second, func() {
			w.env.SignalWorkflow(signalHalt, job.StopNotice{Deadline: w.env.Now().Add(time.Minute)})
		})
		return nil
	}
	result, err := w.runLeg(w.legInput(40))
	require.NoError(t, err)
	require.Equal(t, 1, w.runs)
	require.EqualValues(t, 100, result.Totals.OK)
	require.EqualValues(t, 300, result.Left)
}

// Places that were granted during a run, and the next leg's name, are there in the new run.
func TestLeg_ContinuesAsNewWithPlaces(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 3, time.Second
	w.historyLength = func() int {
		if w.runs == 1 {
			return legEvents * min(1, len(w.all)/20)
		}
		return 0
	}
	granted := 0
	w.onEnv = func() {
		w.env.OnSignalExternalWorkflow(mock.Anything, job.LegID("nightly", 2), "", signalGrant, mock.Anything).
			Return(func(_, _, _, _ string, arg any) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				granted += arg.(int)
				return nil
			})
	}
	w.onEnv()
	w.at(1500*time.Millisecond, func() { w.env.SignalWorkflow(signalGrant, 4) })
	w.at(1600*time.Millisecond, func() { w.env.SignalWorkflow(signalNext, job.LegID("nightly", 2)) })
	// These arrive while the last batches of the first run are under way, or its commit.
	w.commitTook = 10 * time.Second
	w.commit = func(activities.CommitInput) error {
		if len(w.commits) == 1 {
			w.later(5*time.Second, func() { w.env.SignalWorkflow(signalGrant, 2) })
		}
		return nil
	}
	in := w.legInput(60)
	in.Next = job.LegID("nightly", 1)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 2, w.runs)
	require.EqualValues(t, 600, result.Totals.OK)
	require.Equal(t, 9, w.most, "3 at first, 4 granted in time, 2 during the commit")
	require.Equal(t, 9, granted+result.Window, "no place is lost")
	require.Positive(t, granted, "the next leg's name is known to the second run")
	require.LessOrEqual(t, w.commands["signal grant"], handings)
}

// Places that nobody took stay.
func TestLeg_HandingFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 4, time.Second
	w.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(errors.New("it has ended"))
	w.process = func(x *execution) { x.took *= time.Duration(x.number) }
	in := w.legInput(8)
	in.Next = job.LegID("nightly", 2)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 4, result.Window)
	require.LessOrEqual(t, w.commands["signal grant"], handings)
}

// The next leg may end before this one: the places are then for the one after it, as soon as that
// is there.
func TestLeg_HandsOnToTheOneAfterTheNext(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 4
	w.env.OnSignalExternalWorkflow(mock.Anything, job.LegID("nightly", 2), mock.Anything, mock.Anything, mock.Anything).
		Return(errors.New("it has ended"))
	granted := 0
	w.env.OnSignalExternalWorkflow(mock.Anything, job.LegID("nightly", 3), mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			granted += arg.(int)
			return nil
		}).Maybe()
	w.process = func(x *execution) {
		x.took = time.Duration(x.number) * time.Second
		if x.number == 4 {
			x.took = time.Hour
		}
	}
	w.at(10*time.Second, func() { w.env.SignalWorkflow(signalNext, job.LegID("nightly", 3)) })
	w.at(time.Minute, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, 3, granted)
	})
	in := w.legInput(4)
	in.Next = job.LegID("nightly", 2)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 1, result.Window)
}

// While a repetition waits the leg keeps its places: it will need one.
func TestLeg_HandsNothingOnWhileARepetitionWaits(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 4
	w.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			require.Len(t, w.tries(0), 2, "not before the failed batch runs again")
			return nil
		}).Maybe()
	w.process = func(x *execution) {
		if x.in.Batch.First == 0 && len(w.tries(0)) == 1 {
			x.fails(transient("once"))
		}
		if x.in.Batch.First > 0 {
			x.took = time.Minute
		}
	}
	in := w.legInput(4)
	in.Next = job.LegID("nightly", 2)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.EqualValues(t, 40, result.Totals.OK)
}

// G8: what a page costs. Anything more would show here.
func TestLeg_Commands(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.process = uneven
	result, err := w.runLeg(w.legInput(pageBatches))
	require.NoError(t, err)
	require.EqualValues(t, 10*pageBatches, result.Totals.OK)
	require.Equal(t, map[string]int{"Process": pageBatches, "Commit": 1}, w.commands)
}

func TestLeg_BadPage(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	_, err := w.runLeg(LegInput{Spec: w.spec, Number: 3, Page: []byte{0xff}, Window: 1})
	require.ErrorContains(t, err, "reading the page of leg 3")
}

func TestLeg_EmptyPage(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	result, err := w.runLeg(LegInput{Spec: w.spec, Number: 3, Previous: []string{"before"}, Window: 5})
	require.NoError(t, err)
	require.Equal(t, LegResult{Manifests: []string{"before"}, Window: 5}, result)
	require.Empty(t, w.commits, "nothing is committed where nothing was done")
}

func TestLeg_CommitFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.commit = func(activities.CommitInput) error { return permanentError(job.ErrorOutput) }
	in := w.legInput(5)
	in.Previous = []string{"before"}
	in.Sofar.Totals.OK = 1000
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, job.ErrorOutput, result.Error.Type)
	require.Equal(t, []string{"before"}, result.Manifests, "what could not be committed does not count")
	require.EqualValues(t, 1000, result.Totals.OK)
	require.EqualValues(t, 50, result.Left)
}

func TestLeg_CommitIsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.commit = func(activities.CommitInput) error {
		switch len(w.commits) {
		case 1:
			return transient("network")
		case 2:
			return orphaned()
		}
		return nil
	}
	result, err := w.runLeg(w.legInput(5))
	require.NoError(t, err)
	require.Nil(t, result.Error)
	require.Equal(t, []string{"m-3"}, result.Manifests)
	require.EqualValues(t, 50, result.Totals.OK)
}

func TestLeg_Progress(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 4, time.Second
	w.process = func(x *execution) {
		if x.in.Batch.First == 0 && len(w.tries(0)) == 1 {
			x.fails(transient("the network is down"))
		}
	}
	w.at(1500*time.Millisecond, func() {
		value, err := w.env.QueryWorkflow(job.QueryProgress)
		require.NoError(t, err)
		var p job.Progress
		require.NoError(t, value.Get(&p))
		require.EqualValues(t, 30, p.OK)
		require.Equal(t, 4, p.InFlight)
		require.Equal(t, 13, p.Waiting, "the one that waits for its repetition included")
		require.Equal(t, "batch 1 (items 0–9): the network is down", p.LastFailure)
		require.EqualValues(t, 1, p.Retries)
	})
	_, err := w.runLeg(w.legInput(20))
	require.NoError(t, err)
}

// The first failed item of the leg is told, whichever batch ends first.
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

// The leg's own context ends with its workflow: cancelled by somebody, it must not take that for
// failures of its batches.
func TestLeg_Cancelled(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 2, time.Second
	w.at(1500*time.Millisecond, w.env.CancelWorkflow)
	result, err := w.runLeg(w.legInput(20))
	if err == nil { // whatever it is taken for, no item is lost, and none is blamed
		require.EqualValues(t, 200, result.Totals.OK+result.Left)
		require.EqualValues(t, result.Totals.OK, total(w.accepted(result.Manifests)))
		if result.Error != nil {
			require.NotEqual(t, job.ErrorExhausted, result.Error.Type)
		}
		return
	}
	require.True(t, temporal.IsCanceledError(err), "%v", err)
}

func total(ranges []job.Batch) int64 {
	var n int64
	for _, b := range ranges {
		n += b.Count
	}
	return n
}
