package workflows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

func TestJob_Completes(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{1, 9, 10, 11, 159, 160, 161, 1000, 12_000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) {
			t.Parallel()
			w := setup(t, items)
			report := w.mustRun()
			require.Equal(t, items, report.Planned)
			require.True(t, report.PlanDone)
			require.Equal(t, items, report.OK)
			require.Equal(t, (items+9)/10, report.Batches)
			require.EqualValues(t, len(w.all), report.Batches)
			require.Equal(t, items*itemBytes, report.TotalBytes)
			require.Equal(t, items*itemBytes, report.InputBytes)
			require.Equal(t, &job.Output{Location: "out.jsonl", Bytes: 7}, report.Output)
			require.NotNil(t, report.Ended)
			require.Nil(t, report.Error)
			require.Empty(t, report.OpenLegs)
			require.Len(t, w.finishes, 1)
			require.Equal(t, report.Manifests, w.finishes[0].Manifests)
			w.requireAccepted(report)
		})
	}
}

func TestJob_ZeroItems(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	report := w.mustRun()
	require.Zero(t, report.Planned)
	require.True(t, report.PlanDone)
	require.Zero(t, report.Legs)
	require.Len(t, w.finishes, 1, "an empty output is an output")
	require.Empty(t, w.finishes[0].Manifests)
	require.Empty(t, w.all)
	require.Empty(t, w.commits)
}

// A small job needs no other workflow.
func TestJob_RunsItsFirstPageItself(t *testing.T) {
	t.Parallel()
	w := setup(t, firstPage*10)
	report := w.mustRun()
	require.Equal(t, 1, report.Legs)
	require.Empty(t, w.legs)
	for _, x := range w.all {
		require.Equal(t, "nightly", x.workflow)
	}

	w = setup(t, firstPage*10+1)
	report = w.mustRun()
	require.Equal(t, 2, report.Legs)
	require.Equal(t, job.LegID("nightly", 1), w.all[firstPage].workflow)
}

// A first page that ended early and a short second one are one leg's, inside the job.
func TestJob_ShortSecondPage(t *testing.T) {
	t.Parallel()
	automatic := func(t *testing.T, items int64) *world {
		w := setup(t, items)
		w.spec.BatchItems, w.pageLimit, w.took = 0, 10, 50*time.Millisecond
		w.plan = func(in activities.PlanInput) error {
			if len(w.plans) == 2 {
				w.pageLimit = inlineBatches
			}
			return nil
		}
		return w
	}
	for _, c := range []struct {
		name  string
		items int64
		legs  int
		slow  bool
	}{
		{name: "short", items: 500, legs: 1},
		{name: "as long as may be", items: 10 * (10 + inlineBatches), legs: 2}, // not known to be the last
		{name: "just short", items: 10 * (10 + inlineBatches - 1), legs: 1},
		{name: "empty", items: 100, legs: 1},
		{name: "planned when the first is done", items: 500, legs: 1, slow: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := automatic(t, c.items)
			if c.slow {
				w.planTook = time.Minute
			}
			report := w.mustRun()
			require.Equal(t, c.items, report.OK)
			require.Equal(t, c.legs, report.Legs)
			require.Len(t, w.legs, c.legs-1)
			require.Len(t, w.plans, 2+(c.legs-1))
			require.LessOrEqual(t, w.most, w.spec.Window)
			w.requireAccepted(report)
			numbers := map[string]bool{}
			for _, x := range w.all {
				numbers[strings.SplitN(x.options.Summary, " · ", 2)[0]] = true
			}
			require.Len(t, numbers, int(c.items+9)/10, "every batch has a number of its own")
		})
	}
	t.Run("the window grows with it", func(t *testing.T) {
		t.Parallel()
		w := automatic(t, 500)
		w.spec.Window = 30
		w.mustRun()
		require.Equal(t, 30, w.most)
	})
	t.Run("stopped while it is planned", func(t *testing.T) {
		t.Parallel()
		w := automatic(t, 500)
		plan := w.plan
		w.plan = func(in activities.PlanInput) error {
			if len(w.plans) == 2 {
				w.planTook = time.Hour
			}
			return plan(in)
		}
		w.at(time.Minute, func() { w.stop(job.Stop{}) })
		report := w.stopped()
		require.InDelta(t, 60, took(report), 1)
		require.EqualValues(t, 100, report.OK)
	})
	t.Run("it cannot be planned", func(t *testing.T) {
		t.Parallel()
		w := automatic(t, 500)
		w.plan = func(activities.PlanInput) error {
			if len(w.plans) == 2 {
				return permanentError(job.ErrorChanged)
			}
			return nil
		}
		_, err := w.run()
		report := w.failedReport(err, job.ErrorChanged)
		require.EqualValues(t, 100, report.OK)
		w.requireAccepted(report)
	})
	t.Run("the history is long enough", func(t *testing.T) {
		t.Parallel()
		w := automatic(t, 500)
		w.process = func(*execution) { w.env.SetContinueAsNewSuggested(w.runs == 1) }
		require.EqualValues(t, 500, w.mustRun().OK)
	})
}

