package starter_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// python writes a program in Python, and returns the flags that serve it. It has the helper, and
// finds the directory of the box in BOX.
func (b *box) python(name, text string) []string {
	b.t.Helper()
	python := pytest.Find(b.t)
	helper, err := filepath.Abs("../python")
	require.NoError(b.t, err)
	path := b.write(name, `
import os, signal, subprocess, time, stint

BOX = os.environ["BOX"] + "/"

def note(name, *lines):
    with open(BOX + name, "a") as file:
        file.writelines(f"{line}\n" for line in lines)
`+text)
	return []string{"--serve", python + " " + path, "--env", "BOX=" + b.dir, "--env", "PYTHONPATH=" + helper}
}

// quoted are the results of lines that a program echoes: JSON strings.
func quoted(text string) string {
	var quoted strings.Builder
	for line := range strings.Lines(text) {
		quoted.WriteString(strconv.Quote(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return quoted.String()
}

// deaf is a program that ignores all signals and frames, and so do its children: one of them waits
// for its own, another has left its own behind.
const deaf = `
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)

FOREVER = "trap '' TERM INT HUP PIPE QUIT USR1; while :; do sleep 1; done"

def work(items):
    subprocess.Popen(["sh", "-c", FOREVER])
    subprocess.Popen(["sh", "-c", "sh -c \"$0\" & wait", FOREVER])
    subprocess.Popen(["sh", "-c", "(sleep 1000 &) ; exec sleep 1000"])
    note("up", *items)
    while True:
        time.sleep(1)

stint.serve(work)
`

// TestBrutal_ServeDiesWithTheWorker (W8, K9): the worker is killed, and its programs and all that
// they have started are gone at once, whatever they ignore.
func TestBrutal_ServeDiesWithTheWorker(t *testing.T) {
	t.Parallel()
	const slots = 2
	for _, command := range []string{"run", "worker"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(2*slots))
			mark := b.mark()
			worker := append(b.python("deaf.py", deaf), "--slots", itoa(slots), "--env", mark)
			work := []string{"in.txt", "-o", "out.txt", "--batch-items", "1"}
			var p *process
			if command == "run" {
				p = b.spawn(append(append([]string{"run"}, work...), worker...)...)
			} else {
				b.cluster()
				p = b.spawn(append([]string{"worker", "--allow", b.dir, "--pool", "p"}, worker...)...)
				b.spawn(append([]string{"start", "--pool", "p", "--name", "going"}, work...)...).exits(starter.ExitOK)
			}
			eventually(t, "calls in both slots", func() bool { return b.lines("up") == slots })
			const each = 6 // the program, two that last for ever, the shell that waits for one of them, two sleeps
			eventually(t, "their families", func() bool { return len(marked(t, mark)) >= slots*each })
			t.Logf("%d processes", len(marked(t, mark)))
			p.kill()
			killed := time.Now()
			requireGone(t, mark, time.Minute)
			t.Logf("gone after %v", time.Since(killed)) // a second is what it should take
		})
	}
}

// polite is a program that holds its calls until it is asked to end them, or the gate opens.
const polite = `
def work(items):
    note("started", os.getpid())
    with stint.expires(3600.0, "gate"):
        while not os.path.exists(BOX + "gate"):
            stop = stint.stopping()
            if stop:
                note("told", stop.reason)
                break
            time.sleep(0.005)
    note("done", *items)
    return items

def close(cause):
    note("closed", repr(cause))

stint.serve(work, close=close)
`

// TestBrutal_DrainAsksTheProgram (W5, S13, S15): a worker that gets SIGTERM asks its program, which ends
// the call in hand, and then says bye to it. The rest of the batch goes to another worker at once.
func TestBrutal_DrainAsksTheProgram(t *testing.T) {
	t.Parallel()
	const n, call = 100, 10
	b := setup(t)
	b.write("in.txt", numbers(n))
	b.cluster()
	mark := b.mark()
	flags := []string{"worker", "--allow", b.dir, "--pool", "p", "--slots", "1", "--call-items", itoa(call), "--env", mark}
	first := b.spawn(append(flags, b.python("polite.py", polite)...)...)
	first.says("serving pool p")
	waiting := b.spawn("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", itoa(n),
		"--expiry", "1h", "--wait", "--report", "report.json")
	eventually(t, "a call", func() bool { return b.lines("started") == 1 })
	second := b.spawn(append([]string{"worker", "--allow", b.dir, "--pool", "p", "--slots", "1"},
		b.python("obliging.py", `stint.serve(lambda items: items)`)...)...)
	second.says("serving pool p")
	first.signal(syscall.SIGTERM)
	first.exits(starter.ExitOK)
	requireGone(t, mark, time.Minute)
	require.Equal(t, "the worker ends\n", b.read("told"))
	require.Equal(t, numbers(call), b.read("done"), "the call in hand, and no other")
	require.Equal(t, "None\n", b.read("closed"))
	waiting.exits(starter.ExitOK)
	requireSame(t, quoted(numbers(n)), b.read("out.txt"))
	r := b.report("report.json")
	require.EqualValues(t, n, r.OK)
	require.Zero(t, r.Retries)
	require.Zero(t, r.Crashes)
	require.Zero(t, r.Expiries)
}

