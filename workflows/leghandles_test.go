package workflows

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// A leg whose workflow fails altogether loses what it has not committed, and fails the job.
func TestFail_LegWorkflow(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.env.OnWorkflow(wire.WorkflowLeg, anything, anything).Return(wire.LegResult{}, temporal.NewApplicationError("terminated", "Somebody"))
	_, err := w.run()
	report := w.failedReport(err, "Somebody")
	w.requireAccepted(report)
	require.Empty(t, w.finishes)
}

// What it had committed before it continued as new is kept.
func TestFail_LegWorkflowThatHadContinuedAsNew(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	done := wire.LegResult{Manifests: []string{"of-the-leg"}, Left: 1000 - wire.FirstPage*10 - 100}
	done.Totals.OK = 100
	var given wire.LegInput
	w.env.OnWorkflow(wire.WorkflowLeg, anything, anything).Return(func(ctx workflow.Context, in wire.LegInput) (wire.LegResult, error) {
		given = in
		_ = workflow.Sleep(ctx, 10*time.Second) // the leg inside the job ends meanwhile; it is not cancelled
		link := dispatch.NewParentLink(ctx, "", in.Number, nil)
		link.Signal(wire.SignalKept, wire.KeptResult{Leg: in.Number, Result: done})
		link.Flush()
		return wire.LegResult{}, temporal.NewApplicationError("terminated", "Somebody")
	})
	_, err := w.run()
	report := w.failedReport(err, "Somebody")
	require.Equal(t, 1, given.Number)
	require.ElementsMatch(t, []string{"m-1", "of-the-leg"}, report.Manifests)
	w.manifests["of-the-leg"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(160, 100), OK: 100}}}
	w.requireAccepted(report)
	require.Empty(t, w.finishes)
}

// The same while the job stops: items are missing, so nothing must be published.
func TestFail_LegWorkflowWhileStopping(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.env.OnWorkflow(wire.WorkflowLeg, anything, anything).After(10*time.Second).
		Return(wire.LegResult{}, temporal.NewApplicationError("terminated", "Somebody"))
	w.at(5*time.Second, func() { w.stop(job.Stop{}) })
	report := w.stopped()
	require.EqualValues(t, wire.FirstPage*10, report.OK)
}

// A small job needs no other workflow.
func TestJob_RunsItsFirstPageItself(t *testing.T) {
	t.Parallel()
	w := setup(t, wire.FirstPage*10)
	report := w.mustRun()
	require.Equal(t, 1, report.Legs)
	require.Empty(t, w.legs)
	for _, x := range w.all {
		require.Equal(t, "nightly", x.workflow)
	}

	w = setup(t, wire.FirstPage*10+1)
	report = w.mustRun()
	require.Equal(t, 2, report.Legs)
	require.Equal(t, wire.LegID("nightly", 1), w.all[wire.FirstPage].workflow)
}

// A first page that ended early and a short second one are one leg's, inside the job.
func TestJob_ShortSecondPage(t *testing.T) {
	t.Parallel()
	automatic := func(t *testing.T, items int64) *world {
		w := setup(t, items)
		w.spec.BatchItems, w.pageLimit, w.took = 0, 10, 50*time.Millisecond
		w.plan = func(in wire.PlanInput) error {
			if len(w.plans) == 2 {
				w.pageLimit = wire.InsideBatches
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
		{name: "as long as may be", items: 10 * (10 + wire.InsideBatches), legs: 2}, // not known to be the last
		{name: "just short", items: 10 * (10 + wire.InsideBatches - 1), legs: 1},
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
			require.Len(t, numbers, int(c.items+9)/10, "every batch has its own number")
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
		w.plan = func(in wire.PlanInput) error {
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
		w.plan = func(wire.PlanInput) error {
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
	require.True(t, slices.ContainsFunc(w.legs, func(in wire.LegInput) bool { return len(in.Tasks) > 0 }), "what was left went to its own leg")
	require.EqualValues(t, 2000, tiled(w.accepted(report.Manifests)))
}
