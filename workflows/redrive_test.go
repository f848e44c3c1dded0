package workflows

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// redriving returns a world in which the failed items of a completed job of a thousand are run again.
func redriving(t *testing.T, items int64) *world {
	t.Helper()
	w := setup(t, items)
	w.redrive = &job.Redrive{
		Manifests: []string{"whole"}, Output: job.Output{Location: "out.jsonl", Bytes: 5, Errors: "errors"}, Planned: 1000, Where: "kind=expired", Runs: []string{"before"},
	}
	w.merged = wire.FinishResult{
		Output: job.Output{Location: "out.jsonl", Bytes: 9}, Books: wire.Books{Items: 1000, OK: 997, Failed: 3, Dropped: 11},
		Redriven: items, Manifests: []string{"merged"}, FirstError: &job.FirstError{Item: 512},
	}
	return w
}

func TestJob_Redrive(t *testing.T) {
	t.Parallel()
	w := redriving(t, 300)
	w.pageLimit = 9
	w.planTook = time.Second
	w.at(time.Second/2, func() {
		r := w.query()
		require.Equal(t, []string{"whole"}, r.Manifests, "of the job as it had completed")
		require.Equal(t, &w.redrive.Output, r.Output)
		require.Equal(t, w.redrive.Manifests, r.Redrive.Manifests)
	})
	report := w.mustRun()
	require.EqualValues(t, 300, report.Redriven)
	require.EqualValues(t, 1000, report.Planned, "the report is that of the whole job")
	require.EqualValues(t, 997, report.OK)
	require.EqualValues(t, 3, report.Failed)
	require.EqualValues(t, 11, report.Dropped)
	require.EqualValues(t, 30, report.Batches)
	require.EqualValues(t, 512, report.FirstError.Item)
	require.Equal(t, []string{"merged"}, report.Manifests)
	require.Equal(t, &w.merged.Output, report.Output)
	require.Nil(t, report.Redrive)
	require.Equal(t, report, w.query())
	require.Len(t, w.redriven, len(w.plans)+1, "every page is planned as the redrive's, and the output finished")
	for _, of := range w.redriven {
		require.Equal(t, *w.redrive, of)
	}
	require.EqualValues(t, 300, w.finishes[0].Planned)
}

// Stopped again and again, a redrive does everything once; until it has completed its report shows the
// output as it was.
func TestJob_RedriveStoppedAndGoneOnWith(t *testing.T) {
	t.Parallel()
	w := redriving(t, 600)
	w.spec.Window, w.pageLimit, w.took = 8, 20, time.Second
	for round := 0; ; round++ {
		require.Less(t, round, 40)
		w.at(time.Duration(3+round)*time.Second, func() { w.stop(job.Stop{}) })
		report, err := w.run()
		require.NoError(t, err)
		if report.State == job.Completed {
			require.EqualValues(t, 600, report.Redriven)
			break
		}
		require.Equal(t, job.Stopped, report.State)
		require.Equal(t, w.redrive.Manifests, report.Manifests)
		require.Equal(t, &w.redrive.Output, report.Output)
		require.Equal(t, report, w.query())
		w.resume = report.Redrive.Done
	}
	w.requireSettled()
}

func TestJob_RedriveFails(t *testing.T) {
	t.Parallel()
	w := redriving(t, 100)
	w.finish = func(wire.FinishInput) error { return permanentError(job.ErrorCorrupt) }
	_, err := w.run()
	report := w.failedReport(err, job.ErrorCorrupt)
	require.Equal(t, w.redrive.Manifests, report.Manifests)
	require.NotEmpty(t, report.Redrive.Done)
	require.Zero(t, report.Redriven)
}

// A redrive of many items continues in a new run as one.
func TestJob_RedriveContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := redriving(t, 8000)
	w.pageLimit, w.spec.Window = 50, 10
	w.process = func(x *execution) {
		uneven(x)
		w.env.SetContinueAsNewSuggested(w.runs == 1 && x.number > 120)
	}
	report := w.mustRun()
	require.Greater(t, w.runs, 1)
	require.EqualValues(t, 8000, report.Redriven)
	require.Len(t, w.redriven, len(w.plans)+1)
	require.Equal(t, *w.redrive, w.redriven[len(w.redriven)-1])
}

// What has failed before may fail again: a redrive is not held to what a job tolerates.
func TestJob_RedriveToleratesWhatFails(t *testing.T) {
	t.Parallel()
	w := redriving(t, 100)
	w.spec.MaxFailed = "1%"
	w.process = func(x *execution) {
		n := x.in.Batch.Count
		x.result.Entry.OK, x.result.Entry.Failed = 0, n
		x.result.Totals.OK, x.result.Totals.Failed = 0, n
	}
	require.EqualValues(t, 100, w.mustRun().Redriven)
}