func TestJob_Pages(t *testing.T) {
	t.Parallel()
	w := setup(t, 10*(firstPage+pageBatches+5))
	report := w.mustRun()
	require.Equal(t, 3, report.Legs)
	next := int64(0)
	for i, plan := range w.plans {
		require.Equal(t, next, plan.From.Item)
		require.Equal(t, w.spec, plan.Spec)
		require.Equal(t, "nightly", plan.Ref.Job)
		require.Equal(t, "out.jsonl.stint", plan.Ref.Store)
		if i == 0 {
			require.Equal(t, firstPage, plan.Batches)
			require.Empty(t, plan.Ref.Sources)
		} else {
			require.Equal(t, pageBatches, plan.Batches)
			require.Equal(t, "sources", plan.Ref.Sources)
		}
		next += int64(plan.Batches) * 10
	}
	for i, leg := range w.legs {
		require.Equal(t, i+1, leg.Number)
		require.EqualValues(t, firstPage+i*pageBatches, leg.Base)
	}
}

// At most two legs are open at once, and at most one page waits for a third.
func TestJob_OpenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit = 50
	most := 0
	w.process = func(x *execution) {
		uneven(x)
		w.later(x.took/2, func() { most = max(most, len(w.query().OpenLegs)) })
	}
	report := w.mustRun()
	require.Equal(t, 11, report.Legs)
	require.LessOrEqual(t, most, openLegs)
}

// Before the handler's speed is known, the second page waits for it, but not for long.
func TestJob_WaitsForTheSpeed(t *testing.T) {
	t.Parallel()
	planned := func(w *world) time.Duration {
		var at time.Duration
		began := time.Time{}
		w.plan = func(in activities.PlanInput) error {
			if began.IsZero() {
				began = w.env.Now()
			}
			if len(w.plans) == 2 {
				at = w.env.Now().Sub(began)
			}
			return nil
		}
		w.mustRun()
		return at
	}
	t.Run("quick", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 1000)
		w.spec.BatchItems, w.spec.Window, w.took = 0, 4, 100*time.Millisecond
		at := planned(w)
		require.Less(t, at.Seconds(), 1.0, "as soon as a few batches have ended")
		require.GreaterOrEqual(t, at.Seconds(), 0.1)
		rate := w.plans[1].Sizing.Rate
		require.EqualValues(t, 10_000, rate, "ten items in a second of a slot: in 1,000 seconds")
		require.Zero(t, w.plans[0].Sizing.Rate)
	})
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 1000)
		w.spec.BatchItems, w.spec.Window, w.took = 0, 4, time.Minute
		require.InDelta(t, rateWait.Seconds(), planned(w).Seconds(), 0.1)
		require.Zero(t, w.plans[1].Sizing.Rate)
	})
	t.Run("fixed batches need none", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 1000)
		w.took = time.Minute
		require.Less(t, planned(w).Seconds(), 1.0)
	})
}

