package starter_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// breakable makes a filter that works as the shell script in the file "body" says.
func (b *box) breakable(body string) string {
	b.t.Helper()
	b.mend(body)
	return b.script("filter", `. $BOX/body`)
}

func (b *box) mend(body string) { b.write("body", body+"\n") }

// pasted runs the command line that a command has printed behind text.
func (b *box) pasted(c *command, text string) *command {
	b.t.Helper()
	_, line, found := strings.Cut(c.stderr.String(), text)
	require.True(b.t, found, "%q in %s", text, c.stderr.String())
	line, _, _ = strings.Cut(line, "\n")
	words, err := cmdline.Split(line)
	require.NoError(b.t, err)
	require.Equal(b.t, "stint", words[0])
	return b.stint(words[1:]...)
}

// A job in which nothing worked runs its failed items when it is run again with a mended handler, and has listed them
// meanwhile.
func TestRun_AgainAfterNothingWorked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(300))
	line := []string{"run", "--exec", b.breakable("exit 1"), "in.txt", "-o", "out.txt", "--backoff", "1ms"}
	c := b.stint(line...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "nothing works")
	require.Contains(t, c.stderr.String(), "errors: out.txt.errors.jsonl\n")
	require.NotEmpty(t, b.failures("out.txt.errors.jsonl"))
	require.NoFileExists(t, b.path("out.txt"))

	b.mend("exec cat")
	c = b.stint(line...).exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "300 items ok, 0 failed")
	requireSame(t, numbers(300), b.read("out.txt"))
	require.NoFileExists(t, b.path("out.txt.errors.jsonl"))
	left, err := os.ReadDir(b.path(".stint/jobs/" + b.onlyJob()))
	require.NoError(t, err)
	left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return !e.IsDir() })
	require.Len(t, left, 1, "what the failed run has left is removed")
}

// earlierItems is the number of items that, as the end of a run says, earlier runs had done. Which batches those are is
// not known beforehand: a pool takes waiting ones in any order.
func earlierItems(t *testing.T, c *command) int {
	t.Helper()
	found := regexp.MustCompile(`(\d+) items? done by earlier runs`).FindStringSubmatch(c.stderr.String())
	require.NotNil(t, found, c.stderr.String())
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n
}

// onlyJob is the name of the one job in the state of the box.
func (b *box) onlyJob() string {
	b.t.Helper()
	jobs, err := os.ReadDir(b.path(".stint/jobs"))
	require.NoError(b.t, err)
	require.Len(b.t, jobs, 1)
	return jobs[0].Name()
}

// If a run before that one has done something, that is kept.
func TestRun_AgainAfterNothingWorkedAnyMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(300))
	line := []string{"run", "--exec", b.breakable(`echo >> $BOX/calls; [ $(wc -l < $BOX/calls) -le 5 ] || exit 1; cat`), "in.txt", "-o", "out.txt",
		"--backoff", "1ms", "--slots", "1", "--batch-items", "10"}
	b.stint(append(line, "--on-error", "stop")...).exits(starter.ExitFailed)
	failed := len(b.failures("out.txt.errors.jsonl")) // of the batch that stopped it, and of one that ran beside
	require.GreaterOrEqual(t, failed, 10)
	b.mend("exit 1")
	c := b.stint(line...).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "nothing works")
	require.Contains(t, c.stderr.String(), fmt.Sprintf("%d items done by earlier runs", 50+failed))
	b.mend("exec cat")
	c = b.stint(line...).exits(starter.ExitSomeFailed)
	require.Contains(t, c.stderr.String(), "from before the run in which nothing worked")
	require.Contains(t, c.stderr.String(), fmt.Sprintf("%d items ok, %d failed", 300-failed, failed), "those that the first run had recorded")
}

// The end of a run names the command that fits, and it works as it is printed, without a server.
func TestRun_NamesTheNextCommand(t *testing.T) {
	t.Parallel()
	t.Run("redrive", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.write("in put.txt", numbers(100))
		filter := b.breakable("sed /7$/d")
		c := b.stint("run", "--exec", filter+" 'a b'", "in put.txt", "-o", "out.txt", "--backoff", "1ms",
			"--slots", "2", "--env", "A=it's", "--state", "a state", "--batch-items", "10").exits(starter.ExitSomeFailed)
		b.env = append(b.env, "A=it's")
		b.mend(`[ "$A" = "it's" ] && [ "$1" = "a b" ] && exec cat`)
		c = b.pasted(c, "to run the failed items again: ").exits(starter.ExitOK)
		require.Contains(t, c.stderr.String(), "10 failed items run again")
		requireSame(t, numbers(100), b.read("out.txt"))
		require.NoFileExists(t, b.path("out.txt.errors.jsonl"))
		require.NoDirExists(t, b.path(".stint"))
	})
	t.Run("redrive to stdout", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.write("in.txt", numbers(20))
		c := b.stint("run", "--exec", b.breakable("sed /7$/d"), "in.txt", "--backoff", "1ms").exits(starter.ExitSomeFailed)
		b.mend("exec cat")
		c = b.pasted(c, "to run the failed items again: ").exits(starter.ExitOK)
		requireSame(t, numbers(20), c.stdout.String())
	})
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.write("in.txt", numbers(100))
		c := b.stint("run", "--exec", b.breakable("sed /0000050/d"), "in.txt", "-o", "out.txt", "--backoff", "1ms",
			"--slots", "1", "--batch-items", "10", "--on-error", "stop", "--expiry", "1m").exits(starter.ExitFailed)
		b.mend(`tee -a $BOX/seen`)
		c = b.pasted(c, "and so does: ").exits(starter.ExitSomeFailed)
		require.Contains(t, c.stderr.String(), "99 items ok, 1 failed")
		require.Equal(t, 100-earlierItems(t, c), b.lines("seen"), "what was done is not done again")
		b.pasted(c, "to run the failed items again: ").exits(starter.ExitOK)
		requireSame(t, numbers(100), b.read("out.txt"))
	})
}

