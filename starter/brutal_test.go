package starter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// witness makes a filter that appends every line it is given to the file "witness", a call's lines
// in one write, before it passes them on. It can be held.
func (b *box) witness(before string) string {
	b.t.Helper()
	return b.script("noting", before+"\n"+atHold+"\ntee -a $BOX/witness")
}

// executions counts the lines in the witness.
func (b *box) executions() int { return int(b.size("witness") / lineOf) }

// repeats requires that every one of n lines was run, and returns how many runs were repetitions.
func (b *box) repeats(n int) int {
	b.t.Helper()
	runs := make([]int, n)
	total := 0
	for line := range strings.Lines(b.read("witness")) {
		i, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || i >= n {
			continue // a line that a kill has cut
		}
		runs[i]++
		total++
	}
	require.NotContains(b.t, runs, 0, "a line was never run")
	return total - n
}

// TestBrutal_KilledTenTimes (G1, G2, G3): the process group is killed at ten random moments of a
// run over a million items, and the same command run again each time.
func TestBrutal_KilledTenTimes(t *testing.T) {
	t.Parallel()
	const n, batch, slots, kills = 1_000_000, 5000, 2, 10
	b := setup(t)
	random := seed(t)
	input := numbers(n)
	b.write("in.txt", input)
	mark := b.mark()
	// Each batch takes so long that those that finish are not kept back to be reported together.
	line := []string{"run", "--exec", b.witness("sleep 0.05;"), "in.txt", "-o", "out.txt", "--report", "report.json",
		"--batch-items", itoa(batch), "--slots", itoa(slots), "--env", mark}
	// Where the kills come: most of them once so many lines have been run, from the first to
	// nearly the last; some just after the start, while the server is made ready.
	var moments []int
	for range kills {
		moments = append(moments, random.IntN(n-slots*batch))
	}
	slices.Sort(moments)
	b.hold(n - slots*batch) // so it does not end before the last kill
	began := time.Now()
	for i, moment := range moments {
		p := b.spawn(line...)
		if random.IntN(4) == 0 {
			delay := time.Duration(random.IntN(400)) * time.Millisecond
			t.Logf("kill %d: %v after the start, at %d executions", i+1, delay, b.executions())
			time.Sleep(delay) // this is the moment, not a wait for something
		} else {
			eventually(t, "the moment of the kill", func() bool { return b.executions() >= moment || !p.running() })
			t.Logf("kill %d: at %d executions", i+1, b.executions())
		}
		require.True(t, p.running(), "it ended before kill %d: %s", i+1, p.stderr.String())
		p.kill()
		b.requireNoOutput()
		requireGone(t, mark, time.Minute)
	}
	b.release()
	b.spawn(line...).exits(starter.ExitOK)
	t.Logf("%d executions, %v in all", b.executions(), time.Since(began))
	requireSame(t, input, b.read("out.txt"))
	r := b.report("report.json")
	require.EqualValues(t, n, r.Planned)
	require.EqualValues(t, n, r.OK)
	require.LessOrEqual(t, b.repeats(n), kills*slots*batch, "what was recorded is not run again")
	b.requireReplays(".stint/temporal")
}

// TestBrutal_AnItemKillsTheRun: an item that kills `stint run` itself is set aside after some runs of the
// same command, as one that kills workers is; all others have results.
func TestBrutal_AnItemKillsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	input := numbers(2000)
	b.write("in.txt", strings.Replace(input, "\n0000776\n", "\nbad\n", 1))
	b.write("kill.sh", `while read -r line; do [ "$line" != bad ] || kill -9 $PPID; echo "$line"; done`)
	mark := b.mark()
	line := []string{"run", "--exec", "sh kill.sh", "in.txt", "-o", "out.txt", "--slots", "2", "--env", mark}
	const most = 3 + 11 + 2 // free ones, halvings, the last item alone
	runs := 1
	for ; ; runs++ {
		p := b.spawn(line...)
		p.await()
		requireGone(t, mark, time.Minute)
		if p.cmd.ProcessState.Exited() {
			require.Equal(t, starter.ExitSomeFailed, p.cmd.ProcessState.ExitCode(), p.stderr.String())
			break
		}
		b.requireNoOutput()
		require.LessOrEqual(t, runs, most)
	}
	t.Logf("after %d kills", runs-1)
	requireSame(t, strings.Replace(input, "\n0000776\n", "\n", 1), b.read("out.txt"))
	failures := b.failures("out.txt.errors.jsonl")
	require.Len(t, failures, 1)
	require.Equal(t, job.KindCrash, failures[0].Kind)
	require.JSONEq(t, `"bad"`, string(failures[0].Input))
}