// The latest leg tells how fast the handler is.
func TestJob_SpeedOfTheLatestLeg(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.spec.BatchItems, w.pageLimit = 0, 50
	w.process = func(x *execution) {
		if x.in.Batch.First >= 1500 {
			x.result.Totals.Busy = 100 * time.Millisecond
		}
	}
	w.mustRun()
	last := w.plans[len(w.plans)-1]
	require.EqualValues(t, 100_000, last.Sizing.Rate)
}

// S12: a job goes on from the manifests of earlier runs: what they account for is not run again.
func TestJob_Resume(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.manifests["old-1"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100)}, {Batch: batch(300, 55)}}}
	w.manifests["old-2"] = activities.CommitInput{Previous: []string{"old-1"}, Entries: []activities.Entry{{Batch: batch(900, 100)}}}
	w.manifests["old-3"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(200, 10)}}}
	w.resume = []string{"old-2", "old-3"}
	w.planTook = time.Second
	w.at(time.Second/2, func() { require.Equal(t, w.resume, w.query().Manifests, "resumable before anything is done") })
	report := w.mustRun()
	require.EqualValues(t, 265, report.Resumed)
	require.EqualValues(t, 1000, report.OK)
	require.EqualValues(t, 1000, report.Planned)
	var done int64
	for _, x := range w.all {
		done += x.in.Batch.Count
	}
	require.EqualValues(t, 735, done)
	for _, plan := range w.plans {
		require.Equal(t, w.resume, plan.Resume)
	}
	require.Equal(t, w.resume, w.commits[0].Previous, "the first leg's manifest names those before")
	require.EqualValues(t, 1000, tiled(w.accepted(w.finishes[0].Manifests)))
}

func TestJob_ResumeWithNothingLeft(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.manifests["old"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100)}}}
	w.resume = []string{"old"}
	report := w.mustRun()
	require.EqualValues(t, 100, report.Resumed)
	require.EqualValues(t, 100, report.OK)
	require.Empty(t, w.all)
	require.Equal(t, w.resume, w.finishes[0].Manifests)
}

// Stopped again and again and resumed each time, a job does everything once.
func TestJob_StoppedAndResumed(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.spec.Window, w.pageLimit, w.took = 8, 40, time.Second
	w.process = func(x *execution) {
		x.onCancel = func() { x.endAfter(time.Millisecond, x.done(min(x.in.Batch.Count, x.in.Batch.First%7)), nil) }
	}
	var report job.Report
	for round := 0; ; round++ {
		require.Less(t, round, 40)
		w.at(time.Duration(3+round)*time.Second, func() { w.stop(job.Stop{}) })
		before := report.Done()
		var err error
		report, err = w.run()
		require.NoError(t, err)
		require.Equal(t, before, report.Resumed)
		if report.State == job.Completed {
			break
		}
		require.Equal(t, job.Stopped, report.State)
		w.requireAccepted(report)
		w.resume = report.Manifests
	}
	require.EqualValues(t, 3000, report.OK)
	w.requireSettled()
}

