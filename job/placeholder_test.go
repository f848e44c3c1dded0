package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScheduledName(t *testing.T) {
	t.Parallel()
	schedule, at, ok := ScheduledName("nightly-2026-11-21T03:04:05Z")
	require.True(t, ok)
	require.Equal(t, "nightly", schedule)
	require.Equal(t, time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC), at)
	for _, other := range []string{"", "nightly", "nightly-2026-11-21", "nightly-2026-13-21T03:04:05Z", "nightly-2026-11-21T03:04:05Z/leg-1"} {
		_, _, ok := ScheduledName(other)
		require.False(t, ok, "%q", other)
	}
}

// A run of a schedule can be redriven under its own name.
func TestCheckName_OfScheduledJobs(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckName("job", "nightly-2026-11-21T03:04:05Z"))
	require.Error(t, CheckName("job", "Nightly-2026-11-21T03:04:05Z"))
	require.Error(t, CheckName("job", "-2026-11-21T03:04:05Z"))
	require.Error(t, CheckName("pool", "nightly-2026-11-21T03:04:05Z"))
}

func TestSpec_Ticked(t *testing.T) {
	t.Parallel()
	s := Spec{
		Name: "nightly", Pool: "p", Input: []string{"in-{date}.jsonl", "{a,b}.csv"},
		Output: "s3://b/{date}/out-{time}.jsonl?region=x", Report: "report-{time}.json",
	}.WithDefaults()
	got := s.Ticked("nightly-2026-11-21T03:04:05Z")
	require.Equal(t, "nightly-2026-11-21T03:04:05Z", got.Name)
	require.Equal(t, []string{"in-2026-11-21.jsonl", "{a,b}.csv"}, got.Input)
	require.Equal(t, "s3://b/2026-11-21/out-20261121T030405Z.jsonl?region=x", got.Output)
	require.Equal(t, "s3://b/2026-11-21/out-20261121T030405Z.jsonl.errors.jsonl?region=x", got.Errors)
	require.Equal(t, "s3://b/2026-11-21/out-20261121T030405Z.jsonl.stint?region=x", got.Store)
	require.Equal(t, "report-20261121T030405Z.json", got.Report)
	require.NoError(t, got.Validate())
	require.Equal(t, []string{"in-{date}.jsonl", "{a,b}.csv"}, s.Input, "the schedule's own stays as it is")

	other := s.Ticked("by-hand")
	require.Equal(t, "by-hand", other.Name)
	require.Equal(t, s.Output, other.Output, "there is no tick")
}
