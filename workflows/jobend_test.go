package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
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
			w.plan = func(activities.PlanInput) error {
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
			want := []int64{0, firstPage * 10, firstPage*10 + 200}[page-1]
			require.Equal(t, want, report.OK, "what had been planned was done")
			require.Equal(t, want, report.Planned)
			require.False(t, report.PlanDone)
		})
	}
}

// S2, S11: running batches are told, finish the call in hand and return their rests; what they have
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
			require.Equal(t, 5, rests, "every one of them was told")
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
		x.onCancel = func() { x.endAfter(time.Millisecond, activities.ProcessResult{}, temporal.NewCanceledError()) }
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
		{"none in the spec", job.None, "", 0},
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
					if where == "job" || x.number > firstPage {
						x.took = time.Hour
					}
				}
				var deadline time.Time
				w.at(at, func() {
					deadline = w.env.Now().Add(test.grace)
					w.stop(job.Stop{Reason: "lunch", Grace: test.stop})
				})
				w.stopped()
				notice := w.memo[job.MemoStop].(job.StopNotice)
				require.Equal(t, "lunch", notice.Reason)
				require.WithinDuration(t, deadline, notice.Deadline, 0)
			})
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
	require.Equal(t, time.Minute-time.Second, w.memo[job.MemoStop].(job.StopNotice).Deadline.Sub(report.Started)-2*time.Second)
}

// Two stops in one workflow task.
func TestStop_TwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() {
		w.env.SignalWorkflowSkippingWorkflowTask(job.SignalStop, job.Stop{Reason: "first"})
		w.stop(job.Stop{Reason: "second"})
	})
	require.Equal(t, "first", w.stopped().Reason)
}

// S1: every field is optional, and the argument may be missing.
func TestStop_WithoutArgument(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took = time.Hour
	w.at(time.Second, func() { w.env.SignalWorkflow(job.SignalStop, nil) })
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

// S7: what is still running after grace, TERM and KILL is named.
func TestStop_Stragglers(t *testing.T) {
	t.Parallel()
	for _, grace := range []string{"0", "10s"} {
		for _, leg := range []int{0, 1} {
			t.Run(fmt.Sprintf("grace %s, leg %d", grace, leg), func(t *testing.T) {
				t.Parallel()
				w := setup(t, 300)
				w.spec.Window = 3
				stuck := int64(10 + leg*200)
				w.process = func(x *execution) {
					x.onCancel = func() {} // ignores it
					switch x.in.Batch.First {
					case stuck:
						x.took = 0
					case stuck + 10:
						x.took = time.Hour + 15*time.Second // ends late, but in time
					}
				}
				w.at(time.Hour, func() { w.stop(job.Stop{Grace: grace}) })
				report := w.stopped()
				d, err := time.ParseDuration(grace)
				require.NoError(t, err)
				require.InDelta(t, (time.Hour + d + killLimit).Seconds(), took(report), 0.1)
				require.Len(t, report.Stragglers, 1)
				s := report.Stragglers[0]
				number := stuck/10 + 1
				require.Equal(t, fmt.Sprintf("batch %d · items %d–%d", number, stuck, stuck+9), s.Batch)
				require.Equal(t, leg, s.Leg)
				x := w.tries(stuck)[0]
				require.WithinDuration(t, x.at, s.Since, 0)
				require.Equal(t, fmt.Sprintf("host-%d", x.number), s.Worker)
				require.Equal(t, 1000+x.number, s.PID)
				require.Equal(t, job.ErrorLeftovers, report.Error.Type)
				require.Equal(t, fmt.Sprintf("Coordinator stopped with work still running: %s on worker %s, slot 1, pid %d, for %v",
					s.Batch, s.Worker, s.PID, s.Noted.Sub(s.Since).Round(time.Second)), report.Error.Message)
				require.EqualValues(t, 290, report.OK, "all others are kept")
			})
		}
	}
}

// Both legs' stragglers are in the report.
func TestStop_StragglersOfSeveralLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 2000)
	w.pageLimit, w.spec.Window = 50, 10
	w.process = func(x *execution) {
		x.onCancel = func() {}
		if first := x.in.Batch.First; first == 300 || first == 700 {
			x.took = 0
		}
	}
	w.at(time.Hour, func() { w.stop(job.Stop{Grace: "1s"}) })
	report := w.stopped()
	require.Len(t, report.Stragglers, 2)
	require.ElementsMatch(t, []int{1, 2}, []int{report.Stragglers[0].Leg, report.Stragglers[1].Leg})
}

