package starter_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// stintWorker is the command of a `stint worker` that serves pool p.
func stintWorker(t *testing.T, args ...string) func() *exec.Cmd {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return func() *exec.Cmd {
		return exec.Command(path, append([]string{"worker", "--allow", "all", "--pool", "p"}, args...)...)
	}
}

// hangs makes a worker that hangs over either of two items, by the kind of its handler. JSON is whether
// results are JSON strings.
var hangs = map[string]struct {
	json bool
	make func(b *box, first, second string) func() *exec.Cmd
}{
	"exec": {false, func(b *box, first, second string) func() *exec.Cmd {
		filter := b.script("filter", fmt.Sprintf(`exec awk '/%s|%s/ { system("sleep 1000") } { print }'`, first, second))
		return stintWorker(b.t, "--slots", "2", "--exec", filter)
	}},
	"serve": {true, func(b *box, first, second string) func() *exec.Cmd {
		program := b.python("hangs.py", fmt.Sprintf(`
def work(items):
    while {"%s", "%s"} & set(items):
        time.sleep(1)
    return items

stint.serve(work)
`, first, second))
		return stintWorker(b.t, append(program, "--slots", "2")...)
	}},
	"go": {true, func(b *box, first, second string) func() *exec.Cmd {
		return goWorker(b.t, "deaf", first+" "+second)
	}},
}

// TestHang (T17, T18, K8): items that block for ever cost themselves and few expiries, whatever the
// handler, and no process.
func TestHang(t *testing.T) {
	t.Parallel()
	const n, batch, attempts = 128, 16, 1
	for name, handler := range hangs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			bad := scattered(seed(t), 2, 0, n)
			b.write("in.txt", numbers(n))
			values, good := b.without(n, bad)
			if handler.json {
				good = quoted(good)
			}
			b.cluster()
			s := b.supervise(1, handler.make(b, values[0], values[1]))
			b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait", "--report", "report.json",
				"--batch-items", itoa(batch), "--attempts", itoa(attempts), "--backoff", "10ms", "--call-timeout", "2s").exits(starter.ExitSomeFailed)
			require.Empty(t, s.ends, "the worker lives on")
			s.drain()
			requireSame(t, good, b.read("out.txt"))
			for _, f := range b.requireFailed(bad, job.KindExpired) {
				require.Contains(t, f.Error.Message, "the call took longer than 2s")
			}
			r := b.report("report.json")
			t.Logf("%d expiries", r.Expiries)
			require.EqualValues(t, n-len(bad), r.OK)
			require.EqualValues(t, len(bad), r.Failed)
			require.LessOrEqual(t, int(r.Expiries), len(bad)*isolationCalls(batch, attempts), "K8")
			require.Zero(t, r.Crashes)
		})
	}
}

// without gives those of n numbers that are bad, and the text of the others.
func (b *box) without(n int, bad []int64) (values []string, good string) {
	lines := slices.Collect(strings.Lines(numbers(n)))
	for _, item := range bad {
		values = append(values, strings.TrimSpace(lines[item]))
		lines[item] = ""
	}
	return values, strings.Join(lines, "")
}

// requireFailed requires that these items, and no others, are recorded as failed, and returns how.
func (b *box) requireFailed(items []int64, kind string) []job.Failure {
	b.t.Helper()
	failures := b.failures("out.txt.errors.jsonl")
	var failed []int64
	for _, f := range failures {
		failed = append(failed, f.Item)
		require.Equal(b.t, kind, f.Kind)
	}
	require.Equal(b.t, items, failed)
	return failures
}

