package starter_test

import (
	"os"
	"strings"
	"testing"

	cmdline "github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// TestD30_PlaceholdersAreRefused, with a command that does what is meant.
func TestD30_PlaceholdersAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "one\nit's two\n \"three\n")
	c := b.refused(starter.ExitUsage, []string{"run", "--exec", "echo '<{}>'", "in.txt", "-o", "out.txt"}, "nothing replaces <{}>", "standard input")
	_, advice, _ := strings.Cut(c.stderr.String(), "once for each item: ")
	words, err := cmdline.Split(strings.Split(advice, "\n")[0])
	require.NoError(t, err)
	b.stint(append([]string{"run", "in.txt", "-o", "out.txt"}, words...)...).exits(starter.ExitOK)
	require.Equal(t, "<one>\n<it's two>\n< \"three>\n", b.read("out.txt"))
	require.NoError(t, os.Remove(b.path("out.txt")))
	for _, command := range []string{"gzip {}", "timeout 5 convert {} out/{/}.png", "./script {.}"} {
		b.refused(starter.ExitUsage, []string{"run", "--exec", command, "in.txt", "-o", "new.txt"}, "nothing replaces ")
	}
	b.write("job.yaml", "exec: [cat, -n]\ninput: in.txt\noutput: new.txt\n")
	b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml"}, "expected one value, not a list of 2: write 'exec: cat -n'") // R18
	for _, line := range []struct{ args, says []string }{
		{[]string{"--exec", "FOO=1 cat"}, []string{"without a shell", "--env FOO=VALUE"}}, // R18
		{[]string{"--exec", "cat", "-j", "100%"}, []string{`--slots "100%": use a whole number`}},
		{[]string{"--exec", "cat", "--seed", "x"}, []string{`--seed "x": use a whole number`}}, // R20
		{[]string{"--exec", "cat", "--grace", "x"}, []string{`--grace "x": use a duration with its unit`}},
		{[]string{"--exec", "cat", "--grace", "-1s"}, []string{"--grace -1s: use a duration of 0 or more"}},
		{[]string{"--exec", "cat", "--name", ""}, []string{"--name '': it is empty"}},
		{[]string{"--exec", "cat", "--pool", ""}, []string{"--pool '': it is empty"}},
		{[]string{"--exec", "cat", "--cpus", ""}, []string{"--cpus '': it is empty"}},
	} {
		c := b.refused(starter.ExitUsage, append([]string{"run", "in.txt", "-o", "new.txt"}, line.args...), line.says...)
		require.NotContains(t, c.stderr.String(), "strconv")
	}
}

// Braces are the matter of programs that replace them or run code.
func TestD30_ProgramsWithTheirOwnPlaceholders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	for _, command := range []string{"xargs -I{} echo {}", "timeout 60 xargs -I{} echo {}", "sed s/a/{}/", "awk {print}", "sh -c 'f() { cat; }; f'", "perl -pe {}", "tr a {"} {
		tool(t, strings.Fields(command)[0])
		b.stint("run", "--exec", command, "in.txt", "-o", "out.txt", "--fresh").exits(starter.ExitOK)
	}
}
