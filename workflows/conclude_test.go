package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stretchr/testify/require"
)

func TestJob_WritesReport(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Report = "report.json"
	w.report = func(wire.ReportInput) error {
		if len(w.reports) == 1 {
			return transient("network")
		}
		return nil
	}
	report := w.mustRun()
	require.Len(t, w.reports, 2)
	require.Equal(t, w.spec.Name, w.reports[1].Ref.Job)
	require.Equal(t, wire.ReportInput{Location: "report.json", Report: report, Ref: w.reports[1].Ref}, w.reports[1])
}

// A report that cannot be written does not make a job fail.
func TestJob_ReportUnwritable(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Report = "report.json"
	w.report = func(wire.ReportInput) error { return permanentError(job.ErrorOutput) }
	w.mustRun()
}

// A failed job's report is written, too.
func TestJob_WritesReportOfFailure(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Report = "report.json"
	w.plan = func(wire.PlanInput) error { return permanentError(job.ErrorInput) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorInput)
	require.Equal(t, report, w.reports[0].Report)
}

func TestFail_Finish(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.ErrorBooks, job.ErrorCorrupt, job.ErrorFenced, job.ErrorOutput} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100)
			w.finish = func(wire.FinishInput) error { return permanentError(kind) }
			_, err := w.run()
			report := w.failedReport(err, kind)
			require.EqualValues(t, 100, report.OK)
			require.Nil(t, report.Output)
			require.Equal(t, job.Failed, w.memo[wire.MemoState])
			require.Len(t, w.finishes, 1)

			w.resume, w.finish = report.Manifests, nil
			require.EqualValues(t, 100, w.mustRun().Resumed, "only the Finish is left to do")
		})
	}
}

func TestFinish_IsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.finish = func(wire.FinishInput) error {
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

// If a leg of an earlier run reports at the very end, the job ends that leg, and waits until the signal is
// delivered.
func TestConclude_DisownsALegOfAnotherRun(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Cleanup = []string{"tidy"}
	w.hookTook = time.Minute
	told := 0
	w.env.OnSignalExternalWorkflow(anything, "nightly/leg-7", "its-run", wire.SignalDisowned, anything).Return(func(string, string, string, string, any) error {
		told++
		return nil
	}).After(time.Second)
	stranger := wire.FromLeg[wire.Counts]{Run: "earlier", Leg: wire.Execution{ID: "nightly/leg-7", RunID: "its-run"}}
	w.at(30*time.Second, func() { w.env.SignalWorkflow(wire.SignalCounts, stranger) })
	w.mustRun()
	require.Equal(t, 1, told)
}

// S4: that the output cannot be published after a stop does not make the job one that has failed.
func TestStop_FinishFailsAfterwards(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.finish = func(wire.FinishInput) error {
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
			w.env.UpdateWorkflow(wire.UpdateSet, "late", refuse(w.t, &refused), job.Settings{MaxFailed: &none})
		},
		"cancellation": func(w *world) { w.env.CancelWorkflow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 300)
			w.process = func(x *execution) { x.failing(1) }
			w.spec.Cleanup, w.spec.Shutdown, w.hookTook = []string{"tidy"}, []string{"release"}, time.Minute
			w.hook = func(wire.HookInput) error {
				w.later(time.Second, func() { late(w) })
				return nil
			}
			report := w.mustRun()
			require.NotNil(t, report.Output)
			require.Nil(t, report.Error)
			require.Equal(t, []string{"cleanup tidy"}, w.stages())
			require.NotContains(t, w.memo, wire.MemoState)
		})
	}
}

// A job that has failed writes its errors file if items have failed; a redrive, a feed and a job without failed items
// do not. That the file cannot be written changes nothing else.
func TestFail_ListsFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(w *world)
		lists  bool
	}{
		{"failed items", func(*world) {}, true},
		{"unwritable", func(w *world) {
			w.failures = func(wire.FailuresInput) error { return permanentError(job.ErrorOutput) }
		}, true},
		{"dropped errors", func(w *world) { w.spec.OnError = job.OnErrorDrop }, false},
		{"no failed items", func(w *world) {
			w.process, w.finish = nil, func(wire.FinishInput) error { return permanentError(job.ErrorBooks) }
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 100)
			w.spec.MaxFailed, w.spec.Errors = "5%", "errors.jsonl"
			w.process = func(x *execution) { x.failing(1) }
			c.change(w)
			kind := job.ErrorTooMany
			if c.name == "no failed items" {
				kind = job.ErrorBooks
			}
			_, err := w.run()
			report := w.failedReport(err, kind)
			if !c.lists {
				require.Empty(t, w.listed)
				require.Nil(t, report.Output)
				return
			}
			require.Len(t, w.listed, 1)
			require.Equal(t, report.Manifests, w.listed[0].Manifests)
			if c.name == "failed items" {
				require.Equal(t, &job.Output{Errors: "errors.jsonl"}, report.Output)
				require.Equal(t, someFailures, report.Failures)
			} else {
				require.Nil(t, report.Output)
			}
		})
	}
}

// 14.2: a job knows of open legs how far they are, for its page and for lists, and neither costs much.
func TestProgress_OfOpenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.spec.Window = 10
	w.took = time.Second
	var heard int64
	var noted job.Counted
	w.at(90*time.Second, func() {
		value, err := w.env.QueryWorkflow(wire.QueryReport)
		require.NoError(t, err)
		var answer wire.Answer
		require.NoError(t, value.Get(&answer))
		for _, h := range answer.Heard {
			heard += h.OK
		}
		noted, _ = w.memo[wire.MemoProgress].(job.Counted)
		heard += answer.OK
	})
	report := w.mustRun()
	require.Greater(t, heard, int64(3000), "of about 9,000 items done")
	require.Greater(t, noted.OK, int64(1000))
	require.EqualValues(t, 20_000, report.OK)
	require.LessOrEqual(t, w.commands["signal "+wire.SignalCounts], 9*report.Legs)
}

// What is listed, and the job's page, are dated by when the legs have counted, and not by when the job writes them:
// they do not look new while a leg cannot report. A leg that stops says how far it is.
func TestD38_ListedNumbersAreDatedByTheLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 20_000)
	w.spec.Window = 10
	w.took, w.settle = time.Second, 20*time.Second
	var stopped, listed time.Time
	var noted, before job.Counted
	var heard int64
	w.at(83*time.Second, func() {
		w.mu.Lock()
		before, _ = w.memo[wire.MemoProgress].(job.Counted)
		w.mu.Unlock()
		stopped = w.env.Now()
		w.stop(job.Stop{})
	})
	w.at(83*time.Second+2*coordinate.ListedAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, job.Stopping, w.memo[wire.MemoState])
		noted, _ = w.memo[wire.MemoProgress].(job.Counted)
		listed = w.env.Now()
		value, err := w.env.QueryWorkflow(wire.QueryReport)
		require.NoError(t, err)
		var answer wire.Answer
		require.NoError(t, value.Get(&answer))
		heard = answer.OK
		for _, h := range answer.Heard {
			heard += h.OK
		}
	})
	w.stopped()
	require.Positive(t, before.OK)
	require.Greater(t, noted.OK, before.OK, "the legs have said how far they are")
	require.Equal(t, heard, noted.OK)
	require.WithinDuration(t, stopped, noted.At, time.Second, "and when")
	require.True(t, noted.At.Before(listed.Add(-coordinate.ListedAfter)), "the job has listed it later")
}
