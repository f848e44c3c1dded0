package starter_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	looks "github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// slowly makes a filter that notes each line that it has passed on in the file "witness". It can be held.
func (b *box) slowly() string {
	b.t.Helper()
	return b.script("slowly", "while read line; do sleep 0.02; "+atHold+"; echo $line; echo $line >> $BOX/witness; done")
}

// interrupted stops a command with a signal once n items have been run, before any other one is. One of them is in the
// middle of a call, so that the job does not end at once.
func (b *box) interrupted(c *command, n int, s os.Signal) {
	b.t.Helper()
	eventually(b.t, "some items", func() bool { return b.lines("witness") >= n })
	c.signals <- s
	c.says(" · stopping")
	b.release()
	c.exits(starter.ExitStopped)
}

// TestRun_StopAndContinue (S12, S14): Ctrl-C stops with grace, and the same command continues: nothing
// that was recorded is done again, nothing is missed.
func TestRun_StopAndContinue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.terminal = true // where a bar says that the job stops
	b.write("in.txt", numbers(300))
	line := []string{"run", "--exec", b.slowly(), "in.txt", "-o", "out.txt", "--batch-items", "30", "--call-items", "5", "--slots", "2"}
	for _, n := range []int{103, 203} {
		b.hold(n)
		c := b.start(line...)
		b.interrupted(c, n, syscall.SIGINT)
		require.Contains(t, c.stderr.String(), "stopping (interrupt)")
		require.Contains(t, c.stderr.String(), "the same command continues")
		b.requireNoOutput()
	}
	c := b.stint(line...).exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "continuing ")
	require.Contains(t, c.stderr.String(), "items done by earlier runs")
	requireSame(t, numbers(300), b.read("out.txt"))
	require.Equal(t, 300, b.lines("witness"), "no item is run twice")
}

// TestRun_FreshForgetsAStoppedRun (S14): SIGTERM asks for a stop as Ctrl-C does, and what was stopped can be
// forgotten.
func TestRun_FreshForgetsAStoppedRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.terminal = true
	b.write("in.txt", numbers(100))
	line := []string{"run", "--exec", b.slowly(), "in.txt", "-o", "out.txt", "--batch-items", "10"}
	b.hold(25)
	b.interrupted(b.start(line...), 25, syscall.SIGTERM)
	done := b.lines("witness")
	b.stint(append(line, "--fresh")...).exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out.txt"))
	require.Equal(t, done+100, b.lines("witness"))
}

// TestRun_GraceZeroEndsCallsAtOnce: items that are cut off are run again, and that costs no attempt.
func TestRun_GraceZeroEndsCallsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(10))
	mark := b.mark()
	line := []string{"run", "--exec", b.gated(), "in.txt", "-o", "out.txt", "--grace", "0", "--attempts", "1", "--env", mark, "--batch-items", "10"}
	c := b.start(line...)
	eventually(t, "the filter", func() bool { return b.lines("started") > 0 })
	c.signals <- syscall.SIGINT
	c.exits(starter.ExitStopped)
	require.Empty(t, marked(t, mark), "processes left")
	b.open()
	b.stint(line...).exits(starter.ExitOK)
	requireSame(t, numbers(10), b.read("out.txt"))
}

// TestRun_ContinuesAfterAFailure: the reason why the output could not be written is gone meanwhile.
func TestRun_ContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(100))
	require.NoError(t, os.Mkdir(b.path("dir"), 0o755))
	// Items are counted, not calls: on a busy machine these have fewer items.
	filter := b.script("filter", `rmdir $BOX/dir 2> /dev/null && touch $BOX/dir; exec tee -a $BOX/witness`)
	line := []string{"run", "--exec", filter, "in.txt", "-o", "dir/out.txt", "--batch-items", "10"}
	c := b.stint(line...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), b.path("dir"))
	require.Contains(t, c.stderr.String(), "a file stands where a directory is needed")
	require.Contains(t, c.stderr.String(), "the same command continues")
	require.Equal(t, 100, b.lines("witness"))
	require.NoError(t, os.Remove(b.path("dir")))
	b.write("dir/other", "")
	b.stint(line...).exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("dir/out.txt"))
	require.Equal(t, 100, b.lines("witness"), "nothing is run again")
}

func TestRun_StdinThatWasNotReadToItsEndStartsAfresh(t *testing.T) {
	t.Parallel()
	b := setup(t)
	line := []string{"run", "--exec", b.slowly(), "-", "-o", "out.txt", "--batch-items", "5"}
	in, out := pipe(t)
	_, err := out.WriteString(numbers(20))
	require.NoError(t, err)
	c := b.startWith(in, line...)
	eventually(t, "an item", func() bool { return b.lines("witness") > 0 })
	c.signals <- syscall.SIGINT
	c.exits(starter.ExitStopped)
	require.NotContains(t, c.stderr.String(), "the same command continues", "D34")
	require.Contains(t, c.stderr.String(), "the same command starts afresh")
	require.NoError(t, out.Close())
	again := b.startWith(stringReader(numbers(30)), line...).exits(starter.ExitOK)
	require.Contains(t, again.stderr.String(), "starting afresh")
	requireSame(t, numbers(30), b.read("out.txt"))
}

func TestRun_StdinThatWasReadGoesOnWithoutIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.terminal = true
	line := []string{"run", "--exec", b.slowly(), "-", "-o", "out.txt", "--batch-items", "10", "--call-items", "5"}
	b.hold(33)
	b.interrupted(b.startWith(stringReader(numbers(100)), line...), 33, syscall.SIGINT)
	b.startWith(stringReader(""), line...).exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out.txt"))
	require.Equal(t, 100, b.lines("witness"), "no item is run twice")
}

// TestStop_GraceLongerThanTheExpiry (S2, S11): a call that takes its time after a stop is still vouched
// for, and its result is kept.
func TestStop_GraceLongerThanTheExpiry(t *testing.T) {
	t.Parallel()
	const expiry = 2 * time.Second
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(20))
	b.worker("p", "--exec", b.gated(), "--slots", "1")
	waiting := b.start("start", "--pool", "p", "--name", "going", "in.txt", "-o", "out.txt", "--batch-items", "10",
		"--expiry", expiry.String(), "--wait", "--report", "report.json")
	eventually(t, "a call", func() bool { return b.lines("started") == 1 })
	b.stint("stop", "going").exits(starter.ExitOK)
	stopped := time.Now()
	eventually(t, "heartbeats for longer than the expiry", func() bool {
		var r looks.Workers
		b.reads(&r, "workers", "--json", "--pool", "p")
		require.Len(t, r.Running, 1, "it is still in hand")
		return r.Running[0].Beat.After(stopped.Add(2 * expiry))
	})
	b.open()
	waiting.exits(starter.ExitStopped)
	r := b.report("report.json")
	require.EqualValues(t, 10, r.OK)
	require.Zero(t, r.Expiries)
}

// TestR12_APipeIsReadIfNoInputIsNamed: as any filter does.
func TestR12_APipeIsReadIfNoInputIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, out := pipe(t)
	_, err := out.WriteString("a\nb\n")
	require.NoError(t, err)
	require.NoError(t, out.Close())
	c := b.startWith(in, "run", "--exec", "tr a-z A-Z").exits(starter.ExitOK)
	require.Equal(t, "A\nB\n", c.stdout.String())
	b.refused(starter.ExitUsage, []string{"run", "--exec", "cat"}, "no input given")
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	b.startWith(null, "run", "--exec", "cat").exits(starter.ExitUsage)
}
