package workflows

import (
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// Finish removes what runs have left that the job takes the place of.
func TestJob_EarlierRunsReachFinish(t *testing.T) {
	t.Parallel()
	w := setup(t, 10)
	var report job.Report
	again, err := w.runOnce(Job, wire.JobInput{StartInput: wire.StartInput{Spec: w.spec, Earlier: []string{"run-0"}, Version: w.version}}, &report, nil)
	require.NoError(t, err)
	require.False(t, again)
	require.Len(t, w.finishes, 1)
	require.Equal(t, []string{"run-0"}, w.finishes[0].Earlier)
}

func TestJob_Pages(t *testing.T) {
	t.Parallel()
	w := setup(t, 10*(wire.FirstPage+wire.PageBatches+5))
	report := w.mustRun()
	require.Equal(t, 3, report.Legs)
	next := int64(0)
	for i, plan := range w.plans {
		require.Equal(t, next, plan.From.Item)
		require.Equal(t, w.spec, plan.Spec)
		require.Equal(t, "nightly", plan.Ref.Job)
		require.Equal(t, "out.jsonl.stint", plan.Ref.Store)
		if i == 0 {
			require.Equal(t, wire.FirstPage, plan.Batches)
			require.Empty(t, plan.Ref.Sources)
		} else {
			require.Equal(t, wire.PageBatches, plan.Batches)
			require.Equal(t, "sources", plan.Ref.Sources)
		}
		next += int64(plan.Batches) * 10
	}
	for i, leg := range w.legs {
		require.Equal(t, i+1, leg.Number)
		require.EqualValues(t, wire.FirstPage+i*wire.PageBatches, leg.Base)
	}
}