// A job goes on in a new run when Temporal suggests it, with all that it knows.
func TestJob_ContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 8000)
	w.pageLimit, w.spec.Window = 50, 10
	w.resume = []string{"old"}
	w.manifests["old"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100)}}}
	inRun, runs := 0, 0
	w.process = func(x *execution) {
		uneven(x)
		x.result.FirstError = &job.FirstError{Item: x.in.Batch.First, Kind: job.KindError}
		if runs != w.runs {
			runs, inRun = w.runs, 0
		}
		if inRun++; inRun > 120 {
			w.env.SetContinueAsNewSuggested(true)
		}
	}
	report := w.mustRun()
	require.Greater(t, w.runs, 3)
	require.EqualValues(t, 8000, report.OK)
	require.EqualValues(t, 100, report.Resumed)
	require.EqualValues(t, 8000, report.Planned)
	require.Less(t, report.FirstError.Item, int64(200), "of the first run")
	require.Len(t, w.finishes, 1)
	require.Equal(t, 10, w.most, "all places are back")
	for i, leg := range w.legs {
		require.Equal(t, i+1, leg.Number, "numbers go on")
	}
	require.Equal(t, len(w.legs)+1, report.Legs)
	base := int64(0)
	for _, leg := range w.legs {
		require.Greater(t, leg.Base, base, "batches are counted on")
		base = leg.Base
		require.Equal(t, w.plans[0].Ref.Run, leg.Ref.Run, "the data stay those of the first run")
	}
	require.Equal(t, w.runs, len(slices.Compact(w.runOf())), "every run did some of it")
	w.requireAccepted(report)
}

// runOf is the run in which each batch was dispatched.
func (w *world) runOf() []string {
	var runs []string
	for _, x := range w.all {
		run, _, _ := strings.Cut(strings.TrimPrefix(x.id, "process-"), "-")
		runs = append(runs, run)
	}
	return runs
}

// A suggestion that comes when all is planned is none to follow.
func TestJob_ContinueAsNewSuggestedAtTheEnd(t *testing.T) {
	t.Parallel()
	w := setup(t, 50)
	w.process = func(*execution) { w.env.SetContinueAsNewSuggested(true) }
	w.mustRun()
	require.Equal(t, 1, w.runs)
}

// A stop that is taken in with the last event before continue-as-new is still in force (S17).
func TestJob_StopBeforeContinueAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit, w.took = 20, time.Second
	w.process = func(x *execution) {
		w.env.SetContinueAsNewSuggested(true)
	}
	w.commit = func(activities.CommitInput) error {
		if len(w.commits) == 2 { // of the last leg of the run
			w.env.SignalWorkflowSkippingWorkflowTask(job.SignalStop, job.Stop{Reason: "enough"})
		}
		return nil
	}
	report, err := w.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, "enough", report.Reason)
	w.requireAccepted(report)
}

// The job's own history grows, too, while a slow batch of the first page runs.
func TestJob_InlineLegGetsFull(t *testing.T) {
	t.Parallel()
	w := setup(t, 2000)
	w.spec.Window, w.pageLimit = 4, 40
	w.took = time.Second
	w.process = func(x *execution) {
		if x.in.Batch.First < 40 && x.in.Batch.Count > 2 {
			x.took = time.Minute
			x.rests(2)
		}
	}
	w.historyLength = func() int { return 200 * len(w.all) }
	report := w.mustRun()
	require.EqualValues(t, 2000, report.OK)
	require.True(t, slices.ContainsFunc(w.legs, func(in LegInput) bool { return len(in.Tasks) > 0 }), "what was left went to a leg of its own")
	require.EqualValues(t, 2000, tiled(w.accepted(report.Manifests)))
}

// What each leg is given, and what becomes of manifests that nobody names.
func TestJob_HeadsOfManifests(t *testing.T) {
	t.Parallel()
	w := setup(t, 5000)
	w.pageLimit = 50
	w.process = uneven
	report := w.mustRun()
	named := map[string]int{}
	for _, c := range w.commits {
		for _, p := range c.Previous {
			named[p]++
		}
	}
	for key := range w.manifests {
		if slices.Contains(report.Manifests, key) {
			require.Zero(t, named[key], "%s is a head", key)
		} else {
			require.Equal(t, 1, named[key], "%s is named once", key)
		}
	}
	require.LessOrEqual(t, len(report.Manifests), openLegs+1)
}

