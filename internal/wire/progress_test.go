package wire

import (
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestReport_Include(t *testing.T) {
	t.Parallel()
	first := &job.FirstError{Item: 3, Kind: job.KindError, Error: job.Error{Message: "three"}}
	r := job.Report{Outcomes: job.Outcomes{Totals: job.Totals{OK: 10}}, Waiting: 1, InFlight: 2, LastFailure: "before"}
	Include(&r, job.Progress{Outcomes: job.Outcomes{Totals: job.Totals{OK: 5, Failed: 1}, FirstError: first}, Waiting: 3, InFlight: 4})
	require.EqualValues(t, 15, r.OK)
	require.EqualValues(t, 1, r.Failed)
	require.Equal(t, 4, r.Waiting)
	require.Equal(t, 6, r.InFlight)
	require.Equal(t, first, r.FirstError)
	require.Equal(t, "before", r.LastFailure, "a leg without a failure leaves the last one known")

	Include(&r, job.Progress{Outcomes: job.Outcomes{FirstError: &job.FirstError{Item: 9}}, LastFailure: "after"})
	require.Equal(t, first, r.FirstError, "the first one counts")
	require.Equal(t, "after", r.LastFailure)
}

// Of two legs that wait, the report shows what began first.
func TestReport_IncludesTheEarlierOutage(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	var r job.Report
	for _, minute := range []time.Duration{3, 2, 4} {
		Include(&r, job.Progress{Outage: &job.Outage{Since: at.Add(minute * time.Minute)}})
		Include(&r, job.Progress{})
	}
	require.Equal(t, at.Add(2*time.Minute), r.Outage.Since)
}

// P8: the numbers of the legs of a job add up, stage by stage.
func TestInclude_P8_Stages(t *testing.T) {
	t.Parallel()
	r := job.Report{Outcomes: job.Outcomes{Stages: []job.StageReport{{Stage: "clean", Pool: "awk", Window: 7}, {Stage: "score", Pool: "models"}}}}
	Include(&r, job.Progress{Outcomes: job.Outcomes{Stages: []job.StageReport{{Stage: "clean", Waiting: 1, InFlight: 2, Batches: 3, Done: 40, Failed: 5, Busy: 6 * time.Second}}}})
	before := r.Stages
	Include(&r, job.Progress{Outcomes: job.Outcomes{Stages: []job.StageReport{
		{Stage: "score", Done: 30, Busy: 18 * time.Second}, {Stage: "clean", Waiting: 10, InFlight: 20, Batches: 30, Done: 400, Failed: 50},
	}}})
	require.Equal(t, []job.StageReport{
		{Stage: "clean", Pool: "awk", Window: 7, Waiting: 11, InFlight: 22, Batches: 33, Done: 440, Failed: 55, Busy: 6 * time.Second},
		{Stage: "score", Pool: "models", Done: 30, Busy: 18 * time.Second},
	}, r.Stages)
	require.EqualValues(t, 40, before[0].Done, "an earlier report stays")
}

func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	kinds := PermanentErrors()
	require.ElementsMatch(t, []string{
		job.ErrorInvalid, job.ErrorInput, job.ErrorChanged, job.ErrorOutput, job.ErrorFenced, job.ErrorBooks, job.ErrorCorrupt, ErrorOrphaned, job.ErrorNoHook,
	}, kinds)
	kinds[0] = "changed"
	require.Equal(t, job.ErrorInvalid, PermanentErrors()[0], "callers get their own list")
}

func TestPer(t *testing.T) {
	t.Parallel()
	require.Equal(t, job.Rate(1000), Per(10, 10*time.Second))
	require.Equal(t, job.Rate(1), Per(1, 24*time.Hour), "never none")
	require.Equal(t, job.Rate(0), Per(0, time.Second))
	require.Equal(t, job.Rate(0), Per(5, 0))
	require.EqualValues(t, limits.MaxRate, Per(1<<62, time.Millisecond))
}