// S7: a recorded error takes precedence over stragglers, which are listed all the same.
func TestStop_ErrorAndStragglers(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.process = func(x *execution) {
		x.took, x.onCancel = 0, func() {}
	}
	w.at(time.Second, func() { w.stop(job.Stop{Error: &job.Error{Type: "DiskFull", Message: "no space left"}, Grace: "1s"}) })
	_, err := w.run()
	report := w.failedReport(err, "DiskFull")
	require.Len(t, report.Stragglers, w.spec.Window, "all places of both legs")
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
			x.onCancel = func() { x.endAfter(time.Second, activities.ProcessResult{}, permanentError(job.ErrorChanged)) }
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
					x.endAfter(time.Minute+time.Second, activities.ProcessResult{}, permanentError(job.ErrorOutput))
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

func TestFail_Plan(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.ErrorInvalid, job.ErrorInput, job.ErrorOutput, job.ErrorChanged, job.ErrorFenced, job.ErrorBooks, job.ErrorCorrupt} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1000)
			w.plan = func(activities.PlanInput) error { return permanentError(kind) }
			_, err := w.run()
			report := w.failedReport(err, kind)
			require.Contains(t, report.Error.Message, "cannot be mended")
			require.Len(t, w.plans, 1, "no repetition")
			require.Empty(t, w.all)
		})
	}
}

// A later page that cannot be planned fails the job, and what is done by then is kept.
func TestFail_LaterPlan(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_000)
	w.pageLimit, w.took = 20, time.Second
	w.spec.Window = 5
	w.plan = func(activities.PlanInput) error {
		if len(w.plans) == 3 {
			return permanentError(job.ErrorChanged)
		}
		return nil
	}
	_, err := w.run()
	report := w.failedReport(err, job.ErrorChanged)
	w.requireAccepted(report)
	require.Empty(t, w.finishes)
}

func TestPlan_IsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.plan = func(activities.PlanInput) error {
		switch len(w.plans) {
		case 1, 2:
			return transient("network")
		case 3, 4:
			return orphaned()
		}
		return nil
	}
	w.mustRun()
	require.Len(t, w.plans, 5)
}

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
	w.at(time.Second, func() { w.env.SignalWorkflow(job.SignalRestarted, nil) })
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
		w.env.SignalWorkflow(job.SignalRestarted, nil)
		require.NoError(t, w.env.SignalWorkflowByID("nightly/leg-1", job.SignalRestarted, nil))
	})
	w.spec.Window = 1000
	report := w.mustRun()
	require.Zero(t, report.Expiries)
}

func TestFail_Commit(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{100, 400, 5000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) {
			t.Parallel()
			w := setup(t, items)
			w.pageLimit = 20
			w.commit = func(in activities.CommitInput) error {
				if in.Leg == int(min(items/200, 3)) {
					return permanentError(job.ErrorOutput)
				}
				return nil
			}
			_, err := w.run()
			report := w.failedReport(err, job.ErrorOutput)
			w.requireAccepted(report)
			require.Empty(t, w.finishes)

			w.resume, w.commit = report.Manifests, nil
			require.Equal(t, items, w.mustRun().OK, "it can be resumed")
		})
	}
}

// A commit that fails while the job stops is no reason to publish.
func TestFail_CommitWhileStopping(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.took = time.Second
	w.process = func(x *execution) { x.onCancel = func() {} }
	w.commit = func(activities.CommitInput) error { return permanentError(job.ErrorOutput) }
	w.at(500*time.Millisecond, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.Zero(t, report.OK, "what could not be committed does not count")
}

func TestFail_Finish(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.ErrorBooks, job.ErrorCorrupt, job.ErrorFenced, job.ErrorOutput} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100)
			w.finish = func(activities.FinishInput) error { return permanentError(kind) }
			_, err := w.run()
			report := w.failedReport(err, kind)
			require.EqualValues(t, 100, report.OK)
			require.Nil(t, report.Output)
			require.Equal(t, job.Failed, w.memo[job.MemoState])
			require.Len(t, w.finishes, 1)

			w.resume, w.finish = report.Manifests, nil
			require.EqualValues(t, 100, w.mustRun().Resumed, "only the Finish is left to do")
		})
	}
}

func TestFinish_IsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.finish = func(activities.FinishInput) error {
		switch len(w.finishes) {
		case 1:
			return transient("network")
		case 2:
			return orphaned()
		}
		return nil
	}
	report := w.mustRun()
	require.Len(t, w.finishes, 3)
	require.NotNil(t, report.Output)
}

// A leg whose workflow fails altogether loses what it has not committed, and fails the job.
func TestFail_LegWorkflow(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.env.OnWorkflow(job.WorkflowLeg, anything, anything).Return(LegResult{}, temporal.NewApplicationError("terminated", "Somebody"))
	_, err := w.run()
	report := w.failedReport(err, "Somebody")
	w.requireAccepted(report)
	require.Empty(t, w.finishes)
}

