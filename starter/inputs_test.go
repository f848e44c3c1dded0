package starter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/starter"
)

// n lines in are n lines out of a filter, from a file and from the standard input; what was passed over is said.
func TestD21_RunKeepsTheLinesOfAText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const text = "one\n\n\ntwo\n \nthree"
	b.write("in.txt", text)
	b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt", "--batch-items", "2").exits(starter.ExitOK)
	require.Equal(t, text+"\n", b.read("out.txt"))
	c := b.startWith(strings.NewReader(text), "run", "--exec", "cat", "-").exits(starter.ExitOK)
	require.Equal(t, text+"\n", c.stdout.String())

	b.write("in.jsonl", "1\n\n\n2\n")
	c = b.stint("run", "--exec", "cat", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitOK)
	require.Contains(t, c.stderr.String(), "2 blank lines passed over")
	require.Contains(t, b.stint("plan", "in.jsonl").exits(starter.ExitOK).stdout.String(), "2 blank lines passed over")
}