// TestBrutal_KilledWhileItFinishes: the output appears whole or not at all, whenever the kill
// comes between the last item and the end.
func TestBrutal_KilledWhileItFinishes(t *testing.T) {
	t.Parallel()
	const n, batch = 200_000, 10_000
	b := setup(t)
	random := seed(t)
	input := numbers(n)
	b.write("in.txt", input)
	line := []string{"run", "--exec", b.witness(""), "in.txt", "-o", "out.txt", "--batch-items", itoa(batch)}
	killed := 0
	for range 8 {
		require.NoError(t, os.RemoveAll(b.path("out.txt")))
		require.NoError(t, os.RemoveAll(b.path("witness")))
		p := b.spawn(append(line, "--fresh")...)
		eventually(t, "the last line", func() bool { return b.executions() >= n })
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) // the moment of the kill
		p.kill()
		if p.cmd.ProcessState.Exited() {
			continue // it was quicker
		}
		killed++
		if _, err := os.Stat(b.path("out.txt")); err == nil {
			requireSame(t, input, b.read("out.txt"))
		}
		b.spawn(line...).exits(starter.ExitOK)
		requireSame(t, input, b.read("out.txt"))
	}
	t.Logf("%d kills", killed)
}

// requireGone requires that no process with the mark is left within the limit.
func requireGone(t *testing.T, mark string, limit time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(pollEvery) {
		left := marked(t, mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			require.Empty(t, describe(left), "processes left")
		}
	}
}

// describe describes the processes.
func describe(pids []int) []string {
	var all []string
	for _, pid := range pids {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil {
			all = append(all, fmt.Sprintf("%d: %q", pid, command))
		}
	}
	return all
}

// cluster starts a server process and points the box's commands at it.
func (b *box) cluster() *process {
	b.t.Helper()
	address := freeAddress(b.t)
	_, port, _ := strings.Cut(address, ":")
	server := b.spawn("server", "--port", port, "--ui-port", "0", "--state", "server")
	server.says("Temporal server: " + address)
	b.env = append(b.env, "TEMPORAL_ADDRESS="+address)
	return server
}

// TestBrutal_WorkerKilled (K9): a server, two workers of one pool and a starter, all processes of
// their own; one worker is killed half way, and the job completes on the other.
func TestBrutal_WorkerKilled(t *testing.T) {
	t.Parallel()
	const n, batch, slots = 100_000, 1000, 2
	b := setup(t)
	input := numbers(n)
	b.write("in.txt", input)
	b.cluster()
	marks := []string{b.mark(), b.mark()}
	filter := b.witness("sleep 0.15; ")
	var workers []*process
	for _, mark := range marks {
		w := b.spawn("worker", "--allow", b.dir, "--pool", "upper", "--exec", filter, "--slots", itoa(slots), "--env", mark)
		w.says("serving pool upper")
		workers = append(workers, w)
	}
	waiting := b.spawn("start", "--pool", "upper", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait",
		"--batch-items", itoa(batch), "--expiry", "2s", "--backoff", "100ms", "--report", "report.json")
	b.hold(n / 2)
	eventually(t, "half of the work", func() bool { return b.executions() >= n/2 })
	eventually(t, "work on the first worker", func() bool { return len(marked(t, marks[0])) > 0 })
	workers[0].kill()
	b.release()
	requireGone(t, marks[0], time.Minute)
	waiting.exits(starter.ExitOK)
	requireSame(t, input, b.read("out.txt"))
	r := b.report("report.json")
	require.EqualValues(t, n, r.OK)
	require.Zero(t, r.Failed)
	require.LessOrEqual(t, b.repeats(n), slots*batch, "only the batches in hand are run again")
	require.LessOrEqual(t, r.Retries, int64(2*slots), "a slot has one that makes calls, and another one before or behind it")
	workers[1].signal(syscall.SIGTERM)
	workers[1].exits(starter.ExitOK)
	requireGone(t, marks[1], time.Minute)
}

// TestBrutal_ServerAndWorkersKilled (G1): everything dies at once, and all of it comes back.
func TestBrutal_ServerAndWorkersKilled(t *testing.T) {
	t.Parallel()
	const n, batch, slots = 50_000, 1000, 2
	b := setup(t)
	input := numbers(n)
	b.write("in.txt", input)
	filter := b.witness("sleep 0.1; ")
	worker := []string{"worker", "--allow", b.dir, "--pool", "p", "--exec", filter, "--slots", itoa(slots)}
	server := b.cluster()
	w := b.spawn(worker...)
	b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt",
		"--batch-items", itoa(batch), "--expiry", "2s", "--backoff", "100ms").exits(starter.ExitOK)
	eventually(t, "a third of the work", func() bool { return b.executions() >= n/3 })
	server.kill()
	w.kill()
	again := b.spawnCommand(exec.Command(server.cmd.Path, server.cmd.Args[1:]...))
	again.says("Temporal server:")
	b.spawn(worker...).says("serving pool p")
	b.spawn("watch", "nightly").exits(starter.ExitOK)
	requireSame(t, input, b.read("out.txt"))
	require.LessOrEqual(t, b.repeats(n), slots*batch, "only the batches in hand are run again")
}

