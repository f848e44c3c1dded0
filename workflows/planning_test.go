package workflows

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stretchr/testify/require"
)

// Before the handler's speed is known, the second page waits for it, but not for long.
func TestJob_WaitsForTheSpeed(t *testing.T) {
	t.Parallel()
	planned := func(w *world) time.Duration {
		var at time.Duration
		began := time.Time{}
		w.plan = func(in wire.PlanInput) error {
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
		require.InDelta(t, coordinate.RateWait.Seconds(), planned(w).Seconds(), 0.1)
		require.Zero(t, w.plans[1].Sizing.Rate)
	})
	t.Run("fixed batches need none", func(t *testing.T) {
		t.Parallel()
		w := setup(t, 1000)
		w.took = time.Minute
		require.Less(t, planned(w).Seconds(), 1.0)
	})
}

// The latest leg shows how fast the handler is.
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

func TestFail_Plan(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.ErrorInvalid, job.ErrorInput, job.ErrorOutput, job.ErrorChanged, job.ErrorFenced, job.ErrorBooks, job.ErrorCorrupt} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1000)
			w.plan = func(wire.PlanInput) error { return permanentError(kind) }
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
	w.plan = func(wire.PlanInput) error {
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
	w.plan = func(wire.PlanInput) error {
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

// A first page with work for many slots is too large for the job itself: its leg says how fast the handler is.
func TestJob_LargeFirstPage(t *testing.T) {
	t.Parallel()
	w := setup(t, 10*(wire.InsideBatches+1)+2000)
	w.spec.BatchItems, w.spec.Window, w.took = 0, 0, time.Second
	w.firstLimit = wire.InsideBatches + 1
	w.planner = func(r *wire.PlanResult) {
		r.Worker, r.Capacity = "host-1", wire.Capacity{Slots: 60, Concurrency: 2}
	}
	var at time.Duration
	w.plan = func(in wire.PlanInput) error {
		if len(w.plans) == 2 {
			at = w.env.Now().Sub(w.all[0].at)
		}
		return nil
	}
	report := w.mustRun()
	require.Equal(t, wire.LegID("nightly", 1), w.all[0].workflow)
	require.True(t, w.legs[0].SpeedAwaited)
	require.InDelta(t, 1, at.Seconds(), 0.1, "as soon as a few batches have ended")
	require.Equal(t, wire.Sizing{Rate: 10_000, Slots: 60, Concurrency: 2}, w.plans[1].Sizing)
	require.Equal(t, 120, report.Window)
	require.Equal(t, 2, report.Legs)
}

// What has come of an input that is still being written is run inside the job, and is committed before more comes.
func TestJob_WaitingPages(t *testing.T) {
	t.Parallel()
	w := setup(t, 500)
	w.spec.Files.Input, w.spec.Output, w.spec.BatchItems = []string{job.StandardInput}, "", 0
	w.waits, w.pageLimit, w.planTook, w.took = true, 2, time.Minute, time.Second
	for page := range int64(3) {
		w.at(time.Duration(page+1)*time.Minute+30*time.Second, func() {
			report := w.query()
			require.Equal(t, (page+1)*2*w.perBatch, report.OK)
			readable := w.accepted(slices.Concat(report.Manifests, report.LegManifests))
			require.Equal(t, report.OK, readable[len(readable)-1].End(), "it can be read")
		})
	}
	w.mustRun()
	require.Empty(t, w.legs, "none in a workflow of its own")
}

// A page that comes while the one before it still runs has a leg of its own, and what is committed can be read
// meanwhile.
func TestJob_WaitingPagesOverlap(t *testing.T) {
	t.Parallel()
	w := setup(t, 100*6)
	w.spec.Files.Input, w.spec.Output, w.spec.BatchItems = []string{job.StandardInput}, "", w.perBatch
	w.waits, w.pageLimit, w.planTook, w.took = true, 1, time.Second, 10*time.Second
	w.at(15*time.Second, func() {
		report := w.query()
		require.NotEmpty(t, w.accepted(slices.Concat(report.Manifests, report.LegManifests)))
		require.Positive(t, report.Done())
	})
	w.mustRun()
	require.NotEmpty(t, w.legs)
}

// child is a leg's workflow of which nothing is known but whether it has begun.
// S12: what Temporal's end of a job has cut off before it was committed is committed by the next run.
func TestJob_Salvages(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.manifests["old"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(0, 100), OK: 100}}}
	w.manifests["older"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(100, 100), OK: 100}}}
	ref := wire.Ref{Job: w.spec.Name, Run: "earlier", Store: w.spec.Store, Sources: "sources"}
	w.resume = []string{"old"}
	w.salvage = []wire.CommitInput{
		{Ref: ref, Leg: 3, Previous: []string{"older"}},
		{Ref: ref, Leg: 4, Entries: []wire.Entry{{Batch: batch(500, 50), OK: 50}}},
	}
	report := w.mustRun()
	require.EqualValues(t, 1000, report.OK)
	require.EqualValues(t, 250, report.Resumed)
	require.Zero(t, report.Salvage)
	require.Equal(t, "earlier", w.commits[0].Ref.Run)
	require.Len(t, w.all, 75)
}

// A job that cannot salvage begins nothing, and what earlier runs have committed is still known to it.
func TestJob_SalvageFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 1000)
	w.spec.Init = []string{"prepare"}
	w.manifests["old"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(0, 100), OK: 100}}}
	w.manifests["older"] = wire.CommitInput{Entries: []wire.Entry{{Batch: batch(100, 100), OK: 100}}}
	w.resume = []string{"old"}
	w.salvage = []wire.CommitInput{
		{Leg: 3, Entries: []wire.Entry{{Batch: batch(500, 50), OK: 50}}},
		{Leg: 4, Previous: []string{"older"}, Entries: []wire.Entry{{Batch: batch(600, 50), OK: 50}}},
	}
	w.commit = func(wire.CommitInput) error { return permanentError(job.ErrorOutput) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorOutput)
	require.Empty(t, w.hooks)
	require.Empty(t, w.all)
	require.Equal(t, []string{"old", "older"}, report.Manifests)
	require.Equal(t, 2, report.Salvage, "the next run commits both")
}
