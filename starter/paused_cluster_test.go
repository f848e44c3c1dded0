package starter_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
)

// S21: a job that is paused goes on after its workers and its server were killed, and is shown as paused everywhere.
func TestCluster_Pause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.dial(b.server().Address())
	input := numbers(300)
	b.write("in.txt", input)
	b.write("hold", "")
	slow := b.script("slow", "while [ -e "+b.path("hold")+" ]; do sleep 0.05; done; exec cat")
	serve := func() *process {
		w := b.spawn("worker", "--pool", "p", "--allow", b.dir, "--slots", "2", "--exec", slow)
		w.says("serving pool p")
		return w
	}
	w := serve()
	b.stint("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--batch-items", "5", "--expiry", "2s", "--attempts", "1").exits(starter.ExitOK)
	eventually(t, "calls in hand", func() bool { return inFlight(t, c, "nightly") >= 2 })
	said := b.stint("pause", "nightly").exits(starter.ExitOK).stderr.String()
	require.Contains(t, said, "nightly is paused since")
	require.Contains(t, said, "'stint unpause nightly' has it go on")
	watching := b.start("watch", "nightly")
	watching.says("paused since")
	require.NoError(t, os.Remove(b.path("hold")))
	eventually(t, "nothing in hand", func() bool { return inFlight(t, c, "nightly") == 0 })

	w.signal(syscall.SIGKILL)
	require.Contains(t, b.stint("list").exits(starter.ExitOK).stdout.String(), "running, paused")
	serve()
	require.Contains(t, b.stint("status", "nightly").exits(starter.ExitOK).stdout.String(), "running, paused for")
	b.refused(starter.ExitFailed, []string{"resume", "nightly"}, "is running, but paused: 'stint unpause nightly'")
	require.Zero(t, inFlight(t, c, "nightly"))

	require.Contains(t, b.stint("unpause", "nightly").exits(starter.ExitOK).stderr.String(), "nightly is not paused")
	watching.exits(starter.ExitOK)
	requireSame(t, input, b.read("out.txt"))
	var r job.Report
	b.reads(&r, "status", "nightly", "--json")
	require.Positive(t, r.PausedFor)
	require.Zero(t, r.Retries+r.Expiries)
	require.Contains(t, b.stint("pause", "nightly").exits(starter.ExitFailed).stderr.String(), "has ended already")
}

// S21: a job of `stint run` is paused from another terminal; Ctrl-C stops it, and the same command goes on unpaused.
func TestRun_Pause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	input := numbers(100)
	b.write("in.txt", input)
	b.write("hold", "")
	slow := b.script("slow", "while [ -e "+b.path("hold")+" ]; do sleep 0.05; done; exec cat")
	line := []string{"run", "--name", "going", "--exec", slow, "in.txt", "-o", "out.txt", "--batch-items", "5", "--slots", "2"}
	run := b.spawn(line...)
	eventually(t, "it to be paused", func() bool {
		c := b.stint("pause", "going")
		return c.code == starter.ExitOK
	})
	run.says("paused since")
	require.NoError(t, os.Remove(b.path("hold")))
	run.signal(syscall.SIGINT)
	run.exits(starter.ExitStopped)
	b.stint(line...).exits(starter.ExitOK)
	requireSame(t, input, b.read("out.txt"))
}