// TestBrutal_GrandchildrenDieWithTheWorker (W8, K9): also those whose parent has left them.
func TestBrutal_GrandchildrenDieWithTheWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body string }{
		{"of a filter that waits for them", `sleep 1000 & sleep 1000 & wait`},
		{"of a filter that has ended", `(sleep 1000 & sleep 1000 &) ; exec sleep 1000`},
		{"that ignore signals", `trap '' TERM INT HUP PIPE; (while :; do sleep 1; done) & while :; do sleep 1; done`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(10))
			mark := b.mark()
			p := b.spawn("run", "--exec", b.script("filter", c.body), "in.txt", "-o", "out.txt", "--batch-items", "5", "--slots", "2", "--env", mark)
			eventually(t, "the grandchildren", func() bool { return len(marked(t, mark)) >= 4 })
			p.kill()
			requireGone(t, mark, time.Minute)
		})
	}
}

// TestBrutal_CtrlC (S14): the first asks for a stop, the second ends at once; the same command
// continues after either.
func TestBrutal_CtrlC(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2000
	b.write("in.txt", numbers(n))
	mark := b.mark()
	line := []string{"run", "--exec", b.witness("sleep 0.1; "), "in.txt", "-o", "out.txt", "--batch-items", "50", "--call-items", "10", "--env", mark}
	b.hold(300)
	p := b.spawn(line...)
	eventually(t, "some items", func() bool { return b.executions() >= 300 })
	p.signal(syscall.SIGINT)
	p.says("stopping (interrupt)")
	b.release()
	p.exits(starter.ExitStopped)
	require.Contains(t, p.stderr.String(), "the same command continues")
	b.requireNoOutput()
	requireGone(t, mark, time.Minute)
	done := b.executions()

	gated := b.script("noting", `tee -a $BOX/witness; while [ ! -e $BOX/gate ]; do sleep 0.02; done`)
	require.Equal(t, line[2], gated, "the command is the same")
	p = b.spawn(line...)
	eventually(t, "calls that do not end", func() bool { return b.executions() >= done+20 })
	p.signal(syscall.SIGINT)
	p.says("once more to end at once")
	for p.running() { // signals within a second are one
		p.signal(syscall.SIGINT)
		time.Sleep(100 * time.Millisecond)
	}
	p.exits(starter.ExitInterrupted)
	require.Contains(t, p.stderr.String(), "ended at once. The same command continues")
	b.requireNoOutput()
	requireGone(t, mark, time.Minute)

	b.open()
	b.spawn(line...).exits(starter.ExitOK)
	requireSame(t, numbers(n), b.read("out.txt"))
	require.LessOrEqual(t, b.repeats(n), 2*10, "only the calls that were cut off are run again")
	b.requireReplays(".stint/temporal")
}

// TestBrutal_StopOutlivesAKill (S17): a stop that was accepted is in force after everything has
// been killed. A worker that stands still when the stop comes may have a workflow task in hand, which the next one
// gets when it has timed out.
func TestBrutal_StopOutlivesAKill(t *testing.T) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) { stopOutlivesAKill(t, false) })
	t.Run("frozen and killed", func(t *testing.T) { stopOutlivesAKill(t, true) })
}

func stopOutlivesAKill(t *testing.T, frozen bool) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(1000))
	b.cluster()
	w := b.spawn("worker", "--allow", b.dir, "--pool", "p", "--exec", b.gated(), "--slots", "1")
	b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--batch-items", "10", "--expiry", "2s").exits(starter.ExitOK)
	eventually(t, "a call", func() bool { return b.lines("started") > 0 })
	most := 2
	if frozen {
		w.signal(syscall.SIGSTOP)
		most = 1
	}
	b.spawn("stop", "nightly", "--reason", "enough").exits(starter.ExitOK)
	w.kill()
	b.spawn("worker", "--allow", b.dir, "--pool", "p", "--exec", b.gated(), "--slots", "1")
	eventually(t, "the stop", func() bool {
		return strings.Contains(b.stint("status", "nightly", "--json").stdout.String(), `"state": "stop`)
	})
	b.open()
	b.spawn("watch", "nightly").exits(starter.ExitStopped)
	require.LessOrEqual(t, b.lines("started"), most, "nothing new is started")
	var r job.Report
	b.reads(&r, "status", "nightly", "--json")
	require.Equal(t, "enough", r.Reason)
	require.Zero(t, r.Failed)
}

// TestBrutal_B9_WindowOfTwoWorkers: the window has room for what a worker process does at once, and for two of them as
// soon as the second one has answered.
func TestBrutal_B9_WindowOfTwoWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cluster()
	b.write("in.txt", numbers(20_000))
	waits := append(b.python("waits.py", `
def work(item):
    time.sleep(1)
    return item

stint.serve(stint.each(work))
`), "--slots", "2", "--concurrency", "20")
	work := func() {
		b.spawn(append([]string{"worker", "--allow", b.dir, "--pool", "p"}, waits...)...).says("serving pool p")
	}
	work()
	b.spawn("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "1").exits(starter.ExitOK)
	window := func(size, workers int) func() bool {
		return func() bool {
			status := b.stint("status", "going", "--json")
			var r job.Report
			if status.code != starter.ExitOK || json.Unmarshal([]byte(status.stdout.String()), &r) != nil {
				return false // a busy worker has not answered
			}
			return r.Window >= size && r.InFlight > size/2 && len(r.Workers) == workers
		}
	}
	eventually(t, "twice what a worker does at once", window(80, 1))
	work()
	eventually(t, "twice what both do at once", window(160, 2))
}
