package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// stopped runs a job that ends stopped.
func (w *world) stopped() job.Report {
	w.t.Helper()
	report, err := w.run()
	require.NoError(w.t, err)
	require.Equal(w.t, job.Stopped, report.State)
	if len(report.Stragglers) == 0 {
		require.Nil(w.t, report.Error)
	}
	require.Nil(w.t, report.Output)
	require.NotNil(w.t, report.Ended)
	require.Empty(w.t, w.finishes, "nothing is published")
	w.requireAccepted(report)
	return report
}

// took is how long a job ran, in seconds of its own time.
func took(r job.Report) float64 { return r.Ended.Sub(r.Started).Seconds() }

// S8: a stop of a job that never started work succeeds.
func TestStop_BeforeAnythingIsPlanned(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.planTook = time.Hour
	w.at(0, func() { w.stop(job.Stop{Reason: "changed my mind"}) })
	report := w.stopped()
	require.Less(t, took(report), 1.0)
	require.Equal(t, "changed my mind", report.Reason)
	require.Empty(t, w.all)
	require.Empty(t, report.Manifests)
}

func TestStop_WhilePlanning(t *testing.T) {
	t.Parallel()
	for _, page := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("page ", page), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100_000)
			w.pageLimit = 20
			w.plan = func(wire.PlanInput) error {
				w.planTook = 0
				if len(w.plans) == page {
					w.planTook = time.Hour
				}
				return nil
			}
			w.at(time.Minute, func() { w.stop(job.Stop{}) })
			report := w.stopped()
			require.InDelta(t, 60, took(report), 1)
			require.Len(t, w.plans, page)
			want := []int64{0, wire.FirstPage * 10, wire.FirstPage*10 + 200}[page-1]
			require.Equal(t, want, report.OK, "what had been planned was done")
			require.Equal(t, want, report.Planned)
			require.False(t, report.PlanDone)
		})
	}
}

// S2, S11: running batches get the notice, finish the call in hand and return their rests; what they have
// done is kept, nothing new is begun.
func TestStop_WhileRunning(t *testing.T) {
	t.Parallel()
	for _, legs := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(legs, " legs"), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100_000)
			w.spec.Window, w.pageLimit, w.took = 5, 40, time.Second
			w.process = func(x *execution) {
				if x.number%3 == 0 {
					x.took = 5 * time.Second
				}
				x.onCancel = func() { x.endAfter(3*time.Second, x.done(4), nil) }
			}
			at := []time.Duration{4, 15, 60}[legs]*time.Second + 500*time.Millisecond
			dispatched := 0
			w.at(at, func() {
				dispatched = len(w.all)
				require.Equal(t, 5, w.flying)
				w.stop(job.Stop{Reason: "lunch"})
			})
			report := w.stopped()
			require.InDelta(t, at.Seconds()+3, took(report), 0.1, "it ends with the last batch (S10)")
			require.Len(t, w.all, dispatched, "nothing new is dispatched")
			require.Zero(t, w.flying)
			rests := 0
			for _, x := range w.all {
				if x.cancelled {
					rests++
				}
			}
			require.Equal(t, 5, rests, "every one of them has got the notice")
			require.EqualValues(t, (dispatched-5)*10+5*4, report.OK)
			require.Equal(t, "lunch", report.Reason)
			require.Empty(t, report.Stragglers)
		})
	}
}

// S2: batches that have not been started yet are taken back by the server at once.
func TestStop_TakesBackWhatIsQueued(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.process = func(x *execution) {
		x.took = 0 // lies in the queue
		x.onCancel = func() { x.endAfter(time.Millisecond, wire.ProcessResult{}, temporal.NewCanceledError()) }
	}
	w.at(time.Hour, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.InDelta(t, 3600, took(report), 0.1)
	require.Zero(t, report.OK)
	require.Zero(t, report.Retries)
	require.Empty(t, report.Stragglers)
	require.Empty(t, w.commits)
}

// S6: what a batch finds in the memo: when the grace ends, counted from the stop, and why.
func TestStop_Notice(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spec  time.Duration
		stop  string
		grace time.Duration
	}{
		{"default", 0, "", 120 * time.Second},
		{"of the spec", 7 * time.Second, "", 7 * time.Second},
		{"of the stop", 7 * time.Second, "1h", time.Hour},
		{"none in the spec", time.Nanosecond, "", time.Nanosecond},
		{"none in the stop", 7 * time.Second, "0", 0},
		{"none in the stop, with a unit", 7 * time.Second, "0s", 0},
		{"no duration", 7 * time.Second, "soon", 7 * time.Second},
		{"negative", 7 * time.Second, "-5s", 7 * time.Second},
	}
	for _, test := range tests {
		for _, where := range []string{"job", "leg"} {
			t.Run(test.name+" in the "+where, func(t *testing.T) {
				t.Parallel()
				w := setup(t, 10_000)
				w.spec.Window = 30
				if test.spec != 0 {
					w.spec.Grace = test.spec
				}
				at := 10 * time.Second
				w.process = func(x *execution) {
					if where == "job" || x.number > wire.FirstPage {
						x.took = time.Hour
					}
				}
				var deadline time.Time
				w.at(at, func() {
					deadline = w.env.Now().Add(test.grace)
					w.stop(job.Stop{Reason: "lunch", Grace: test.stop})
				})
				w.stopped()
				notice := w.memo[wire.MemoStop].(wire.StopNotice)
				require.Equal(t, "lunch", notice.Reason)
				require.WithinDuration(t, deadline, notice.Deadline, 0)
			})
		}
	}
}