// TestWorkers_ServeInHand (K1, M3): the workers of the pool, and the slot and process of each batch in hand,
// also after the process has died.
func TestWorkers_ServeInHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(3))
	program := b.python("polite.py", polite)
	b.worker("p", append(program, "--slots", "1")...)
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--expiry", "8s", "--batch-items", "3").exits(starter.ExitOK)
	eventually(t, "a call", func() bool { return b.lines("started") == 1 })
	pid := b.pids()[0]
	r := b.inHand(pid)
	require.Len(t, r.Workers, 1)
	require.Equal(t, "p", r.Workers[0].Pool)
	running := r.Running[0]
	require.Equal(t, "going", running.Job)
	require.Equal(t, r.Workers[0].Worker, running.Worker)
	require.Zero(t, running.Slot)
	require.Zero(t, running.Incarnation)
	require.Equal(t, "items 0–2", running.Batch)
	require.False(t, running.Since.IsZero())

	text := b.stint("workers", "--pool", "p").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `POOL +WORKER +VERSION +SEEN\np +`+running.Worker+` +[0-9a-f]{12} +\S+ ago\n`, text)
	require.Regexp(t, fmt.Sprintf(`JOB +WORKER +SLOT +PID +INCARNATION +CALLS +BATCH +AGE +TIMERS\ngoing +%s +0 +%d +0 +1 +items 0–2 +\d\S* +gate in 59m\d+s\n`, running.Worker, pid), text)
	text = b.stint("status", "going").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, fmt.Sprintf(`running +items 0–2 on %s, for \d\S*, slot 0, pid %d, incarnation 0, at item 0, heard of \S+ ago\n`, running.Worker, pid), text)

	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "another call", func() bool { return b.lines("started") == 2 })
	again := b.pids()[1]
	require.NotEqual(t, pid, again)
	require.Equal(t, 1, b.inHand(again).Running[0].Incarnation)
	var status struct {
		job.Report
		Running []jobs.RunningBatch `json:"running"`
	}
	b.reads(&status, "status", "going", "--json")
	require.Len(t, status.Running, 1)
	require.Equal(t, again, status.Running[0].PID)

	b.open()
	b.stint("watch", "going").exits(starter.ExitOK)
	requireSame(t, quoted(numbers(3)), b.read("out.txt"))
	b.reads(&status, "status", "going", "--json")
	require.EqualValues(t, 1, status.Crashes)
	var after workersReport
	b.reads(&after, "workers", "--json", "--pool", "p")
	require.Empty(t, after.Running)
}

// workersReport is what `stint workers --json` prints.
type workersReport struct {
	Workers []jobs.PoolWorker   `json:"workers"`
	Running []jobs.RunningBatch `json:"running"`
}

// inHand waits until the one batch in hand is known to run in the process.
func (b *box) inHand(pid int) workersReport {
	b.t.Helper()
	var r workersReport
	eventually(b.t, "a heartbeat", func() bool {
		r = workersReport{}
		b.reads(&r, "workers", "--json", "--pool", "p")
		return len(r.Running) == 1 && r.Running[0].PID == pid
	})
	require.False(b.t, r.Running[0].Beat.IsZero())
	return r
}

// pids are the processes that calls of a polite program have started in.
func (b *box) pids() []int {
	b.t.Helper()
	var pids []int
	for line := range strings.Lines(b.read("started")) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(b.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// B9: with --concurrency auto, status and workers show the number that the worker has found out.
func TestStatus_B9_Auto(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(8000))
	program := b.python("waits.py", `
import time
def call(items):
    time.sleep(0.05 * len(items))
    return items
stint.serve(call)
`)
	b.worker("p", append(program, "--slots", "1", "--concurrency", "auto")...)
	b.stint("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--expiry", "4s").exits(starter.ExitOK)
	several := regexp.MustCompile(`worker +\S+: \S+ items in \S+ batches, the last \S+ ago, ([0-9,]+) calls at once in a slot\n`)
	eventually(t, "a number", func() bool {
		return several.MatchString(b.stint("status", "going").exits(starter.ExitOK).stdout.String())
	})
	eventually(t, "the end", func() bool {
		var r job.Report
		require.NoError(t, json.Unmarshal([]byte(b.stint("status", "going", "--json").exits(starter.ExitOK).stdout.String()), &r))
		return r.State == job.Completed && r.OK == 8000 && r.Workers[0].Concurrency > 1
	})
}
