package starter_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// feed starts a server, a worker with the filter, and a feed named risk.
func (b *box) feed(filter string, flags ...string) {
	b.t.Helper()
	b.server()
	b.worker("p", "--exec", filter, "--slots", "1")
	b.startFeed("risk", flags...)
}

func (b *box) startFeed(name string, flags ...string) {
	b.t.Helper()
	line := append([]string{"start", "--feed", "--name", name, "--pool", "p", "-o", name + ".out"}, flags...)
	require.Equal(b.t, name+"\n", b.stint(line...).exits(starter.ExitOK).stdout.String())
}

// declined runs a command that fails, and requires what it says.
func (b *box) declined(code int, args []string, says ...string) *command {
	b.t.Helper()
	c := b.stint(args...).exits(code)
	for _, text := range says {
		require.Contains(b.t, c.stderr.String(), text, c.line)
	}
	return c
}

// status is the report of a job that runs.
func (b *box) status(name string) (report job.Report) {
	b.t.Helper()
	eventually(b.t, "a report of "+name, func() bool {
		c := b.stint("status", name, "--json")
		return c.code == starter.ExitOK && json.Unmarshal([]byte(c.stdout.String()), &report) == nil
	})
	return report
}

func TestFeed_PutCallClose(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("tr a-z A-Z")
	b.write("items.jsonl", "\"c\"\n\n{\"d\": 1}\n")
	require.Equal(t, "2\n", b.stint("feed", "put", "risk", `"a"`, `"b"`).exits(starter.ExitOK).stdout.String())
	require.Equal(t, "2\n", b.stint("feed", "put", "risk", "-f", "items.jsonl").exits(starter.ExitOK).stdout.String(), "a blank line is no item")
	c := b.startWith(strings.NewReader("\"e\"\n\"f\"\n"), "feed", "call", "risk", "-").exits(starter.ExitOK)
	require.Equal(t, "\"E\"\n\"F\"\n", c.stdout.String())
	require.Empty(t, c.stderr.String())
	c = b.stint("feed", "put", "risk", "--json", "--", "-1").exits(starter.ExitOK)
	require.JSONEq(t, `{"job":"risk","accepted":1}`, c.stdout.String())

	eventually(t, "all done", func() bool { return b.status("risk").Done() == 7 })
	report := b.status("risk")
	require.EqualValues(t, 7, report.Planned)
	require.EqualValues(t, 1, report.Feed.Session)
	require.Equal(t, limits.DefaultCapacity, report.Feed.Capacity)
	text := b.stint("status", "risk").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `items +7 accepted so far, 7 ok`, text)
	require.Regexp(t, `feed +session 1, idle, 1 segments`, text)
	require.Regexp(t, `backlog +0 of 256 items and 0 of 4,194,304 bytes are unfinished`, text)
	require.Regexp(t, `risk +p +running .* feed +/`, b.stint("list").exits(starter.ExitOK).stdout.String())

	closing := b.stint("feed", "close", "risk", "--wait").exits(starter.ExitOK)
	require.Contains(t, closing.stderr.String(), "risk: completed: 7 items ok, 0 failed")
	b.stint("feed", "close", "risk").exits(starter.ExitOK) // again
	lines := strings.SplitAfter(b.read("risk.out"), "\n")
	require.Equal(t, []string{"\"A\"\n", "\"B\"\n", "\"C\"\n", "{\"D\":1}\n"}, lines[:4])
	require.ElementsMatch(t, []string{"\"E\"\n", "\"F\"\n"}, lines[4:6], "items of a call are accepted in any order")
	require.Equal(t, []string{"-1\n", ""}, lines[6:])
	require.Equal(t, b.read("risk.out"), b.stint("results", "risk").exits(starter.ExitOK).stdout.String())
	for _, line := range [][]string{{"feed", "put", "risk", "1"}, {"feed", "call", "risk", "1"}, {"feed", "reset", "risk"}} {
		b.declined(starter.ExitFailed, line, "feed risk has been closed")
	}
}

