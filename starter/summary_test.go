package starter

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// 14.15: the end of a job groups its failures by type and message, with one example each, and says where their records
// are.
func TestSummary_GroupsFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.errors.jsonl")
	var times calltimes.Timer
	times.Add(12 * time.Millisecond)
	times.Add(1340 * time.Millisecond)
	r := job.Report{Job: "j", State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{OK: 1, Failed: 1200, Retries: 1, SlowDowns: 2, Calls: 2, CallTimes: calltimes.Text(times.String())}},
		Output: &job.Output{Location: filepath.Join(dir, "out"), Errors: path},
		Failures: []job.FailureGroup{
			{Kind: job.KindExit, Type: "Exit", Pattern: "exit 7: no bird *", Count: 1199, Item: 5, Message: "exit 7: no bird 0"},
			{Kind: job.KindCrash, Type: "Signal", Pattern: "signal: killed", Count: 1, Item: 8, Message: "signal: killed"},
			{Count: 3},
		}}
	said := func() string {
		var b strings.Builder
		summary(&b, dir, r, time.Second, true)
		return b.String()
	}
	require.Equal(t, `j: completed: 1 item ok, 1,200 failed, 1 retry, 2 slow-downs in 1s, 1,200 items/s
  2 calls: p50 12ms, p95 1.2s, max 1.34s
  failures by type and message, each with its first item:
    1,199 × exit 7: no bird 0 (item 5)
        1 × crash: signal: killed (item 8)
        3 × others
  output: out
  errors: out.errors.jsonl
`, said())

	r.Output.Errors = "s3://bucket/out.errors.jsonl"
	require.Contains(t, said(), "  errors: s3://bucket/out.errors.jsonl\n")
	r.Output.Errors = ""
	require.Contains(t, said(), "  errors: not kept (--on-error drop)\n")
	r.State = job.Stopped
	require.Contains(t, said(), "  errors: in the store: the file is written when the job has completed\n")
}
