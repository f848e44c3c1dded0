package starter_test

import (
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

func TestProgress_LinesWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(300))
	c := b.stint("run", "--exec", b.slowly(), "in.txt", "-o", "out.txt", "--slots", "1", "--batch-items", "20").exits(starter.ExitOK)
	require.Regexp(t, `: [0-9]+ of 300 items \([0-9]+%\), .*0 failed\n`, c.stderr.String())
	require.NotContains(t, c.stderr.String(), "\r")
}

func TestProgress_BarOnATerminal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.terminal = true
	b.write("in.txt", numbers(100))
	c := b.stint("run", "--exec", b.slowly(), "in.txt", "-o", "out.txt", "--slots", "1", "--batch-items", "20").exits(starter.ExitOK)
	require.NotRegexp(t, `\p{Co}`, c.stderr.String(), "characters that only some fonts have")
	require.Contains(t, c.stderr.String(), "\r")
	require.Regexp(t, `[0-9]+% · [0-9]+/100`, c.stderr.String())
	require.Contains(t, c.stderr.String(), "completed: 100 items ok, 0 failed")
}

// M3: following a job shows the first failure, and what each worker has done.
func TestProgress_TellsWhoDoesWhat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.terminal = true
	b.server()
	b.write("in.txt", numbers(400))
	odd := b.script("odd", `while read n; do case $n in *7) echo "no sevens" >&2; exit 1;; esac; sleep 0.02; echo $n; done`)
	b.worker("p", "--exec", odd, "--slots", "2", "--call-items", "0")
	c := b.stint("start", "--pool", "p", "--name", "nightly", "in.txt", "-o", "out.txt", "--batch-items", "20", "--attempts", "1", "--wait").
		exits(starter.ExitSomeFailed)
	require.Regexp(t, `first failed item: [0-9]+: exit 1: no sevens`, c.stderr.String())
	require.Regexp(t, `[12] legs?, 1 worker: \S+ [0-9]+ items; oldest in flight: batch [0-9]+`, c.stderr.String())
}