// The errors of items stand at their places, and cost nothing else.
func TestFeed_CallReportsFailedItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	filter := b.script("filter", `while read l; do case "$l" in *bad*) echo "no good" >&2; exit 3;; esac; echo "<$l>"; done`)
	b.feed(filter, "--format", "text", "--attempts", "1")
	c := b.stint("feed", "call", "risk", "a", "a bad one", "c").exits(starter.ExitSomeFailed)
	require.Equal(t, "<a>\n<c>\n", c.stdout.String())
	require.Regexp(t, `^2 \(item \d\): exit 3: no good\n$`, c.stderr.String())

	c = b.stint("feed", "call", "risk", "--json", "bad", "x").exits(starter.ExitSomeFailed)
	lines := strings.Split(strings.TrimSpace(c.stdout.String()), "\n")
	require.Len(t, lines, 2)
	var failed struct {
		Index, Item int64
		Error       struct{ Kind, Type, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &failed))
	require.JSONEq(t, fmt.Sprintf(`{"index":1,"item":%d,"result":"<x>"}`, 7-failed.Item), lines[1])
	require.Equal(t, "exit", failed.Error.Kind)
	require.Equal(t, "exit 3: no good", failed.Error.Message)
}

// A line that is no item fails alone in a call. A put ends there, and says what has been accepted.
func TestFeed_LinesThatAreNoItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("cat")
	b.write("items", "1\nnaked\n3\n")
	c := b.stint("feed", "call", "risk", "-f", "items").exits(starter.ExitSomeFailed)
	require.Equal(t, "1\n3\n", c.stdout.String())
	require.Regexp(t, `^2: invalid: the item cannot be sent: invalid character 'a'`, c.stderr.String())
	c = b.stint("feed", "put", "risk", "-f", "items").exits(starter.ExitFailed)
	require.Equal(t, "1\n", c.stdout.String())
	require.Contains(t, c.stderr.String(), `line 2 of items: "naked" is not JSON`)

	b.write("long", "1\n\""+strings.Repeat("x", jobs.MaxPutBytes+100<<10)+"\"\n")
	c = b.stint("feed", "put", "risk", "-f", "long").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "line 2 of long is too long")
	require.EqualValues(t, 4, b.status("risk").Planned)
}

// F1: what does not fit is refused at once, or after the wait, with the numbers; F3, F4: time-outs, resets, sessions.
func TestFeed_FullTimeoutReset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed(b.gated(), "--capacity", "4", "--batch-items", "1", "--format", "text")
	require.Equal(t, "4\n", b.stint("feed", "put", "risk", "a", "b", "c", "d").exits(starter.ExitOK).stdout.String())
	c := b.declined(starter.ExitFailed, []string{"feed", "put", "risk", "e"}, "feed risk is full: 4 of 4 items and 12 of 4194304 bytes", "--wait")
	require.Equal(t, "0\n", c.stdout.String())
	b.declined(starter.ExitFailed, []string{"feed", "put", "risk", "e", "--wait", "1s"}, "waited ")
	b.declined(starter.ExitFailed, []string{"feed", "call", "risk", "e", "--timeout", "10s"}, "is full", "waited ")
	require.Regexp(t, `feed +session 1, full`, b.stint("status", "risk").exits(starter.ExitOK).stdout.String())

	eventually(t, "one in hand", func() bool { return b.size("started") > 0 && b.status("risk").Feed.Waiting == 3 })
	c = b.stint("feed", "reset", "risk", "--json").exits(starter.ExitOK)
	require.JSONEq(t, `{"job":"risk","session":2,"discarded":3}`, c.stdout.String())
	c = b.declined(starter.ExitFailed, []string{"feed", "put", "risk", "e", "--session", "1"}, "for another session: session 2 of feed risk is open")
	require.Equal(t, "0\n", c.stdout.String())
	c = b.stint("feed", "call", "risk", "e", "--session", "2", "--timeout", "15s").exits(starter.ExitSomeFailed)
	require.Regexp(t, `^1: timeout: no outcome within \d`, c.stderr.String())
	b.open()
	require.Equal(t, "f\n", b.stint("feed", "call", "risk", "f").exits(starter.ExitOK).stdout.String())
	b.stint("feed", "close", "risk", "--wait").exits(starter.ExitOK)
	require.Equal(t, "a\ne\nf\n", b.read("risk.out"), "e kept its place")
	require.Equal(t, "a\n", b.stint("results", "risk", "--session", "1").exits(starter.ExitOK).stdout.String())
	require.Equal(t, "e\nf\n", b.stint("results", "risk", "--session", "2").exits(starter.ExitOK).stdout.String())
	require.Regexp(t, `discarded +3 items`, b.stint("status", "risk").exits(starter.ExitOK).stdout.String())
}