// Counts of items and batches, and the texts in the web UI.
func TestJob_Summaries(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_500)
	w.spec.Report = "report.json"
	w.mustRun()
	w.requireSummaries(
		"plan page 1", "plan page 2", "batch 1 · items 0–9", "batch 13 · items 120–129",
		"leg 1 · batches 17–1,016", "leg 2 · batches 1,017–1,050", "batch 17 · items 160–169", "batch 1,017 · items 10,160–10,169",
		"batch 1,050 · items 10,490–10,499", "commit 16 parts", "commit 1000 parts", "check the books and publish the output", "write the report",
	)
	for _, summary := range w.summaries {
		require.LessOrEqual(t, len(summary), 400, "Temporal's limit")
	}
}

func TestTask_Summary(t *testing.T) {
	t.Parallel()
	tests := []struct {
		task task
		want string
	}{
		{task{Batch: job.Batch{First: 12_000, Count: 1000}, Number: 12}, "batch 12 · items 12,000–12,999"},
		{task{Batch: job.Batch{First: 5, Count: 1}, Number: 1}, "batch 1 · item 5"},
		{task{Batch: job.Batch{First: 5, Count: 2}, Number: 1, Rests: 3}, "batch 1 · items 5–6 · rest"},
		{task{Batch: job.Batch{First: 5, Count: 2}, Number: 1, Rests: 1, Tries: 2}, "batch 1 · items 5–6 · rest · attempt 3"},
	}
	for _, test := range tests {
		require.Equal(t, test.want, test.task.summary())
	}
}

// G8: what a job costs beyond its legs.
func TestJob_Commands(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.items = 10 * (firstPage + 2*pageBatches)
	w.process = uneven
	w.mustRun()
	n := w.commands
	require.Equal(t, firstPage+2*pageBatches, n["Process"])
	require.Equal(t, 3, n["Commit"])
	require.LessOrEqual(t, n["Plan"], 4)
	require.Equal(t, 2, n["child"])
	require.Equal(t, 1, n["Finish"])
	require.Zero(t, n["timer"])
	require.Zero(t, n["memo"], "a job that runs as it should writes no memo")
	require.LessOrEqual(t, n["signal "+signalNext], 2)
	require.LessOrEqual(t, n["signal "+signalGrant], 3*(handings+1))
	require.Zero(t, n["signal "+signalHalt])
}

// The query answers in every state.
func TestJob_ReportInEveryState(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Window, w.took = 4, 10*time.Second
	w.planTook, w.commitTook, w.finishTook = 5*time.Second, 5*time.Second, 5*time.Second
	check := func(at time.Duration, fn func(r job.Report)) {
		w.at(at, func() {
			r := w.query()
			require.Equal(t, "nightly", r.Job)
			require.Equal(t, "thumbs", r.Pool)
			require.Equal(t, "out.jsonl.stint", r.Store)
			require.Nil(t, r.Ended)
			fn(r)
		})
	}
	check(time.Second, func(r job.Report) { // the first page is being planned
		require.Equal(t, job.Running, r.State)
		require.Zero(t, r.Planned)
		require.False(t, r.PlanDone)
		require.Zero(t, r.InFlight+r.Waiting)
	})
	check(16*time.Second, func(r job.Report) { // the first page runs, and all is planned
		require.EqualValues(t, 1000, r.Planned)
		require.True(t, r.PlanDone)
		require.EqualValues(t, 40, r.OK)
		require.Equal(t, 4, r.InFlight)
		require.Equal(t, 8, r.Waiting)
		require.EqualValues(t, 4, r.Batches)
		require.Equal(t, []string{"nightly/leg-1"}, r.OpenLegs, "it waits for places")
		require.Equal(t, 2, r.Legs)
	})
	check(100*time.Second, func(r job.Report) { // the leg runs
		require.EqualValues(t, 160, r.OK)
		require.Len(t, r.Manifests, 1)
		require.Equal(t, []string{"nightly/leg-1"}, r.OpenLegs)
		require.Zero(t, r.InFlight)
		p, err := w.progress(1)
		require.NoError(t, err)
		require.Equal(t, 4, p.InFlight)
		require.Positive(t, p.OK)
		r.Include(p)
		require.Equal(t, 160+p.OK, r.OK)
	})
	report := w.mustRun()
	require.Equal(t, report, w.query(), "and after the end")
}