// The server's list shows that a job is stopping after listedAfter. If the job has ended by then, the list shows only
// its end.
func TestStop_IsListed(t *testing.T) {
	t.Parallel()
	state := func(w *world) job.State {
		w.mu.Lock()
		defer w.mu.Unlock()
		state, _ := w.memo[wire.MemoState].(job.State)
		return state
	}
	for _, settle := range []time.Duration{10 * time.Second, coordinate.ListedAfter / 2} {
		w := setup(t, 1000)
		w.took, w.settle = time.Hour, settle
		w.at(time.Second, func() { w.stop(job.Stop{}) })
		w.at(time.Second+coordinate.ListedAfter/4, func() { require.Empty(t, state(w)) })
		w.at(time.Second+2*coordinate.ListedAfter, func() {
			require.Equal(t, job.Stopping, state(w))
		})
		w.stopped()
		require.Equal(t, job.Stopped, state(w))
		if settle < coordinate.ListedAfter {
			require.Equal(t, 3, w.commands["memo"], "the notices of two legs, and the end")
		}
	}
}

// S8: stops can be repeated, and change nothing more.
func TestStop_Twice(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took, w.settle = time.Hour, 10*time.Second
	w.at(1*time.Second, func() { w.stop(job.Stop{Reason: "first", Grace: "1m"}) })
	w.at(2*time.Second, func() { w.stop(job.Stop{Reason: "second", Grace: "0", Error: &job.Error{Type: "X", Message: "x"}}) })
	w.at(3*time.Second, func() { w.stop(job.Stop{Reason: "third"}) })
	report := w.stopped()
	require.Equal(t, "first", report.Reason, "the first one counts")
	require.InDelta(t, 11, took(report), 0.1)
	require.Len(t, w.finishes, 0)
	require.Equal(t, time.Minute-time.Second, w.memo[wire.MemoStop].(wire.StopNotice).Deadline.Sub(report.Started)-2*time.Second)
}

// Two stops in one workflow task.
func TestStop_TwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() {
		w.env.SignalWorkflowSkippingWorkflowTask(wire.SignalStop, job.Stop{Reason: "first"})
		w.stop(job.Stop{Reason: "second"})
	})
	require.Equal(t, "first", w.stopped().Reason)
}

// S1: every field is optional, and the argument may be missing.
func TestStop_WithoutArgument(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() { w.env.SignalWorkflow(wire.SignalStop, nil) })
	require.Empty(t, w.stopped().Reason)
}

// S1: a stop is a signal that any Temporal client can send: these are its name and its fields.
func TestStop_ByAnyClient(t *testing.T) {
	t.Parallel()
	for _, failing := range []bool{false, true} {
		w := setup(t, 100)
		w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
		argument := map[string]any{"reason": "maintenance", "grace": "5s", "ignore_stragglers": true}
		if failing {
			argument["error"] = map[string]any{"type": "DiskFull", "message": "no space left"}
		}
		w.at(time.Minute, func() { w.env.SignalWorkflow("stop", argument) })
		var report job.Report
		if failing {
			_, err := w.run()
			report = w.failedReport(err, "DiskFull")
			require.Equal(t, "no space left", report.Error.Message)
		} else {
			report = w.stopped()
			require.Nil(t, report.Error, "stragglers are ignored")
		}
		require.Equal(t, "maintenance", report.Reason)
		require.Equal(t, 65.0, report.StopDeadline.Sub(report.Started).Seconds())
		require.Len(t, report.Stragglers, 10)
	}
}