// Lists of a file wait for room, so that a file of any length goes through a small feed.
func TestFeed_PutWaitsForRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("cat", "--capacity", "8")
	const n = 100
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"n":%d}`, i))
	}
	b.write("items", strings.Join(items, "\n")+"\n")
	require.Equal(t, "100\n", b.stint("feed", "put", "risk", "-f", "items", "--wait", "1m").exits(starter.ExitOK).stdout.String())
	c := b.stint("feed", "call", "risk", "-f", "items").exits(starter.ExitOK)
	require.Equal(t, b.read("items"), c.stdout.String(), "in order")
	b.stint("feed", "close", "risk", "--wait").exits(starter.ExitOK)
	require.True(t, strings.HasPrefix(b.read("risk.out"), b.read("items")), "lists of a put are accepted in order")
	require.Equal(t, 2*n, strings.Count(b.read("risk.out"), "\n"))
}

// Results of a feed that runs can be followed.
func TestFeed_ResultsFollow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("cat")
	following := b.start("results", "risk", "--follow")
	b.stint("feed", "put", "risk", "1", "2").exits(starter.ExitOK)
	eventually(t, "the commit", func() bool { return following.stdout.String() == "1\n2\n" })
	b.stint("feed", "put", "risk", "3").exits(starter.ExitOK)
	b.stint("feed", "close", "risk").exits(starter.ExitOK)
	following.exits(starter.ExitOK)
	require.Equal(t, "1\n2\n3\n", following.stdout.String())
}

// Following is interrupted, and goes on at its cursor: nothing is printed twice, and nothing is missing.
func TestFeed_ResultsFollowFromCursor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("cat")
	line := []string{"results", "risk", "--follow", "--cursor", "place"}
	first := b.start(line...)
	b.stint("feed", "put", "risk", "1", "2").exits(starter.ExitOK)
	eventually(t, "the commit", func() bool { return first.stdout.String() == "1\n2\n" })
	first.signals <- syscall.SIGTERM
	first.exits(starter.ExitInterrupted)
	require.Equal(t, "0.0.2\n", b.read("place"))
	b.stint("feed", "put", "risk", "3").exits(starter.ExitOK)
	b.stint("feed", "reset", "risk").exits(starter.ExitOK)
	second := b.start("results", "risk", "--follow", "--cursor", "second", "--session", "2")
	b.stint("feed", "put", "risk", "4").exits(starter.ExitOK)
	b.stint("feed", "close", "risk", "--wait")
	require.Equal(t, "4\n", second.exits(starter.ExitOK).stdout.String())
	require.Equal(t, "3\n4\n", b.stint(line...).exits(starter.ExitOK).stdout.String())
	require.Empty(t, b.stint(line...).exits(starter.ExitOK).stdout.String())
	b.declined(starter.ExitUsage, []string{"results", "risk", "--cursor", "second"}, "it is of session 2")
	b.declined(starter.ExitUsage, []string{"errors", "risk", "--cursor", "second"}, "unknown flag: --cursor")
	b.write("second", "nonsense")
	b.declined(starter.ExitUsage, []string{"results", "risk", "--cursor", "second"}, "invalid cursor")
}

// A result above 64 KiB is printed like any other.
func TestFeed_CallWithLargeResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("sed s/x/" + strings.Repeat("y", 100_000) + "/")
	require.Equal(t, `"`+strings.Repeat("y", 100_000)+"\"\n", b.stint("feed", "call", "risk", `"x"`).exits(starter.ExitOK).stdout.String())
}

// S11, S12: a feed that is stopped says so, and a resumed one begins with what it had left.
func TestFeed_StopAndResume(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed(b.gated(), "--batch-items", "1", "--format", "text")
	b.stint("feed", "put", "risk", "a", "b", "c").exits(starter.ExitOK)
	eventually(t, "one in hand", func() bool { return b.size("started") > 0 })
	waiting := b.start("feed", "call", "risk", "d")
	eventually(t, "the call", func() bool { return b.status("risk").Planned == 4 })
	b.stint("stop", "risk", "--grace", "0s", "--wait").exits(starter.ExitOK)
	waiting.exits(starter.ExitFailed)
	require.Contains(t, waiting.stderr.String(), "'stint resume risk'")
	for _, line := range [][]string{{"feed", "put", "risk", "x"}, {"feed", "call", "risk", "x"}, {"feed", "reset", "risk"}, {"feed", "close", "risk"}} {
		b.declined(starter.ExitFailed, line, "feed risk has been stopped", "'stint resume risk'")
	}
	b.open()
	b.stint("resume", "risk").exits(starter.ExitOK)
	require.Equal(t, "e\n", b.stint("feed", "call", "risk", "e").exits(starter.ExitOK).stdout.String())
	b.stint("feed", "close", "risk", "--wait").exits(starter.ExitOK)
	require.Equal(t, "a\nb\nc\nd\ne\n", b.read("risk.out"))
}

