package starter_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	looks "github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestStages_P1_JobFile: a job file has stages, each with its own pool; one that nobody serves is named, and the job
// waits for it.
func TestStages_P1_JobFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "one\ntwo\nthree\nfour\n")
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
	require.Eventually(t, func() bool { return b.status("words").Stages[1].InFlight == 4 }, patience, 50*time.Millisecond)
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

// TestStages_P1_UnservedPools: pools within ensembles and switches that nobody serves are named by everything that
// follows the job, and by its own report, which the web UI shows. The job waits, and says no more of a pool once a
// worker has come.
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

// TestStages_S9_PoolOfALaterStage: a pipeline is a job of each of its pools. Those who ask for one see it, with the
// batches of that pool, and stop it.
func TestStages_S9_PoolOfALaterStage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", "one\ntwo\n")
	b.write("job.yaml", `
name: words
input: in.txt
output: out.txt
stages:
- {name: clean, pool: upper}
- {name: turn, pool: turn}
`)
	b.worker("upper", "--exec", "tr a-z A-Z")
	b.worker("turn", "--exec", b.gated())
	running := b.start("start", "-f", "job.yaml", "--wait")
	eventually(t, "the second stage", func() bool { return b.lines("started") > 0 })
	var r looks.Workers
	b.reads(&r, "workers", "--json", "--pool", "turn")
	require.NotEmpty(t, r.Running)
	for _, batch := range r.Running {
		require.Equal(t, "words", batch.Job)
		require.Equal(t, "turn", batch.Pool)
	}
	require.NotEmpty(t, r.Workers)
	for _, w := range r.Workers {
		require.Equal(t, "turn", w.Pool, "the pools that were asked for, and no other")
	}
	eventually(t, "the first stage's end: the batches are all of the other pool", func() bool {
		var r looks.Workers
		b.reads(&r, "workers", "--json", "--pool", "upper")
		return len(r.Running) == 0
	})
	var jobs []jobs.Listed
	b.reads(&jobs, "list", "--json", "--pool", "turn")
	require.Len(t, jobs, 1)
	require.Equal(t, []string{"upper", "turn"}, jobs[0].Pools)
	require.Equal(t, "0\n", b.stint("stop", "--pool", "nobody").exits(starter.ExitOK).stdout.String())
	require.Equal(t, "1\n", b.stint("stop", "--pool", "turn", "--grace", "0", "--wait").exits(starter.ExitOK).stdout.String())
	running.exits(starter.ExitStopped)
}

// TestStages_P2_P3_Counts: what a report says of the stages of a switch and an ensemble adds up. Each stage has had the
// items that the ones before it have let through, and no step in between counts, although the one that gathers the
// items for the router has its name.
func TestStages_P2_P3_Counts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	var input strings.Builder
	for n := range 20 {
		fmt.Fprintf(&input, "{\"n\":%d}\n", n)
	}
	b.write("in.jsonl", input.String())
	b.write("job.yaml", `
name: graph
input: in.jsonl
output: out.jsonl
batch-items: 7
attempts: 1
backoff: 1ms
stages:
- {name: route, switch: router, cases: {even: {pool: two}, odd: {pool: one}}}
- {name: score, ensemble: [{pool: first}, {pool: second}]}
- {name: end, pool: last}
`)
	filter := func(name, rules string) string {
		return b.script(name, "exec awk '{ match($0, /[0-9]+/); n = substr($0, RSTART, RLENGTH) % 10 } "+rules+"'")
	}
	for pool, rules := range map[string]string{
		"router": `n == 0 { exit 3 } n == 1 { print "\"neither\""; next } n == 2 { print ""; next } { print n % 2 ? "\"odd\"" : "\"even\"" }`,
		"two":    `n == 4 { exit 3 } { print }`,
		"one":    `n == 3 { print ""; next } { print }`,
		"first":  `n == 5 { exit 3 } { print }`,
		"second": `{ print }`,
		"last":   `n == 7 { exit 3 } n == 6 { print ""; next } { print }`,
	} {
		b.worker(pool, "--exec", filter(pool, rules))
	}
	b.stint("start", "-f", "job.yaml", "--wait").exits(starter.ExitSomeFailed)
	r := b.status("graph")
	got := map[string][2]int64{}
	for _, s := range r.Stages {
		got[s.Stage] = [2]int64{s.Done, s.Failed}
		require.EqualValues(t, 3, s.Batches, s.Stage)
	}
	require.Equal(t, map[string][2]int64{
		"route": {20, 2}, "route.two": {6, 2}, "route.one": {8, 0},
		"score.first": {10, 2}, "score.second": {10, 0},
		"end": {8, 2},
	}, got)
	require.EqualValues(t, 2+2+2+2+2, r.Failed, "also those that the router has sent nowhere")
	require.EqualValues(t, 2+2, r.Dropped, "an empty line of the last stage is a result")
	require.EqualValues(t, 20, r.OK+r.Failed)
	failures := map[string]int{}
	for _, f := range b.failures("out.jsonl.errors.jsonl") {
		failures[f.Stage]++
	}
	require.Equal(t, map[string]int{"route": 4, "route.two": 2, "score.first": 2, "end": 2}, failures)
	status := b.stint("status", "graph").exits(starter.ExitOK).stdout.String()
	for stage, counts := range got {
		require.Regexp(t, fmt.Sprintf(`(?m)^stage %s +0 batches waiting, 0 in flight, %d items done, %d failed, `, regexp.QuoteMeta(stage), counts[0], counts[1]), status)
	}
	require.Equal(t, len(got), strings.Count(status, "\nstage "))
}
