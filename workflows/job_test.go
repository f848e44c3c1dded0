package workflows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
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

// S12: a job continues from the manifests of earlier runs: what they account for is not run again.
func TestJob_Resume(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.manifests["old-1"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(0, 100)}, {Batch: batch(300, 55)}}}
	w.manifests["old-2"] = wire.CommitInput{Previous: []string{"old-1"}, Entries: []wire.Entry{{Batch: batch(900, 100)}}}
	w.manifests["old-3"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(200, 10)}}}
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
	require.Equal(t, w.resume, w.commits[0].Previous, "the first leg's manifest names the earlier ones")
	require.EqualValues(t, 1000, tiled(w.accepted(w.finishes[0].Manifests)))
}

func TestJob_ResumeWithNothingLeft(t *testing.T) {
	t.Parallel()
	w := setup(t, 100)
	w.manifests["old"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(0, 100)}}}
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

// A job continues in a new run when Temporal suggests it, with all that it knows.
func TestJob_ContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 8000)
	w.pageLimit, w.spec.Window = 50, 10
	w.resume = []string{"old"}
	w.manifests["old"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(0, 100)}}}
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
		require.Equal(t, i+1, leg.Number, "numbers continue")
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
	w.commit = func(wire.CommitInput) error {
		if len(w.commits) == 2 { // of the last leg of the run
			w.env.SignalWorkflowSkippingWorkflowTask(wire.SignalStop, job.Stop{Reason: "enough"})
		}
		return nil
	}
	report, err := w.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, "enough", report.Reason)
	w.requireAccepted(report)
}

// Counts of items and batches, and the texts in the web UI.
func TestJob_Summaries(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_500)
	w.spec.Report = "report.json"
	w.mustRun()
	w.requireSummaries(
		"plan page 1", "plan page 2", "batch 1 · items 0–9", "batch 13 · items 120–129",
		"leg 1 · batches 17–616", "leg 2 · batches 617–1,050", "batch 17 · items 160–169", "batch 1,017 · items 10,160–10,169",
		"batch 1,050 · items 10,490–10,499", "commit 16 parts", "commit 600 parts", "check the books and publish the output", "write the report",
	)
	for _, summary := range w.summaries {
		require.LessOrEqual(t, len(summary), 400, "Temporal's limit")
	}
}

// G8: what a job costs beyond its legs.
func TestJob_Commands(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.items = 10 * (wire.FirstPage + 2*wire.PageBatches)
	w.process = uneven
	w.mustRun()
	n := w.commands
	require.Equal(t, wire.FirstPage+2*wire.PageBatches, n["Process"])
	require.Equal(t, 3, n["Commit"])
	require.LessOrEqual(t, n["Plan"], 4)
	require.Equal(t, 2, n["child"])
	require.Equal(t, 1, n["Finish"])
	require.Zero(t, n["timer"])
	require.Zero(t, n["memo"], "a job that runs as it should writes no memo")
	require.LessOrEqual(t, n["signal "+wire.SignalPlaces], 2*dispatch.MaxHandBacks)
	require.LessOrEqual(t, n["signal "+wire.SignalGrant], 2*dispatch.MaxHandBacks)
	require.Zero(t, n["signal "+wire.SignalHalt])
}

// A workflow with a gate: a job that was started before the gate keeps to the old way.
func TestHasLogic_Gate(t *testing.T) {
	t.Parallel()
	const logicPauseFirst = logicFirst + 1 // what came with version 2: it pauses first
	gated := func(ctx workflow.Context, in wire.JobInput) (string, error) {
		if !hasLogic(in.Version, logicPauseFirst) {
			return "as before", nil
		}
		if err := workflow.Sleep(ctx, 1); err != nil {
			return "", err
		}
		return "paused first", nil
	}
	for version, want := range map[int]string{logicFirst: "as before", logicPauseFirst: "paused first", logicPauseFirst + 1: "paused first"} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.RegisterWorkflow(gated)
		env.ExecuteWorkflow(gated, wire.JobInput{StartInput: wire.StartInput{Version: version}})
		var got string
		require.NoError(t, env.GetWorkflowResult(&got))
		require.Equal(t, want, got, "version %d", version)
	}
}

// The version that a client gives goes to every leg, and over continue-as-new.
func TestHasLogic_VersionIsKept(t *testing.T) {
	t.Parallel()
	require.True(t, hasLogic(wire.LogicVersion, logicFirst))
	w := setup(t, 3000)
	w.version, w.pageLimit = wire.LogicVersion+7, 50
	w.process = func(x *execution) { w.env.SetContinueAsNewSuggested(w.runs == 1 && x.number > 120) }
	w.mustRun()
	require.Greater(t, w.runs, 1)
	require.NotEmpty(t, w.legs)
	for _, leg := range w.legs {
		require.Equal(t, w.version, leg.Version)
	}
}
