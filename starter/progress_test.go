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
	require.Regexp(t, `[0-9]+ of 100 items \([0-9]+%\)`, c.stderr.String())
	require.Contains(t, c.stderr.String(), "completed: 100 items ok, 0 failed")
}
