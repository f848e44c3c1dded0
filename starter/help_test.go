package starter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// The first help fits one screen, with every command in a group.
func TestGolden_Help(t *testing.T) {
	t.Parallel()
	b := setup(t)
	help := b.stint("--help").exits(starter.ExitOK).stdout.String()
	requireGolden(t, "help", help)
	require.LessOrEqual(t, strings.Count(help, "\n"), 40)
	root := starter.Commands()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	require.LessOrEqual(t, len(root.Commands()), 26)
	for _, cmd := range root.Commands() {
		require.NotEmpty(t, cmd.GroupID, cmd.Name())
		require.Contains(t, help, "\n  "+cmd.Name()+" ")
	}
	require.Equal(t, help, b.stint().exits(starter.ExitOK).stdout.String())
}

// Without arguments a command takes none of its process's.
func TestExecute_ArgumentsOfTheProcess(t *testing.T) {
	before := os.Args
	defer func() { os.Args = before }()
	os.Args = []string{"other", "unheard-of"}
	setup(t).stint().exits(starter.ExitOK)
}

// Every help fits into 100 columns; every flag of a command with many is in a group.
func TestHelp_Fits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, command := range append([]string{""}, commands...) {
		for _, flag := range []string{"--help", "--help-all"} {
			c := b.stint(append(strings.Fields(command), flag)...)
			if c.code == starter.ExitUsage {
				require.Equal(t, "--help-all", flag)
				continue
			}
			help := c.exits(starter.ExitOK).stdout.String()
			require.Contains(t, help, "\n\nUsage:\n")
			for line := range strings.Lines(help) {
				require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100, "%s: %s", command, line)
			}
		}
	}
	for _, command := range []string{"run", "worker"} {
		_, other, _ := strings.Cut(b.stint(command, "--help").stdout.String(), "Other flags:\n")
		other, _, _ = strings.Cut(other, "\n\n")
		for line := range strings.Lines(other) {
			require.Regexp(t, `^  -h, --help |^  -v, --verbose |^      --help-all `, line, command)
		}
	}
}

// shownFlags are the flags in a help text.
func shownFlags(help string) (names []string) {
	help, _, _ = strings.Cut(help, "\nGlobal Flags:\n")
	for _, found := range regexp.MustCompile(`(?m)^  (?:-.,|   ) --([a-z-]+)`).FindAllStringSubmatch(help, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names) // an example may have one at the beginning of a line
}

// --help shows no more flags than can be read, --help-all shows all, and each can be used, completed and suggested.
func TestHelp_All(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		words := strings.Fields(cmd.CommandPath())[1:]
		if cmd.HasSubCommands() {
			return
		}
		var all []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				all = append(all, f.Name)
			}
		})
		help := b.stint(append(words, "--help")...).exits(starter.ExitOK).stdout.String()
		few := shownFlags(help)
		require.LessOrEqual(t, len(few), 40, words)
		more := fmt.Sprintf("\n--help-all shows %d more flags; all flags are keys of the job file (-f), too.\n", len(all)-len(few))
		if len(few) == len(all) {
			require.NotContains(t, help, "--help-all")
			require.Equal(t, all, few, words)
			return
		}
		require.True(t, strings.HasSuffix(help, more), help)
		help = b.stint(append(words, "--help-all")...).exits(starter.ExitOK).stdout.String()
		require.Equal(t, all, shownFlags(help), words)
		require.NotContains(t, help, "more flags")
	}
	walk(starter.Commands())
	require.Contains(t, b.stint("__complete", "run", "--expi").stdout.String(), "--expiry\t")
	require.Contains(t, b.stint("run", "--expirt", "9s").exits(starter.ExitUsage).stderr.String(), "did you mean --expiry?")
	b.write("job.yaml", "help-all: true\n")
	b.refused(starter.ExitUsage, []string{"run", "-f", "job.yaml"}, `unknown key "help-all"`)
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
		{[]string{"feed", "putt"}, `unknown command "feed putt": did you mean feed put?`},
		{[]string{"feed", "call"}, "'stint feed call' needs more arguments: 'stint feed call JOB ITEM… | -f FILE | -'"},
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
	require.Equal(t, []string{"feed\tGive items to a feed and get their results: put, call, reset, close, serve"}, offers("fe"))
	require.Len(t, offers("feed", ""), 5)
	b.write("in.txt", numbers(10))
	b.stint("run", "--exec", "cat", "in.txt", "-o", "out.txt", "--name", "local-one").exits(starter.ExitOK)
	require.Equal(t, []string{"local-one"}, offers("redrive", "lo"))

	b.server()
	b.worker("p", "--exec", "cat")
	for _, name := range []string{"nightly", "night-shift", "daily"} {
		b.stint("start", "--pool", "p", "--name", name, "in.txt", "-o", name+".txt", "--wait").exits(starter.ExitOK)
	}
	// answers are offers that need the server: if it takes longer than a shell waits for, there are none, and it is
	// asked again.
	answers := func(args ...string) (all []string) {
		t.Helper()
		eventually(t, strings.Join(args, " "), func() bool { all = offers(args...); return len(all) > 0 })
		return all
	}
	eventually(t, "the list of jobs", func() bool { return len(offers("status", "")) == 3 })
	require.Equal(t, []string{"night-shift", "nightly"}, answers("status", "ni"))
	require.Equal(t, []string{"p"}, answers("stop", "--pool", ""))
	require.Equal(t, []string{"daily"}, answers("feed", "put", "da"))
	require.Equal(t, []string{"record"}, offers("run", "--on-error", "rec"))
	require.Contains(t, answers("set", "nightly", "wi"), "window=")
	require.Equal(t, []string{"window=auto"}, answers("set", "nightly", "window="))
	require.NotContains(t, strings.Join(answers("set", "nightly", ""), " "), ".window=", "it has no stages")

	b.write("job.yaml", "{name: birds, input: in.txt, output: birds.txt, stages: [{name: clean, pool: p}, {name: score, ensemble: [{pool: one}, {pool: two}]}]}")
	b.stint("start", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, []string{
		"batch-items=", "clean.window=", "deadline=", "max-cost=", "max-failed=", "max-tokens=", "priority=", "rate=", "rpm=", "score.one.window=", "score.two.window=", "tpm=", "window=",
	}, answers("set", "birds", ""))
	require.Equal(t, []string{"score.one.window=", "score.two.window="}, answers("set", "birds", "window=3", "sc"))
	require.Equal(t, []string{"score.two.window=auto"}, answers("set", "birds", "score.two.window="))
}
