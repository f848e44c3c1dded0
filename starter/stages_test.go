package starter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestStages_P1_JobFile: a job file has stages, each with its own pool; one that nobody serves is named, and the job waits for it.
func TestStages_P1_JobFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "one\n\ntwo\nthree\nfour\n")
	b.write("job.yaml", `
name: words
input: in.txt
output: out.txt
stages:
- {name: clean, pool: upper, window: 5}
- {name: turn, pool: turn}
`)
	b.worker("upper", "--exec", "tr a-z A-Z")
	running := b.start("start", "-f", "job.yaml", "--wait")
	running.says("no worker serves pool turn")
	b.refused(starter.ExitFailed, []string{"set", "words", "score.window=3"}, "score.window: no pool runs a stage of that name: use clean, turn")
	set := b.stint("set", "words", "turn.window=30", "clean.window=auto").exits(starter.ExitOK)
	require.Regexp(t, `(?m)^clean\.window +auto\nturn\.window +30$`, set.stdout.String())
	require.Eventually(t, func() bool { return b.status("words").Stages[1].InFlight == 4 }, time.Minute, 50*time.Millisecond)
	status := b.stint("status", "words").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `stage clean +0 batches waiting, 0 in flight, 4 items done, 0 failed, [0-9.]+ items/s, 100% of the time, pool upper`, status)
	require.Regexp(t, `stage turn +0 batches waiting, 4 in flight, 0 items done, 0 failed, pool turn`, status)
	b.eventuallyStatus("words", "turn")
	b.worker("turn", "--exec", "rev")
	running.exits(starter.ExitOK)
	require.Equal(t, "ENO\nOWT\nEERHT\nRUOF\n", b.read("out.txt"))
}

// eventuallyStatus waits until a job's report names the pools as those that nobody serves.
func (b *box) eventuallyStatus(name string, unserved ...string) {
	b.t.Helper()
	eventually(b.t, "a report of unserved pools", func() bool {
		var r job.Report
		b.reads(&r, "status", name, "--json")
		return slices.Equal(r.UnservedPools, unserved)
	})
}

// TestStages_P1_UnservedPools: pools within ensembles and switches that nobody serves are named by everything that follows the job, and by its own
// report, which the web UI shows. The job waits, and says no more of a pool once a worker has come.
func TestStages_P1_UnservedPools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.jsonl", "{\"k\":\"x\"}\n{\"k\":\"y\"}\n")
	b.write("job.yaml", `
name: graph
input: in.jsonl
output: out.jsonl
stages:
- {name: score, ensemble: [{pool: one}, {pool: two}]}
- {name: pick, pool: one}
- {name: route, switch: .k, cases: {x: {pool: three}}, default: {pool: router}}
`)
	b.worker("one", "--exec", `sed -E 's/.*("k":"[^"]*").*/{\1}/'`)
	c := b.stint("start", "-f", "job.yaml").exits(starter.ExitOK)
	for _, pool := range []string{"two", "three", "router"} {
		require.Contains(t, c.stderr.String(), "no worker serves pool "+pool)
	}
	b.eventuallyStatus("graph", "two", "three", "router")
	watching := b.start("watch", "graph")
	for _, pool := range []string{"two", "three", "router"} {
		watching.says("no worker serves pool " + pool)
	}
	require.Contains(t, b.stint("status", "graph").exits(starter.ExitOK).stderr.String(), "no worker serves pool three")
	b.worker("two", "--exec", "cat")
	b.eventuallyStatus("graph", "three", "router")
	b.worker("three", "--exec", "tr x X")
	b.worker("router", "--exec", "tr y Y")
	watching.exits(starter.ExitOK)
	require.Equal(t, "{\"k\":\"X\"}\n{\"k\":\"Y\"}\n", b.read("out.jsonl"))
	var r job.Report
	b.reads(&r, "status", "graph", "--json")
	require.Empty(t, r.UnservedPools)
}
