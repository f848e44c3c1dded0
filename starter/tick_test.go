package starter

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// 14.1: a line of --json has its time, the rate, the time left and the age of its numbers, with units in their names.
func TestTick(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show := newProgress(&out, false, true)
	now := time.Date(2026, 11, 25, 1, 2, 3, 0, time.UTC)
	r := job.Report{Job: "j", State: job.Running, PlanDone: true, Planned: 400, Outcomes: job.Outcomes{Totals: job.Totals{OK: 95, Failed: 5}}}
	show.pace.Note(job.Report{Job: "j"}, now.Add(-10*time.Second))
	show.pace.Note(r, now)
	r.AsOf = now.Add(-1500 * time.Millisecond)
	show.tick(r, now)
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	for name, want := range map[string]any{
		"time": "2026-11-25T01:02:03Z", "items_done": 100.0, "items_per_second": 10.0, "bytes_per_second": 0.0, "percent": 25.0, "seconds_left": 30.0,
		"age_seconds": 1.5, "job": "j", "state": "running", "ok": 95.0, "failed": 5.0,
	} {
		require.Equal(t, want, got[name], name)
	}
	out.Reset()
	r.State, r.AsOf, r.PlanDone = job.Completed, time.Time{}, false
	show.tick(r, now)
	require.NotContains(t, out.String(), "seconds_left")
	require.NotContains(t, out.String(), "age_seconds")
	require.NotContains(t, out.String(), `"percent"`)
}