// TestD17_NoValueOfAVariableIsPrinted: a printed command has the names of variables, and the run says which of them it
// needs in its environment. TestD34: its other flags are as they were given, zeros too.
func TestD17_NoValueOfAVariableIsPrinted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env = append(b.env, "SET=hunter3", "SAME=hunter4")
	b.write("in.txt", numbers(20))
	c := b.stint("run", "--exec", b.breakable("sed /7$/d"), "in.txt", "-o", "out.txt", "--backoff", "1ms", "--call-items", "0", "--restarts", "0",
		"--env", "TOKEN=hunter2", "--env", "SET", "--env", "SAME=hunter4", "--env", "NOTSET", "--env", "EMPTY=").exits(starter.ExitSomeFailed)
	said := c.stdout.String() + c.stderr.String()
	require.NotContains(t, said, "hunter")
	require.Contains(t, said, "--env NOTSET: the variable is not set here")
	require.NotContains(t, said, "--env SET: ")
	require.Contains(t, said, "--call-items 0")
	require.Contains(t, said, "--restarts 0")
	require.Contains(t, said, "--env TOKEN --env SET --env SAME --env NOTSET --env EMPTY --")
	require.Contains(t, said, "export them first: TOKEN)\n")
	b.env = append(b.env, "TOKEN=hunter2")
	b.mend(`[ "$TOKEN$SET$SAME" = hunter2hunter3hunter4 ] && exec cat`)
	b.pasted(c, "to run the failed items again: ").exits(starter.ExitOK)
	requireSame(t, numbers(20), b.read("out.txt"))
}

// A state is found without a flag if no server is named, and a cluster's job never is.
func TestRedrive_FindsTheState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(20))
	filter := b.breakable("sed /7$/d")
	b.stint("run", "--exec", filter, "in.txt", "-o", "out.txt", "--backoff", "1ms", "--name", "mine").exits(starter.ExitSomeFailed)
	c := b.stint("redrive", "mine").exits(starter.ExitUsage)
	require.Contains(t, c.stderr.String(), "no handler given")
	c = b.stint("redrive", "other", "--exec", filter).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "there is no job other in the state of "+b.path(".stint"))
	c = b.stint("redrive", "mine", "--address", "127.0.0.1:1").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "no Temporal server answers at 127.0.0.1:1: connection refused\n", "14.15: without what gRPC says")
	c = b.stint("resume", "mine", "--exec", filter).exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "job mine has completed: nothing is left to resume")
	b.mend("exec cat")
	b.stint("redrive", "mine", "--exec", filter).exits(starter.ExitOK)
	c = b.stint("redrive", "mine", "--exec", filter).exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "job mine has no failed items")
}

// On a cluster, too, a job in which nothing worked runs its items again when it is resumed.
func TestResume_AfterNothingWorked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server()
	b.write("in.txt", numbers(100))
	b.worker("p", "--exec", b.breakable("exit 1"))
	c := b.stint("start", "--pool", "p", "--name", "broken", "in.txt", "-o", "out.txt", "--backoff", "1ms", "--wait").exits(starter.ExitFailed)
	require.Contains(t, c.stderr.String(), "nothing works")
	require.NotEmpty(t, b.failures("out.txt.errors.jsonl"))
	b.mend("exec cat")
	b.stint("resume", "broken", "--wait").exits(starter.ExitOK)
	requireSame(t, numbers(100), b.read("out.txt"))
	var r job.Report
	b.reads(&r, "status", "broken", "--json")
	require.EqualValues(t, 100, r.OK, fmt.Sprint(r.Resumed))
}

// A filter that cannot work is found out after some calls, not after the whole input, with the first error and a hint.
func TestRun_HandlerThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, command, says string }{
		{"no lines", "grep no-such-line", "exit 1"},
		{"too many lines", "sed p", "given 1 item and answered with 2 results"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("in.txt", numbers(5000))
			command := c.command
			if name, args, _ := strings.Cut(command, " "); name != "" {
				command = b.script("counted", `echo >> $BOX/calls; exec `+name+` "$@"`) + " " + args
			}
			run := b.stint("run", "--exec", command, "in.txt", "-o", "out.txt", "--slots", "2", "--report", "report.json").exits(starter.ExitFailed)
			require.Contains(t, run.stderr.String(), "nothing works: all of the first ")
			require.Contains(t, run.stderr.String(), c.says)
			require.Contains(t, run.stderr.String(), "a filter answers n lines with n lines and ends with status 0, and {} in its command is not replaced")
			require.LessOrEqual(t, b.report("report.json").Failed, int64(4*20))
			require.Less(t, b.lines("calls"), 400)
		})
	}
}

// A filter that sums its lines up succeeds with single ones, and is warned about.
func TestRun_WarnsOfSums(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(40))
	// Batches of eight items: those of a slow machine may have one.
	c := b.stint("run", "--exec", "wc -l", "in.txt", "-o", "out.txt", "--backoff", "1ms", "--attempts", "1", "--batch-items", "8").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "warning: calls of several items get one result")
	require.Contains(t, c.stderr.String(), "as 'wc -l' does")
	c = b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt").exits(starter.ExitOK)
	require.NotContains(t, c.stderr.String(), "warning")
}
