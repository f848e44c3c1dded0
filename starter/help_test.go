package starter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

func TestRun_Help(t *testing.T) {
	t.Parallel()
	help := setup(t).stint("run", "--help").exits(starter.ExitOK).stdout.String()
	requireGolden(t, "run-help", help)
	_, usual, _ := strings.Cut(help, "Usual flags:\n")
	usual, _, _ = strings.Cut(usual, "\n\n")
	require.Equal(t, 10, strings.Count(usual, "--"), "ten usual flags come first")
}

// Every help fits into 100 columns; every flag of a command with many is in a group.
func TestHelp_Fits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, command := range append([]string{"put", "call", "reset", "close", "results", "loop", "codec-server"}, commands...) {
		help := b.stint(command, "--help").exits(starter.ExitOK).stdout.String()
		require.Contains(t, help, "\n\nUsage:\n")
		for line := range strings.Lines(help) {
			require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100, "%s: %s", command, line)
		}
	}
	for _, command := range []string{"run", "worker"} {
		_, other, _ := strings.Cut(b.stint(command, "--help").stdout.String(), "Other flags:\n")
		for line := range strings.Lines(other) {
			require.Regexp(t, `^  -h, --help |^  -v, --verbose `, line, command)
		}
	}
}

func TestStint_Version(t *testing.T) {
	t.Parallel()
	b := setup(t)
	flag := b.stint("--version").exits(starter.ExitOK).stdout.String()
	require.Regexp(t, `^stint \S.*, go1\.\S+ \S+/\S+, Temporal server 1\.\d+\.\d+\n$`, flag)
	require.Equal(t, flag, b.stint("version").exits(starter.ExitOK).stdout.String())
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.stint("version", "--json").exits(starter.ExitOK).stdout.String()), &v))
	require.Equal(t, "stint", v["name"])
	require.NotEmpty(t, v["temporal_server"])
}

func TestStint_DidYouMean(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"rnu"}, `unknown command "rnu": did you mean run?`},
		{[]string{"run", "--exce", "cat"}, "unknown flag: --exce: did you mean --exec?"},
		{[]string{"run", "--batch"}, "unknown flag: --batch: did you mean --batch-bytes or --batch-items or --batch-timeout?"},
		{[]string{"list", "odd", "one"}, `'stint list' takes no arguments: leave "odd one" out`},
		{[]string{"status"}, "'stint status' needs more arguments: 'stint status JOB'"},
		{[]string{"status", "a", "b"}, "'stint status' takes no more arguments than these: 'stint status JOB'"},
		{[]string{"set", "nightly"}, "'stint set' needs more arguments: 'stint set JOB NAME=VALUE…'"},
		{[]string{"nothing-like-it"}, "unknown command \"nothing-like-it\"\n"},
		{[]string{"run", "--nothing-like-it"}, "unknown flag: --nothing-like-it\n"},
	} {
		require.Contains(t, b.stint(c.args...).exits(starter.ExitUsage).stderr.String(), c.says)
	}
}

func TestStint_SlotsShorthand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", "a\n")
	c := b.stint("run", "--exec", "cat", "in.txt", "-j", "0").exits(starter.ExitUsage)
	require.Contains(t, c.stderr.String(), "--slots 0: use 1 to 1000")
	b.stint("run", "--exec", "cat", "in.txt", "-j", "3").exits(starter.ExitOK)
}

// Shells complete commands, jobs, pools, settings and values of flags.
func TestStint_Completion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Contains(t, b.stint("--help").stdout.String(), "  completion ")
	require.Contains(t, b.stint("completion", "bash").exits(starter.ExitOK).stdout.String(), "__start_stint")
	offers := func(args ...string) []string {
		lines := strings.Split(b.stint(append([]string{"__complete"}, args...)...).exits(starter.ExitOK).stdout.String(), "\n")
		return lines[:len(lines)-2] // the last one says how to treat them
	}
	b.write("in.txt", numbers(10))
	b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt", "--name", "local-one").exits(starter.ExitOK)
	require.Equal(t, []string{"local-one"}, offers("redrive", "lo"))

	b.server()
	b.worker("p", "--exec", "cat")
	for _, name := range []string{"nightly", "night-shift", "daily"} {
		b.stint("start", "--pool", "p", "--name", name, "in.txt", "-o", name+".txt", "--wait").exits(starter.ExitOK)
	}
	eventually(t, "the list of jobs", func() bool { return len(offers("status", "")) == 3 })
	require.Equal(t, []string{"night-shift", "nightly"}, offers("status", "ni"))
	require.Equal(t, []string{"p"}, offers("stop", "--pool", ""))
	require.Equal(t, []string{"record"}, offers("run", "--on-error", "rec"))
	require.Contains(t, offers("set", "nightly", "wi"), "window=")
	require.Equal(t, []string{"window=auto"}, offers("set", "nightly", "window="))
	require.NotContains(t, strings.Join(offers("set", "nightly", ""), " "), ".window=", "it has no stages")

	b.write("job.yaml", "{name: birds, input: in.txt, output: birds.txt, stages: [{name: clean, pool: p}, {name: score, ensemble: [{pool: one}, {pool: two}]}]}")
	b.stint("start", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, []string{"batch-items=", "clean.window=", "max-failed=", "rate=", "score.one.window=", "score.two.window=", "window="}, offers("set", "birds", ""))
	require.Equal(t, []string{"score.one.window=", "score.two.window="}, offers("set", "birds", "window=3", "sc"))
	require.Equal(t, []string{"score.two.window=auto"}, offers("set", "birds", "score.two.window="))
}