// Without a worker, everyone is told what to do.
func TestFeed_PoolNobodyServes(t *testing.T) {
	t.Parallel()
	const says = "no worker serves pool p"
	b := setup(t)
	b.server()
	b.startFeed("risk")
	for _, line := range [][]string{{"feed", "put", "risk", "1"}, {"feed", "call", "risk", "1"}} {
		b.declined(starter.ExitFailed, line, says, "stint worker --pool p --allow ROOT", "takes no items until")
	}
	w := b.worker("p", "--exec", "cat")
	require.Equal(t, "1\n", b.stint("feed", "call", "risk", "1").exits(starter.ExitOK).stdout.String())
	w.signals <- syscall.SIGTERM
	w.exits(starter.ExitOK)
	b.declined(starter.ExitFailed, []string{"status", "risk"}, says)
	b.declined(starter.ExitTimeout, []string{"feed", "call", "risk", "1", "--timeout", "2s"}, "feed risk has not answered within 2", says)

	// A stop waits for a worker, and says so.
	c := b.stint("stop", "risk").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), says)
	require.Contains(t, c.stderr.String(), "risk ends then")
	waits := b.start("stop", "risk", "--wait")
	eventually(t, "a note", func() bool { return strings.Count(waits.stderr.String(), says) == 2 }) // at once, and as it follows
	b.worker("p", "--exec", "cat")
	waits.exits(starter.ExitOK)
	require.NotContains(t, b.stint("stop", "risk").exits(starter.ExitOK).stderr.String(), says)
}

// Ctrl-C ends the waiting, not the feed.
func TestFeed_CallInterrupted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed(b.gated(), "--format", "text")
	c := b.start("feed", "call", "risk", "a")
	eventually(t, "it in hand", func() bool { return b.size("started") > 0 })
	c.signals <- syscall.SIGINT
	c.exits(starter.ExitInterrupted)
	in, out := pipe(t)
	reading := b.startWith(in, "feed", "put", "risk", "-")
	_, err := out.WriteString("b\n")
	require.NoError(t, err)
	eventually(t, "the put", func() bool { return b.status("risk").Planned == 2 })
	reading.signals <- syscall.SIGINT
	reading.exits(starter.ExitInterrupted)
	require.NoError(t, out.Close())
	b.open()
	b.stint("feed", "close", "risk", "--wait").exits(starter.ExitOK)
	require.Equal(t, "a\nb\n", b.read("risk.out"))
}

func TestFeed_RefusedBeforeAnythingIsDialled(t *testing.T) {
	t.Parallel()
	start := []string{"start", "--feed", "--name", "risk", "--pool", "p", "-o", "out"}
	with := func(flags ...string) []string { return slices.Concat(start, flags) }
	for _, c := range []struct {
		name string
		line []string
		says []string
	}{
		{"an input", with("in.jsonl"), []string{"a feed has no inputs"}},
		{"csv", with("--format", "csv"), []string{"format", "jsonl or text"}},
		{"no capacity", with("--capacity", "0"), []string{"--capacity 0", "1 to 100000"}},
		{"too much capacity", with("--capacity", "100001"), []string{"capacity 100001", "1 to 100000"}},
		{"bytes", with("--capacity-bytes", "1B"), []string{"capacity-bytes 1", "use 1024 to"}},
		{"no bytes", with("--capacity-bytes", "0"), []string{"--capacity-bytes 0B", "1KiB to 64MiB"}},
		{"batch-wait", with("--batch-wait", "5ms"), []string{"batch-wait 5ms", "100ms"}},
		{"keep", with("--keep", "0s"), []string{"--keep 0s", "1s to 24h"}},
		{"a schedule", with("--cron", "@daily"), []string{"a feed is not started by a schedule"}},
		{"of files", []string{"start", "--name", "x", "--pool", "p", "in.jsonl", "-o", "out", "--capacity", "9", "--keep", "1m"}, []string{"capacity is for feeds only", "keep is for feeds only"}},
		{"run", []string{"run", "--feed", "--exec", "cat", "-o", "out"}, []string{"'run' cannot run a feed", "stint start --feed"}},
		{"plan", []string{"plan", "--feed"}, []string{"nothing to plan"}},
		{"nothing to put", []string{"feed", "put", "risk"}, []string{"no items given"}},
		{"items twice", []string{"feed", "put", "risk", "1", "-f", "x"}, []string{"items are given twice"}},
		{"no job", []string{"feed", "call"}, []string{"needs more arguments"}},
		{"timeout", []string{"feed", "call", "risk", "1", "--timeout", "0s"}, []string{"--timeout 0s", "above 0"}},
		{"wait", []string{"feed", "put", "risk", "1", "--wait", "-1s"}, []string{"--wait -1s"}},
		{"session", []string{"feed", "put", "risk", "1", "--session", "-1"}, []string{"--session -1"}},
		{"session of results", []string{"results", "risk", "--session", "-1"}, []string{"--session -1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.env = append(b.env, "TEMPORAL_ADDRESS=127.0.0.1:1")
			b.refused(starter.ExitUsage, c.line, c.says...)
		})
	}
}

