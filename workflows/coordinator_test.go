package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

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
		require.Empty(t, r.OpenLegs, "all places are in use")
		require.Equal(t, 1, r.Legs)
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
		wire.Include(&r, p)
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
		require.Equal(t, job.Stopping, w.memo[wire.MemoState])
	})
	report, err := w.run()
	require.NoError(t, err)
	require.Equal(t, job.Stopped, report.State)
	require.Equal(t, job.Stopped, w.memo[wire.MemoState])
	require.Equal(t, report, w.query())
}