func TestJob_ReportWhileStopping(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.took, w.settle = time.Minute, 10*time.Second
	w.at(time.Second, func() { w.stop(job.Stop{Reason: "lunch"}) })
	w.at(2*time.Second, func() {
		r := w.query()
		require.Equal(t, job.Stopping, r.State)
		require.Equal(t, "lunch", r.Reason)
		require.Equal(t, job.Stopping, w.memo[job.MemoState])
	})
	report, err := w.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, job.Stopped, w.memo[job.MemoState])
	require.Equal(t, report, w.query())
}

func TestJob_WritesReport(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Report = "report.json"
	w.report = func(activities.ReportInput) error {
		if len(w.reports) == 1 {
			return transient("network")
		}
		return nil
	}
	report := w.mustRun()
	require.Len(t, w.reports, 2)
	require.Equal(t, activities.ReportInput{Location: "report.json", Report: report}, w.reports[1])
}

// A report that cannot be written is no reason for a job to fail.
func TestJob_ReportUnwritable(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Report = "report.json"
	w.report = func(activities.ReportInput) error { return permanentError(job.ErrorOutput) }
	w.mustRun()
}

// A failed job's report is written, too.
func TestJob_WritesReportOfFailure(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.spec.Report = "report.json"
	w.plan = func(activities.PlanInput) error { return permanentError(job.ErrorInput) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorInput)
	require.Equal(t, report, w.reports[0].Report)
}

// W11: while no worker takes the first work, the job says so, and goes on when one comes.
func TestJob_SaysThatNobodyServesThePool(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	refusals := 0
	w.plan = func(in activities.PlanInput) error {
		if refusals++; refusals <= 5 {
			return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		require.True(t, w.query().Unserved)
		return nil
	}
	report := w.mustRun()
	require.False(t, report.Unserved)
	require.Equal(t, 6, w.commands["Plan"])
	require.Contains(t, jobDetails(job.Report{Pool: "thumbs", Unserved: true}, time.Time{}), "no worker serves pool thumbs")
}

// S12: what Temporal's end of a job has cut off before it was committed is committed by the next run.
func TestJob_Salvages(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.manifests["old"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100), OK: 100}}}
	w.manifests["older"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(100, 100), OK: 100}}}
	ref := activities.Ref{Job: w.spec.Name, Run: "earlier", Store: w.spec.Store, Sources: "sources"}
	w.resume = []string{"old"}
	w.salvage = []activities.CommitInput{
		{Ref: ref, Leg: 3, Previous: []string{"older"}},
		{Ref: ref, Leg: 4, Entries: []activities.Entry{{Batch: batch(500, 50), OK: 50}}},
	}
	report := w.mustRun()
	require.EqualValues(t, 1000, report.OK)
	require.EqualValues(t, 250, report.Resumed)
	require.Equal(t, "earlier", w.commits[0].Ref.Run)
	require.Len(t, w.all, 75)
}

// A job that cannot salvage begins nothing, and what earlier runs have committed is still known to it.
func TestJob_SalvageFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Init = []string{"prepare"}
	w.manifests["old"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(0, 100), OK: 100}}}
	w.manifests["older"] = activities.CommitInput{Entries: []activities.Entry{{Batch: batch(100, 100), OK: 100}}}
	w.resume = []string{"old"}
	w.salvage = []activities.CommitInput{
		{Leg: 3, Entries: []activities.Entry{{Batch: batch(500, 50), OK: 50}}},
		{Leg: 4, Previous: []string{"older"}, Entries: []activities.Entry{{Batch: batch(600, 50), OK: 50}}},
	}
	w.commit = func(activities.CommitInput) error { return permanentError(job.ErrorOutput) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorOutput)
	require.Empty(t, w.hooks)
	require.Empty(t, w.all)
	require.Equal(t, []string{"old", "older"}, report.Manifests)
}
