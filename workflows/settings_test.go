package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stretchr/testify/require"
)

// Settings change while the job runs, show in the report, and live on over its runs.
func TestSet_TakesEffect(t *testing.T) {
	t.Parallel()
	window, rate, items, most := 3, job.Rate(50_000), int64(7), job.Tolerance("3%")
	w := setup(t, 20_000)
	w.pageLimit, w.spec.Window = 50, 20
	w.took = time.Second
	changed := false
	w.process = func(x *execution) {
		w.pacedBatch(x, 100*time.Millisecond)
		if changed && x.seconds() > 15 {
			require.LessOrEqual(t, x.beside, window)
			require.LessOrEqual(t, w.paces(), rate)
		}
	}
	w.at(10*time.Second, func() {
		w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &changed), job.Settings{Window: &window, Rate: &rate, BatchItems: &items, MaxFailed: &most})
	})
	report := w.mustRun()
	require.True(t, changed)
	require.Equal(t, w.spec.With(job.Settings{Window: &window, Rate: &rate, BatchItems: &items, MaxFailed: &most}).Settings(), report.Settings)
	last := w.plans[len(w.plans)-1]
	require.Equal(t, items, last.Spec.BatchItems)
	require.Equal(t, window, last.Spec.Window)
}

// A larger window is used at once, by a leg in a child workflow and by one inside the job.
func TestSet_LargerWindow(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{150, 20_000} {
		t.Run(fmt.Sprint(items), func(t *testing.T) {
			t.Parallel()
			window := 30
			w := setup(t, items)
			w.spec.Window = 2
			w.took = 10 * time.Second
			set := false
			w.at(15*time.Second, func() {
				w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{Window: &window})
			})
			report, err := w.run()
			require.NoError(t, err)
			require.Equal(t, job.Completed, report.State)
			require.Greater(t, w.most, min(9, int(items/20)))
			require.LessOrEqual(t, w.most, window)
		})
	}
}

// A smaller window counts as soon as batches end, in whichever leg they are, and no place is lost.
func TestSet_SmallerWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   time.Duration
		slow int64 // batch of this item keeps its leg open
	}{{50 * time.Second, -1}, {95 * time.Second, 500}, {200 * time.Second, -1}, {250 * time.Second, 5000}} {
		t.Run(c.at.String(), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 160+6*2000)
			w.pageLimit, w.spec.Window, w.took = 200, 20, 10*time.Second
			window := 5
			var begun time.Time
			w.process = func(x *execution) {
				if x.in.Batch.First == c.slow {
					x.took = time.Hour
				}
				if !begun.IsZero() && x.at.Sub(begun) > 25*time.Second {
					require.LessOrEqual(t, x.beside, window)
				}
			}
			set := false
			w.at(c.at, func() {
				begun = w.env.Now()
				w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{Window: &window})
			})
			restored := false
			w.at(c.at+time.Minute, func() {
				begun = time.Time{}
				w.env.UpdateWorkflow(wire.UpdateSet, "two", accept(t, &restored), job.Settings{Window: &w.spec.Window})
			})
			report := w.mustRun()
			require.True(t, set && restored)
			at := report.Started.Add(c.at + 2*time.Minute)
			most := 0
			for _, x := range w.all {
				if x.at.After(at) {
					most = max(most, x.beside)
				}
			}
			kept := 0
			if c.slow >= 0 {
				kept = w.spec.Window / (dispatch.MaxHandBacks - 1) // a leg that drains may keep less than a share to its end
			}
			require.GreaterOrEqual(t, most, w.spec.Window-kept, "the places are back")
		})
	}
}

// What cannot be set is refused, and leaves no trace.
func TestSet_Refused(t *testing.T) {
	t.Parallel()
	none, negative, wrong := -1, int64(-1), job.Tolerance("many")
	w := setup(t, 1000)
	w.took = time.Minute
	w.spec.Window = 2
	w.settle = 5 * time.Second
	refused := 0
	newer := map[string]any{"window": 7, "colour": "blue"} // V1: of a newer client
	for i, s := range []any{job.Settings{}, job.Settings{Window: &none}, job.Settings{BatchItems: &negative}, job.Settings{MaxFailed: &wrong}, newer} {
		w.at(time.Second, func() { w.env.UpdateWorkflow(wire.UpdateSet, fmt.Sprint(i), refuse(t, &refused), s) })
	}
	w.at(10*time.Minute+30*time.Second, func() { w.stop(job.Stop{Grace: "10m"}) })
	w.at(10*time.Minute+31*time.Second, func() {
		w.env.UpdateWorkflow(wire.UpdateSet, "late", refuse(t, &refused), job.Settings{Rate: new(job.Rate)})
	})
	report := w.stopped()
	require.Equal(t, 6, refused)
	require.Equal(t, 2, *report.Settings.Window)
}

// S22: batches have the priority of their job, and those to come that which has been set; so do legs that begin later.
func TestSet_Priority(t *testing.T) {
	t.Parallel()
	for _, items := range []int64{150, 20_000} {
		w := setup(t, items)
		w.spec.Window, w.took = 2, 10*time.Second
		w.spec.Priority = 4
		set := false
		first := 1
		w.process = func(x *execution) {
			want := 4
			if set {
				want = first
			}
			require.Equal(t, want, x.options.Priority.PriorityKey)
		}
		w.at(15*time.Second, func() {
			w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{Priority: &first})
		})
		report := w.mustRun()
		require.True(t, set)
		require.Equal(t, 1, *report.Settings.Priority)
	}
}

// A tolerance that is set below what has failed already ends the job.
func TestSet_Tolerance(t *testing.T) {
	t.Parallel()
	five := job.Tolerance("5")
	w := setup(t, 20_000)
	w.took, w.spec.Window = time.Second, 5
	w.process = func(x *execution) { x.failing(1) }
	set := false
	w.at(30*time.Second, func() {
		w.env.UpdateWorkflow(wire.UpdateSet, "one", accept(t, &set), job.Settings{MaxFailed: &five})
	})
	_, err := w.run()
	report := w.failedReport(err, job.ErrorTooMany)
	require.LessOrEqual(t, took(report), 60.0)
}