// The same while the job stops: items are missing, so nothing must be published.
func TestFail_LegWorkflowWhileStopping(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.env.OnWorkflow(job.WorkflowLeg, anything, anything).After(10*time.Second).
		Return(LegResult{}, temporal.NewApplicationError("terminated", "Somebody"))
	w.at(5*time.Second, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.EqualValues(t, firstPage*10, report.OK)
}

// S7: stragglers can be ignored, by the spec or the stop: then they are listed and nothing else.
func TestStop_IgnoresStragglers(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"spec", "stop", "later stop"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100)
			w.spec.IgnoreStragglers = by == "spec"
			w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
			w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s", IgnoreStragglers: by == "stop"}) })
			if by == "later stop" {
				w.at(time.Minute+time.Second, func() { w.stop(job.Stop{IgnoreStragglers: true}) })
			}
			report := w.stopped()
			require.Len(t, report.Stragglers, 10)
			require.Nil(t, report.Error)
		})
	}
}

// S7: a recorded error takes precedence over stragglers.
func TestStop_ErrorBeforeStragglers(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
	w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s", Error: &job.Error{Type: "Full", Message: "the disk is full"}}) })
	_, err := w.run()
	report := w.failedReport(err, "Full")
	require.Len(t, report.Stragglers, 10)
}

// S7: where nobody can tell where they run, they are named without a place.
func TestStop_StragglersNobodyFinds(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	w.process = func(x *execution) { x.took, x.onCancel = 0, func() {} }
	w.locate = func(activities.LocateInput) error { return transient("no server answers") }
	w.at(time.Minute, func() { w.stop(job.Stop{Grace: "1s"}) })
	report := w.stopped()
	require.Len(t, report.Stragglers, 1)
	require.Empty(t, report.Stragglers[0].Worker)
	require.Contains(t, report.Error.Message, "batch 1 · items 0–9, for 1m")
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
	require.Len(t, report.LaterErrors, job.MaxLaterErrors)
	require.Equal(t, "error 1", report.LaterErrors[0].Message)
	require.Equal(t, errors-1-job.MaxLaterErrors, report.LaterErrorsOmitted)
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

// A stop reaches a job that is publishing its output: what is not published yet waits for resume.
func TestStop_WhileFinishing(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.finishTook = time.Hour
	w.at(time.Minute, func() { w.stop(job.Stop{Reason: "not now", Grace: "30s"}) })
	report, err := w.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, "not now", report.Reason)
	require.InDelta(t, 90, took(report), 1, "it has the grace period")
	require.EqualValues(t, 100, report.OK)
	w.requireAccepted(report)
}

// An error that comes when the outcome is decided changes nothing, and is listed.
func TestStop_ErrorAfterTheOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Cleanup = []string{"tidy"}
	w.hookTook = time.Minute
	w.at(30*time.Second, func() { w.stop(job.Stop{Error: &job.Error{Type: "Broken", Message: "too late"}}) })
	report := w.mustRun()
	require.Equal(t, []job.Error{{Type: "Broken", Message: "too late"}}, report.LaterErrors)
}

// S4: that the output cannot be published after a stop does not make the job one that has failed.
func TestStop_FinishFailsAfterwards(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.finish = func(activities.FinishInput) error {
		if len(w.finishes) > 1 {
			return permanentError(job.ErrorOutput)
		}
		w.later(time.Millisecond, func() { w.stop(job.Stop{Reason: "lunch", Grace: "1h"}) })
		return transient("network")
	}
	report, err := w.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Len(t, report.LaterErrors, 1)
	require.Equal(t, job.ErrorOutput, report.LaterErrors[0].Type)
	w.requireAccepted(report)
}

// Once the output is there, nothing makes the job fail any more, nor stops it.
func TestConclude_NothingChangesTheOutcome(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(w *world){
		"settings": func(w *world) {
			none, refused := job.Tolerance("0"), 0
			w.env.UpdateWorkflow(job.UpdateSet, "late", refuse(w.t, &refused), job.Settings{MaxFailed: &none})
		},
		"cancellation": func(w *world) { w.env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 300)
			w.process = func(x *execution) { x.failing(1) }
			w.spec.Cleanup, w.spec.Shutdown, w.hookTook = []string{"tidy"}, []string{"release"}, time.Minute
			w.hook = func(activities.HookInput) error {
				w.later(time.Second, func() { late(w) })
				return nil
			}
			report := w.mustRun()
			require.NotNil(t, report.Output)
			require.Nil(t, report.Error)
			require.Equal(t, []string{"cleanup tidy"}, w.stages())
			require.NotContains(t, w.memo, job.MemoState)
		})
	}
}
