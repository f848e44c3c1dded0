package starter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
)

// S21: every view of a job says that it is paused, and none how much time is left.
func TestPaused_Shows(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Minute)
	r := job.Report{Job: "nightly", State: job.Running, Started: at, PausedSince: &at, PlanDone: true, Planned: 100}
	r.OK = 10
	require.Contains(t, newProgress(nil, false, false).line(r), ", paused for 1m0s")
	bar := barLine(r, job.Speed{Items: 1}, 100)
	require.Contains(t, bar, "paused")
	require.NotContains(t, bar, "left")
	r.PausedSince = nil
	require.Empty(t, pausedFor(r))
	require.Contains(t, barLine(r, job.Speed{Items: 1}, 100), "left")
}