// S1: a stop may carry an error, which is then the job's.
func TestStop_WithError(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() {
		w.stop(job.Stop{Reason: "disk", Error: &job.Error{Type: "DiskFull", Message: "no space left"}})
	})
	_, err := w.run()
	report := w.failedReport(err, "DiskFull")
	require.Equal(t, &job.Error{Type: "DiskFull", Message: "no space left"}, report.Error)
	require.Equal(t, "disk", report.Reason)
	w.requireAccepted(report)
}

// A stop's error need not have a type.
func TestStop_WithErrorWithoutType(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() { w.stop(job.Stop{Error: &job.Error{Message: "no space left"}}) })
	_, err := w.run()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, "no space left", app.Message())
	require.True(t, app.HasDetails())
}

// S4: a plain stop first: later errors do not fail the job.
func TestStop_PlainStopFirst(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{100, 2000} {
		w := setup(t, items)
		w.pageLimit = 20
		w.process = func(x *execution) {
			x.took = time.Hour
			x.onCancel = func() { x.endAfter(time.Second, wire.ProcessResult{}, permanentError(job.ErrorChanged)) }
		}
		w.at(time.Second, func() { w.stop(job.Stop{Reason: "lunch"}) })
		report := w.stopped()
		require.Equal(t, "lunch", report.Reason)
	}
}

// S3: the first error wins; a stop that comes after it does not make the job one that was stopped.
func TestStop_ErrorFirst(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"job", "leg"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 2000)
			bad := map[string]int64{"job": 20, "leg": 500}[where]
			w.process = func(x *execution) {
				if x.in.Batch.First == bad {
					x.fails(permanentError(job.ErrorChanged))
				} else if x.in.Batch.First > bad-10 {
					x.took = time.Hour
				}
				x.onCancel = func() {
					if x.number%2 == 0 {
						x.endAfter(time.Minute, x.done(1), nil)
						return
					}
					x.endAfter(time.Minute+time.Second, wire.ProcessResult{}, permanentError(job.ErrorOutput))
				}
			}
			w.at(30*time.Second, func() { w.stop(job.Stop{Reason: "too late"}) })
			_, err := w.run()
			report := w.failedReport(err, job.ErrorChanged)
			w.requireAccepted(report)
			require.Positive(t, report.OK)
		})
	}
}

// The error of one leg stops the other legs, too.
func TestFail_StopsEveryLeg(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.spec.Window, w.pageLimit, w.took = 10, 50, time.Second
	w.process = func(x *execution) {
		switch first := x.in.Batch.First; {
		case first == 300: // keeps the first leg open
			x.took = time.Hour
		case first == 800:
			x.fails(permanentError(job.ErrorInput))
		}
	}
	_, err := w.run()
	report := w.failedReport(err, job.ErrorInput)
	require.Less(t, took(report), 60.0)
	require.True(t, w.tries(300)[0].cancelled)
	w.requireAccepted(report)
	require.Zero(t, w.flying)
}

// Cancelling the workflow is a stop, and no work is lost by it.
func TestStop_ByCancellation(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{100, 5000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) {
			t.Parallel()
			w := setup(t, items)
			w.spec.Window, w.pageLimit, w.took = 3, 50, time.Second
			w.process = func(x *execution) { x.onCancel = func() { x.endAfter(time.Second, x.done(5), nil) } }
			w.at(2500*time.Millisecond, w.env.CancelWorkflow)
			report := w.stopped()
			require.Equal(t, "the workflow was cancelled", report.Reason)
			require.EqualValues(t, 2*3*10+3*5, report.OK, "commits survive it")
			require.InDelta(t, 3.5, took(report), 0.1)
		})
	}
}

func TestStop_ByCancellationWhilePlanning(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.planTook = time.Hour
	w.at(time.Second, w.env.CancelWorkflow)
	report := w.stopped()
	require.InDelta(t, 1, took(report), 0.1)
}

