package workflows

import (
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// N1: a schedule starts every run with the same input: the run's name and the time of its tick come from
// its workflow's ID, and stay over continue-as-new.
func TestJob_StartedByASchedule(t *testing.T) {
	t.Parallel()
	w := setup(t, 15_000)
	in := wire.JobInput{StartInput: wire.StartInput{Spec: w.spec, Scheduled: true}}
	in.Spec.Output, in.Spec.Report = "{date-1:2006/01}/out-{date}.jsonl", "report-{time}.json"
	w.spec.Name, w.spec.Output = "nightly-2026-11-01T03:04:05Z", "2026/10/out-2026-11-01.jsonl"
	w.newEnv()
	w.process = func(*execution) { w.env.SetContinueAsNewSuggested(w.runs == 1) }
	var report job.Report
	for again := true; again; {
		var next wire.JobInput
		var err error
		again, err = w.runOnce(Job, in, &report, &next)
		require.NoError(t, err)
		if again {
			in = next
			require.False(t, in.Scheduled)
			require.Equal(t, w.spec.Name, in.Spec.Name)
		}
	}
	require.Equal(t, 2, w.runs)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 15_000, report.OK)
	require.Equal(t, w.spec.Name, report.Job)
	require.Equal(t, w.spec.Output, report.Output.Location)
	require.Equal(t, w.spec.Output, w.memo[wire.MemoOutput], "those who list it see where the output really goes")
	for _, x := range w.all {
		require.Equal(t, w.spec.Name, x.in.Ref.Job)
		require.True(t, x.workflow == w.spec.Name || strings.HasPrefix(x.workflow, w.spec.Name+"/leg-"), x.workflow)
	}
	require.Len(t, w.reports, 1)
	require.Equal(t, "report-20261101T030405Z.json", w.reports[0].Location)
	require.Equal(t, w.spec.Output, w.finishes[0].Spec.Output)
}

// Without placeholders the memo stays as it is.
func TestJob_StartedByAScheduleWithoutPlaceholders(t *testing.T) {
	t.Parallel()
	w := setup(t, 30)
	in := wire.JobInput{StartInput: wire.StartInput{Spec: w.spec, Scheduled: true}}
	w.spec.Name = "nightly-2026-11-21T03:04:05Z"
	w.newEnv()
	var report job.Report
	_, err := w.runOnce(Job, in, &report, nil)
	require.NoError(t, err)
	require.Equal(t, w.spec.Name, report.Job)
	require.Zero(t, w.commands["memo"])
}
