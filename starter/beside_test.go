package starter_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// Two runs in a pipe, in one directory: neither waits for the other's state, and both can be run again.
func TestRun_Pipe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(200))
	for round := range 2 {
		from, to := io.Pipe()
		second := b.startWith(from, "run", "--exec", "sed s/^/second:/", "-")
		first := b.stint("run", "--exec", "sed s/^/first:/", "in.txt").exits(starter.ExitOK)
		_, err := io.WriteString(to, first.stdout.String())
		require.NoError(t, err)
		require.NoError(t, to.Close())
		second.exits(starter.ExitOK)
		requireSame(t, numbers(200), strings.ReplaceAll(second.stdout.String(), "second:first:", ""))
		if round == 0 {
			require.Contains(t, first.stderr.String()+second.stderr.String(), "this job has a state of its own, .stint/beside/run-")
		}
	}
}

// A job that has a state of its own continues there, alone or beside others, and so does the command that its end
// names.
func TestRun_BesideAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	other := b.start("run", "--exec", b.gated(), "in.txt", "-o", "other.txt")
	eventually(t, "the other's call", func() bool { return b.lines("started") > 0 })
	line := []string{"run", "--exec", b.breakable(`sed /0000050/q1`), "in.txt", "-o", "out.txt", "--backoff", "1ms", "--on-error", "stop",
		"--slots", "1", "--batch-items", "10", "--name", "mine", "--expiry", "1m"} // a batch that expires is seen twice
	c := b.stint(line...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), ".stint is in use by process "+itoa(os.Getpid())+": this job has a state of its own, .stint/beside/mine")
	b.mend(`tee -a $BOX/seen`)
	b.open()
	other.exits(starter.ExitOK)
	c = b.stint(line...).exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "continuing mine: ", "what it had done is known, now that nobody holds the other state")
	require.Equal(t, 100-earlierItems(t, c), b.lines("seen"))
	b.pasted(c, "to run the failed items again: ").exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out.txt"))
}

// A job that is not complete in a state that is in use does not begin again elsewhere.
func TestRun_UnfinishedInAHeldState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	line := []string{"run", "--exec", b.breakable(`sed /0000050/q1`), "in.txt", "-o", "out.txt", "--backoff", "1ms", "--on-error", "stop",
		"--slots", "1", "--batch-items", "10", "--name", "mine"}
	b.stint(line...).exits(starter.ExitFailed)
	other := b.start("run", "--exec", b.gated(), "in.txt", "-o", "other.txt")
	eventually(t, "the other's call", func() bool { return b.lines("started") > 0 })
	b.mend("exec cat")
	c := b.stint(line...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "is in use by process "+itoa(os.Getpid()))
	require.NoDirExists(t, b.path(".stint/beside"))
	b.open()
	other.exits(starter.ExitOK)
	b.stint(line...).exits(starter.ExitSomeFailed)
}

// A run beside a server of the same directory.
func TestRun_BesideAServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	server := b.start("server")
	eventually(t, "the server", func() bool {
		holder, err := devserver.Holder(b.path(".stint/temporal"))
		require.NoError(t, err)
		return holder != nil && holder.Address != ""
	})
	c := b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "this job has a state of its own, .stint/beside/run-")
	requireSame(t, numbers(100), b.read("out.txt"))
	server.signals <- os.Interrupt
	server.exits(starter.ExitOK)
}