// Wrong requests to a server that is there.
func TestFeed_RefusedRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.feed("cat", "--capacity", "4")
	b.write("in.txt", "a\n")
	b.stint("start", "--pool", "p", "--name", "files", "in.txt", "-o", "out.txt", "--wait").exits(starter.ExitOK)
	for _, command := range []string{"put", "call", "reset", "close"} {
		items := map[string][]string{"put": {"1"}, "call": {"1"}}[command]
		b.declined(starter.ExitFailed, append([]string{"feed", command, "nowhere"}, items...), `no job named "nowhere"`)
		b.declined(starter.ExitFailed, append([]string{"feed", command, "files"}, items...), "job files is not a feed")
	}
	b.declined(starter.ExitUsage, []string{"feed", "put", "risk", "naked"}, `item 1 of 1: "naked" is not JSON`)
	b.declined(starter.ExitUsage, []string{"feed", "call", "risk", "1", "NaN"}, `item 2 of 2: "NaN" is not JSON`)
	b.declined(starter.ExitUsage, []string{"feed", "put", "risk", "-f", "nowhere"}, "no such file")
	b.declined(starter.ExitFailed, []string{"start", "--feed", "--name", "risk", "--pool", "p", "-o", "other"}, `"risk" exists already`)
	c := b.stint("feed", "call", "risk", `"`+strings.Repeat("x", jobs.MaxPutBytes)+`"`, "2").exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "1: invalid: item of 1048578 bytes: at most 1048576 are allowed")
	require.Equal(t, "2\n", c.stdout.String())
	require.EqualValues(t, 1, b.status("risk").Planned, "nothing else was accepted")
}

func TestFeed_JobFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.worker("p", "--exec", "cat")
	b.write("feed.yaml", "source: feed\nname: risk\npool: p\noutput: out/\nformat: text\ncapacity: 7\ncapacity-bytes: 64KiB\nbatch-wait: 100ms\nkeep: 1m\nbatch-items: 2\n")
	b.stint("start", "-f", "feed.yaml").exits(starter.ExitOK)
	require.Equal(t, "plain text\n", b.stint("feed", "call", "risk", "plain text").exits(starter.ExitOK).stdout.String())
	feed := b.status("risk").Feed
	require.Equal(t, 7, feed.Capacity)
	require.EqualValues(t, 64<<10, feed.CapacityBytes)

	for file, says := range map[string]string{
		"source: queue\n":                        `line 1: source: ["queue"]: use files, feed or clock`,
		"source: feed\nlinger: 5ms\n":            `line 2: unknown key "linger"`,
		"source: files\ncapacity: 5\ninput: a\n": "capacity is for feeds only",
		"source: feed\ninput: in.txt\n":          "a feed has no inputs",
	} {
		b.write("bad.yaml", file)
		b.declined(starter.ExitUsage, []string{"start", "-f", "bad.yaml", "--name", "x", "--pool", "p", "-o", "o"}, says)
	}
	b.write("run.yaml", "source: feed\nexec: cat\noutput: o\n")
	b.declined(starter.ExitUsage, []string{"run", "-f", "run.yaml"}, "'run' cannot run a feed")
}

// Redrive runs the failed items of a closed feed again.
func TestFeed_Redrive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	filter := b.script("filter", `while read l; do case "$l" in *bad*) [ -e $BOX/mended ] || exit 3;; esac; echo "$l"; done`)
	b.feed(filter, "--format", "text", "--attempts", "1")
	b.stint("feed", "call", "risk", "a", "bad", "c").exits(starter.ExitSomeFailed)
	b.declined(starter.ExitFailed, []string{"redrive", "risk"}, "job risk is running")
	b.stint("feed", "close", "risk", "--wait").exits(starter.ExitSomeFailed)
	b.write("mended", "")
	b.stint("redrive", "risk", "--wait").exits(starter.ExitOK)
	require.ElementsMatch(t, []string{"a", "bad", "c", ""}, strings.Split(b.read("risk.out"), "\n"))
	b.declined(starter.ExitFailed, []string{"feed", "put", "risk", "x"}, "closed")
}
