package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

const (
	// items are those of a job. In each phase it gets so many tokens, and must have done at least half of that: calls that
	// are cut off take theirs along.
	items, inPhase = 200, 20
)

// gated is a handler whose calls wait for a token of their job, which is the first letter of its items. Those of feeds do
// not wait.
const gated = `read -r item
while [ "${item#feed}" = "$item" ] && [ ! -e open ]; do
	for token in "$(printf %.1s "$item")"/*; do mv "$token" used/ 2>/dev/null && break 2; done
	sleep 0.05
done
echo "done $item"
`

// V1: two programs, whose workflows have other commands, run jobs and feeds of both side by side. Three workers are
// replaced one after the other while they run, then the server, then all of them back. No workflow task fails, and the
// outputs are exact. While no worker knows a job's logic, the job waits, and says what it needs.
func TestUpgrade(t *testing.T) {
	long := os.Getenv("STINT_UPGRADE") == "long"
	if testing.Short() {
		t.Skip("whole processes")
	}
	p, c := build(t), newCluster(t)
	want := map[string]string{}
	for _, name := range []string{"old", "new"} {
		var in strings.Builder
		for n := range items {
			fmt.Fprintf(&in, "%s-%d\n", name, n)
		}
		c.write(name+".in.txt", in.String(), 0o600)
		want[name] = "done " + strings.ReplaceAll(strings.TrimSpace(in.String()), "\n", "\ndone ") + "\n"
	}
	for _, dir := range []string{"o", "n", "used"} {
		require.NoError(t, os.Mkdir(filepath.Join(c.dir, dir), 0o700))
	}
	c.write("gated.sh", gated, 0o600)
	c.serve(p.previous)
	for i := range 3 {
		c.work(i, p.previous)
	}
	// Each worker has slots for all that both jobs have in flight, whichever of them waits for tokens.
	start := func(program, name string) {
		c.must(program, "start", name+".in.txt", "--pool", "p", "--name", name, "-o", name+".txt", "--batch-items", "5", "--window", "2")
	}
	start(p.previous, "old")
	start(p.next, "new")
	feeds := map[string]string{"feed-old": p.previous, "feed-new": p.next}
	for name, program := range feeds {
		c.must(program, "start", "--feed", "--format", "text", "--pool", "p", "--name", name, "-o", name+"/")
	}
	const needs = "needs stint ≥ 0.2"
	for _, program := range []string{p.previous, p.next} { // an older client, and a newer one
		said, err := c.run(program, "status", "new")
		require.Error(t, err)
		require.Contains(t, said, needs)
		require.Contains(t, c.must(program, "list"), "running, "+needs)
	}
	tokens, called := 0, 0
	done := map[string]int64{}
	// pass lets a phase of the jobs through, and waits until they have done it.
	pass := func(program string, names ...string) {
		t.Helper()
		for _, name := range names {
			called++
			item := fmt.Sprintf("feed-%d", called)
			require.Contains(t, c.must(program, "feed", "call", "feed-"+name, item, "--timeout", patience.String()), "done "+item)
			for range inPhase {
				tokens++
				c.write(fmt.Sprintf("%.1s/%d", name, tokens), "", 0o600)
			}
			enough := done[name] + inPhase/2
			c.until(fmt.Sprintf("%s has done %d items", name, enough), func() bool { done[name] = c.ask(program, name).OK; return done[name] >= enough })
		}
	}
	pass(p.previous, "old")
	for i := range 3 {
		c.work(i, p.next)
		pass(p.next, "old", "new")
	}
	c.serve(p.next)
	pass(p.next, "old", "new")
	for i := range 2 {
		c.work(i, p.previous)
		pass(p.previous, "old", "new")
	}
	c.work(2, p.previous)
	c.serve(p.previous) // it knows none of the workers that have ended
	pass(p.previous, "old")
	said, err := c.run(p.previous, "status", "new")
	require.Error(t, err)
	require.Contains(t, said, needs)
	if long {
		mistake(t, c, p)
	}
	c.write("open", "", 0o600)
	c.until("the old job has completed", func() bool { return c.ask(p.previous, "old").State == "completed" })
	c.work(3, p.next)
	c.until("the new job has completed", func() bool { return c.ask(p.next, "new").State == "completed" })
	for name := range feeds {
		c.must(p.next, "feed", "close", name, "--wait")
	}
	results := strings.Count(c.must(p.next, "results", "feed-old"), "done ") + strings.Count(c.must(p.next, "results", "feed-new"), "done ")
	require.Equal(t, called, results)
	for name, lines := range want {
		got, err := os.ReadFile(filepath.Join(c.dir, name+".txt"))
		require.NoError(t, err)
		require.Equal(t, lines, string(got), name)
	}
	if !long {
		require.Empty(t, failedTasks(t, c))
	}
}

// mistake replaces a worker by one whose workflows are not gated: it shows that what the other programs do differently
// would fail a workflow task, and that the test would see it.
func mistake(t *testing.T, c *cluster, p programs) {
	t.Helper()
	require.Empty(t, failedTasks(t, c), "before the mistake")
	for i := range 3 {
		c.work(i, p.next, "STINT_TEST_UNGATED=1")
	}
	c.until("a workflow task fails", func() bool { return len(failedTasks(t, c)) > 0 })
	for i := range 3 {
		c.work(i, p.previous)
	}
}

// failedTasks returns the workflow tasks that have failed, of all workflows.
func failedTasks(t *testing.T, c *cluster) (failed []string) {
	t.Helper()
	temporal, err := client.Dial(client.Options{HostPort: c.address, Logger: quiet{}})
	require.NoError(t, err)
	defer temporal.Close()
	all, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, all.GetExecutions())
	for _, w := range all.GetExecutions() {
		id, run := w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId()
		for events := temporal.GetWorkflowHistory(t.Context(), id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
			event, err := events.Next()
			require.NoError(t, err)
			if a := event.GetWorkflowTaskFailedEventAttributes(); a != nil {
				failed = append(failed, fmt.Sprintf("%s, event %d: %s: %s", id, event.GetEventId(), a.GetCause(), a.GetFailure().GetMessage()))
			}
		}
	}
	return failed
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
