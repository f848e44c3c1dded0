package starter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func TestFailureGroups(t *testing.T) {
	t.Parallel()
	var g failureGroups
	add := func(item int64, kind, typ, message string) {
		g.add(job.FirstError{Item: item, Kind: kind, Error: job.Error{Type: typ, Message: message}})
	}
	for i := range int64(30) {
		add(i, job.KindError, "ValueError", fmt.Sprintf("record %d has no name\nand more", i))
		add(100+i%7, job.KindExit, "Exit", fmt.Sprintf("exit %d: line %d", 3+i%2, i))
	}
	add(200, job.KindError, "error", "odd")
	require.Equal(t, "error: ", failureLabel(job.FirstError{Kind: job.KindError, Error: job.Error{Type: "PathError"}}), "14.15: no types of Go")
	groups, others := g.largest(3)
	require.EqualValues(t, 1, others)
	require.Len(t, groups, 3)
	require.Equal(t, failureGroup{"error ValueError: ", "record 0 has no name", 0, 30}, *groups[0])
	require.Equal(t, failureGroup{"", "exit 3: line 0", 100, 15}, *groups[1])
	require.Equal(t, failureGroup{"", "exit 4: line 1", 101, 15}, *groups[2])
}

// The memory is bounded, however many messages there are, and nothing is lost from the count.
func TestFailureGroups_AreBounded(t *testing.T) {
	t.Parallel()
	var g failureGroups
	name := func(i int) string { return strings.Repeat("x", i%50) + strings.Repeat("y", i/50) }
	for i := range 2 * heldGroups {
		g.add(job.FirstError{Item: int64(i), Kind: job.KindError, Error: job.Error{Message: name(i)}})
	}
	require.Len(t, g.groups, heldGroups)
	groups, others := g.largest(shownGroups)
	require.Len(t, groups, shownGroups)
	require.EqualValues(t, 2*heldGroups-shownGroups, others)
}

// 14.15: the end of a job groups its failures by type and message, with one example each, and says where their records
// are.
func TestSummary_GroupsFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.errors.jsonl")
	var records bytes.Buffer
	for i := range int64(1200) {
		f := job.Failure{Item: 5 + i, Kind: job.KindExit, Error: job.Error{Type: "Exit", Message: fmt.Sprintf("exit 7: no bird %d", i)}, Input: json.RawMessage("1")}
		if i == 3 {
			f.Kind, f.Error = job.KindCrash, job.Error{Type: "Signal", Message: "signal: killed"}
			f.Input = json.RawMessage(`"` + strings.Repeat("long", 30_000) + `"`)
		}
		require.NoError(t, json.NewEncoder(&records).Encode(f))
	}
	require.NoError(t, os.WriteFile(path, records.Bytes(), 0o600))
	var times calltimes.Timer
	times.Add(12 * time.Millisecond)
	times.Add(1340 * time.Millisecond)
	r := job.Report{Job: "j", State: job.Completed, Outcomes: job.Outcomes{Totals: job.Totals{OK: 1, Failed: 1200, Retries: 1, SlowDowns: 2, Calls: 2, CallTimes: job.CallTimes(times.String())}},
		Output: &job.Output{Location: filepath.Join(dir, "out"), Errors: path}}
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
  output: out
  errors: out.errors.jsonl
`, said())

	r.Output.Errors = "s3://bucket/out.errors.jsonl"
	require.Contains(t, said(), "  errors: s3://bucket/out.errors.jsonl\n")
	require.NotContains(t, said(), "failures by type")
	r.Output.Errors = ""
	require.Contains(t, said(), "  errors: not kept (--on-error drop)\n")
	r.State = job.Stopped
	require.Contains(t, said(), "  errors: in the store: the file is written when the job has completed\n")
}
