package starter_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestStop_Stragglers (S7): three workers are stuck, each with a batch in hand: the job ends as stopped
// nevertheless, and the command that has waited for it names them.
func TestStop_Stragglers(t *testing.T) {
	t.Parallel()
	const workers, batch = 3, 10
	b := setup(t)
	b.write("in.txt", numbers(workers*batch))
	b.cluster()
	b.coordinator()
	var stuck []*process
	for range workers {
		w := b.spawnCommand(goWorker(t, "exec", b.gated(), oneSlot+"=1")())
		w.says("serving pool p")
		stuck = append(stuck, w)
	}
	waiting := b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait",
		"--batch-items", itoa(batch), "--expiry", "1m")
	eventually(t, "a batch in each worker", func() bool { return b.lines("started") == workers })
	for _, w := range stuck {
		w.signal(syscall.SIGSTOP)
	}
	stop := b.spawn("stop", "nightly", "--grace", "1s", "--wait").exits(starter.ExitStragglers)
	waiting.exits(starter.ExitStragglers)
	for _, p := range []*process{stop, waiting} {
		text := p.stderr.String()
		var batches []string
		for _, w := range stuck {
			line := regexp.MustCompile(fmt.Sprintf(`(?m)^ +still running: .*, pid %d, for .*$`, w.cmd.Process.Pid)).FindString(text)
			require.NotEmpty(t, line, "worker %d is not named:\n%s", w.cmd.Process.Pid, text)
			batches = append(batches, regexp.MustCompile(`items \d+–\d+`).FindString(line))
		}
		require.ElementsMatch(t, []string{"items 0–9", "items 10–19", "items 20–29"}, batches, text)
	}
	b.requireNoOutput()
	again := b.spawn("stop", "nightly", "--wait").exits(starter.ExitStragglers)
	require.Contains(t, again.stderr.String(), "job nightly has ended already: it is stopped")
	require.Equal(t, workers, strings.Count(again.stderr.String(), "still running: "), "%s", again.stderr.String())
	b.spawn("stop", "nightly").exits(starter.ExitOK)
}

// TestStop_StragglersBesideAnError (S7): the error of a stop is the job's, and the command that waits for the job names
// what still runs and says so with its exit code.
func TestStop_StragglersBesideAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(10))
	b.cluster()
	b.coordinator()
	stuck := b.spawnCommand(goWorker(t, "exec", b.gated(), oneSlot+"=1")())
	stuck.says("serving pool p")
	waiting := b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait", "--batch-items", "10", "--expiry", "1m")
	eventually(t, "a batch in the worker", func() bool { return b.lines("started") == 1 })
	stuck.signal(syscall.SIGSTOP)
	stop := b.spawn("stop", "nightly", "--error", "BadInput: x", "--grace", "1s", "--wait").exits(starter.ExitStragglers)
	require.Regexp(t, fmt.Sprintf(`(?m)^ +still running: .*, pid %d, for .*$`, stuck.cmd.Process.Pid), stop.stderr.String())
	waiting.exits(starter.ExitFailed)
	b.spawn("stop", "nightly", "--wait").exits(starter.ExitStragglers)
	var r job.Report
	b.reads(&r, "status", "nightly", "--json")
	require.Equal(t, "BadInput", r.Error.Type)
	require.Len(t, r.LaterErrors, 1)
	require.Equal(t, job.ErrorLeftovers, r.LaterErrors[0].Type)
}

// TestStop_ThenResume (S11, S12): without stragglers the waiting starter reports that the job was stopped,
// and the job continues where it was.
func TestStop_ThenResume(t *testing.T) {
	t.Parallel()
	const n, batch = 3000, 100
	b := setup(t)
	b.write("in.txt", numbers(n))
	b.cluster()
	b.hold(n / 3)
	s := b.supervise(2, stintWorker(t, "--exec", b.witness("sleep 0.1; "), "--slots", "2"))
	waiting := b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--wait", "--batch-items", itoa(batch))
	eventually(t, "a third of the work", func() bool { return b.executions() >= n/3 })
	stop := b.spawn("stop", "nightly", "--wait")
	stop.says("stop of nightly requested")
	b.release()
	stop.exits(starter.ExitOK)
	waiting.exits(starter.ExitStopped)
	b.requireNoOutput()
	b.spawn("resume", "nightly").exits(starter.ExitOK)
	b.spawn("watch", "nightly").exits(starter.ExitOK)
	requireSame(t, numbers(n), b.read("out.txt"))
	require.Zero(t, b.repeats(n), "nothing is run twice")
	s.drain()
}

// TestStop_OutlivesEverything (S17): the server and the workers are killed just after a stop was accepted:
// it is in force when they are back.
func TestStop_OutlivesEverything(t *testing.T) {
	t.Parallel()
	const workers = 2
	b := setup(t)
	b.write("in.txt", numbers(1000))
	server := b.cluster()
	worker := []string{"worker", "--allow", b.dir, "--pool", "p", "--exec", b.gated(), "--slots", "1"}
	processes := []*process{server}
	for range workers {
		w := b.spawn(worker...)
		w.says("serving pool p")
		processes = append(processes, w)
	}
	b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--batch-items", "10", "--expiry", "2s").exits(starter.ExitOK)
	eventually(t, "calls", func() bool { return b.lines("started") == workers })
	b.spawn("stop", "nightly", "--reason", "enough").exits(starter.ExitOK)
	for _, p := range processes {
		p.signal(syscall.SIGKILL)
	}
	b.again(server)
	b.spawn(worker...)
	eventually(t, "the stop", func() bool {
		return strings.Contains(b.stint("list", "--json").stdout.String(), `"state": "stop`)
	})
	b.open()
	b.spawn("watch", "nightly").exits(starter.ExitStopped)
	// What was in the pool's queue already can be quicker than the stop, in the one slot.
	require.LessOrEqual(t, b.lines("started"), workers+1, "nothing new is started")
	var r job.Report
	b.reads(&r, "status", "nightly", "--json")
	require.Equal(t, "enough", r.Reason)
	require.Zero(t, r.Failed)
}

// TestStop_GraceOverARestart (S6): the grace is counted from the stop, even if everything is killed and
// started again meanwhile.
func TestStop_GraceOverARestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	server := b.cluster()
	worker := []string{"worker", "--allow", b.dir, "--pool", "p", "--exec", b.gated(), "--slots", "1"}
	w := b.spawn(worker...)
	b.spawn("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--batch-items", "10", "--expiry", "2s").exits(starter.ExitOK)
	eventually(t, "a call", func() bool { return b.lines("started") == 1 })
	b.spawn("stop", "nightly", "--grace", "1h").exits(starter.ExitOK)
	var before, after job.Report
	eventually(t, "the stop", func() bool {
		b.reads(&before, "status", "nightly", "--json")
		return before.State == job.Stopping
	})
	server.signal(syscall.SIGKILL)
	w.signal(syscall.SIGKILL)
	b.again(server)
	b.spawn(worker...)
	b.open()
	b.spawn("watch", "nightly").exits(starter.ExitStopped)
	b.reads(&after, "status", "nightly", "--json")
	require.NotNil(t, before.StopDeadline)
	require.Equal(t, *before.StopDeadline, *after.StopDeadline)
}

// again starts a server that has been killed with the same state and address.
func (b *box) again(server *process) *process {
	b.t.Helper()
	server.await()
	again := b.spawnCommand(exec.Command(server.cmd.Path, server.cmd.Args[1:]...))
	again.says("Temporal server:")
	return again
}