// A repetition that waits is not waited for.
func TestStop_WhileARepetitionWaits(t *testing.T) {
	t.Parallel()
	w := setup(t, 30)
	w.spec.Backoff = time.Minute
	w.process = func(x *execution) {
		if x.in.Batch.First == 10 {
			x.fails(transient("network"))
		}
	}
	w.at(5*time.Second, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.InDelta(t, 5, took(report), 0.1)
	require.EqualValues(t, 20, report.OK)
}

// A stop that finds everything done changes nothing.
func TestStop_WhenAllIsDone(t *testing.T) {
	t.Parallel()
	w := setup(t, 50)
	w.finishTook = 10 * time.Second
	w.at(5*time.Second, func() { w.stop(job.Stop{Reason: "too late"}) })
	report := w.mustRun()
	require.Nil(t, report.Error)
}

// A stop during which every batch in flight ends as if nothing had been said.
func TestStop_EverythingEndsInTime(t *testing.T) {
	t.Parallel()
	w := setup(t, 50)
	w.took = time.Second
	w.process = func(x *execution) { x.onCancel = func() {} }
	w.at(500*time.Millisecond, func() { w.stop(job.Stop{Reason: "lunch"}) })
	report, err := w.run()
	require.NoError(t, err)
	require.EqualValues(t, 50, report.OK)
	require.Equal(t, job.Completed, report.State, "nothing is left that could be resumed")
	require.Len(t, w.finishes, 1)
}

func TestStop_WhileCommitting(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit, w.commitTook = 20, 10*time.Second
	w.at(5*time.Second, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.Positive(t, report.OK)
}

// S3: of fifty errors at once the first one recorded is the job's, the others are listed.
func TestStop_FirstErrorWins(t *testing.T) {
	t.Parallel()
	const errors = 50
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() {
		for i := range errors {
			w.stop(job.Stop{Error: &job.Error{Type: "Broken", Message: fmt.Sprint("error ", i)}})
		}
	})
	_, err := w.run()
	report := w.failedReport(err, "Broken")
	require.Equal(t, "error 0", report.Error.Message)
	require.Len(t, report.LaterErrors, limits.MaxLaterErrors)
	require.Equal(t, "error 1", report.LaterErrors[0].Message)
	require.Equal(t, errors-1-limits.MaxLaterErrors, report.LaterErrorsOmitted)
}

// S4: after a plain stop errors do not fail the job; they are listed.
func TestStop_PlainThenErrors(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() {
		w.stop(job.Stop{Reason: "enough"})
		w.stop(job.Stop{Error: &job.Error{Type: "Broken", Message: "too late"}})
	})
	report := w.stopped()
	require.Equal(t, "enough", report.Reason)
	require.Equal(t, []job.Error{{Type: "Broken", Message: "too late"}}, report.LaterErrors)
}

// S5: errors of clean-stop types stop the job without making it fail; a given list replaces the
// default.
func TestStop_CleanStopTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		types []string
		kind  string
		clean bool
	}{
		{nil, "OutOfRange", true},
		{nil, "Exhausted", false},
		{[]string{"Exhausted", "Done"}, "Exhausted", true},
		{[]string{"Exhausted"}, "OutOfRange", false},
		{[]string{limits.NoCleanStop}, "OutOfRange", false},
		{[]string{limits.NoCleanStop}, limits.NoCleanStop, false},
	} {
		t.Run(fmt.Sprint(c.types, c.kind), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1000)
			w.spec.CleanStop = c.types
			w.spec = w.spec.WithDefaults()
			w.took = time.Hour
			w.at(time.Second, func() { w.stop(job.Stop{Error: &job.Error{Type: c.kind, Message: "no more"}}) })
			if c.clean {
				require.Equal(t, c.kind+": no more", w.stopped().Reason)
				return
			}
			_, err := w.run()
			w.failedReport(err, c.kind)
		})
	}
}

// A cancellation counts as soon as it is in the history: also in the very workflow task that would continue the job
// as new, in which nothing but the job's own code runs.
func TestStop_CancelledInTheTaskThatContinuesAsNew(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{true, false} {
		w := setup(t, 1)
		w.env.SetContinueAsNewSuggested(true)
		lastTask := func(ctx workflow.Context, in wire.JobInput) (job.Report, error) {
			ctx, cancel := workflow.WithCancel(ctx)
			w.historyLength = func() int { // Job looks at its history, and lets nothing else run after that
				if cancelled && w.listening {
					cancel()
				}
				return 0
			}
			return Job(ctx, in)
		}
		w.env.RegisterWorkflowWithOptions(lastTask, workflow.RegisterOptions{Name: "the last task"})
		w.env.ExecuteWorkflow("the last task", wire.JobInput{StartInput: wire.StartInput{Spec: w.spec}})
		if !cancelled {
			require.ErrorAs(t, w.env.GetWorkflowError(), new(*workflow.ContinueAsNewError), "its only task is its last one")
			continue
		}
		var report job.Report
		require.NoError(t, w.env.GetWorkflowResult(&report))
		require.Equal(t, job.Stopped, report.State)
		require.Equal(t, "the workflow was cancelled", report.Reason)
		require.Empty(t, w.commands["Plan"])
	}
}