// TestFrozen (K9, T16): a worker that stands still for longer than its expiry loses its batches to
// another one. What it does when it wakes up counts for nothing, and then it is a good worker again.
func TestFrozen(t *testing.T) {
	t.Parallel()
	const n, batch, slots = 30_000, 500, 2
	const window = 6 // what has expired waits for the others that are in the pool's queue
	b := setup(t)
	b.write("in.txt", numbers(n))
	b.cluster()
	b.coordinator()
	marks := []string{b.mark(), b.mark()}
	filter := b.script("noting", "tee -a $BOX/witness >$BOX/noted.$$; sleep 0.3; cat $BOX/noted.$$; rm $BOX/noted.$$")
	noted := func(pid int) bool { return b.lines("noted."+itoa(pid)) == batch } // all items of the call are in the witness
	var workers []*process
	for _, mark := range marks {
		w := b.spawnCommand(goWorker(t, "exec", filter, childMark+"="+mark)())
		w.says("serving pool p")
		workers = append(workers, w)
	}
	waiting := b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait",
		"--batch-items", itoa(batch), "--window", itoa(window), "--expiry", "1s", "--backoff", "10ms", "--report", "report.json")
	eventually(t, "some of the work", func() bool { return b.executions() >= n/10 })
	frozen, before := workers[0], []int{}
	eventually(t, "a worker that is frozen in the middle of a batch", func() bool {
		if !slices.ContainsFunc(marked(t, marks[0]), noted) {
			return false
		}
		frozen.signal(syscall.SIGSTOP)
		if before = marked(t, marks[0]); slices.ContainsFunc(before, noted) {
			return true
		}
		frozen.signal(syscall.SIGCONT)
		return false
	})
	eventually(t, "an expiry", func() bool {
		var r job.Report
		b.reads(&r, "status", "nightly", "--json")
		return r.Expiries > 0
	})
	eventually(t, "one of its batches elsewhere", func() bool { return b.repeated() >= batch })
	frozen.signal(syscall.SIGCONT)
	eventually(t, "another call of that worker", func() bool {
		return slices.ContainsFunc(marked(t, marks[0]), func(pid int) bool { return !slices.Contains(before, pid) })
	})
	waiting.exits(starter.ExitOK)
	requireSame(t, numbers(n), b.read("out.txt"))
	r := b.report("report.json")
	require.EqualValues(t, n, r.Planned)
	require.EqualValues(t, n, r.OK)
	require.Zero(t, r.Failed)
	// A slot may have a batch in hand that makes calls, and another whose part is being written. An expiry is taken
	// back if the worker reports that it has the batch alive before that is done elsewhere.
	require.LessOrEqual(t, r.Expiries, int64(2*slots))
	require.LessOrEqual(t, b.repeats(n), 2*slots*batch, "only what it had in hand is run again")
	for i, w := range workers {
		w.signal(syscall.SIGTERM)
		w.exits(starter.ExitOK)
		requireGone(t, marks[i], patience)
	}
}

// TestFrozen_LetsGo: a worker that wakes up ends its calls of a batch that is not its own any more, whatever
// the job's grace, and is free for others.
func TestFrozen_LetsGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(10))
	b.cluster()
	b.coordinator()
	mark := b.mark()
	frozen := b.spawnCommand(goWorker(t, "exec", b.gated(), oneSlot+"=1", childMark+"="+mark)())
	frozen.says("serving pool p")
	start := []string{"start", "--pool", "p", "in.txt", "--wait", "--expiry", "1s", "--backoff", "10ms", "--grace", "1h"}
	waiting := b.spawn(append(start, "--name", "first", "-o", "first.txt")...)
	eventually(t, "a call", func() bool { return b.lines("started") == 1 })
	frozen.signal(syscall.SIGSTOP)
	other := b.spawn("worker", "--allow", b.dir, "--pool", "p", "--exec", "cat")
	waiting.exits(starter.ExitOK)
	other.signal(syscall.SIGTERM)
	other.exits(starter.ExitOK)
	frozen.signal(syscall.SIGCONT)
	requireGone(t, mark, patience) // though its gate is closed
	b.open()
	b.spawn(append(start, "--name", "second", "-o", "second.txt")...).exits(starter.ExitOK)
	requireSame(t, numbers(10), b.read("second.txt"))
}

// repeated is how many runs in the witness were repetitions so far.
func (b *box) repeated() int {
	seen := map[string]bool{}
	runs := 0
	for line := range strings.Lines(b.read("witness")) {
		seen[line] = true
		runs++
	}
	return runs - len(seen)
}
