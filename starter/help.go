package starter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// helpColumns is where lines of the flags' descriptions are wrapped; words may go a little beyond.
	helpColumns = 95
	// textColumns is the most that a line of other text has.
	textColumns = 100
)

// flagGroups are the groups of flags in the help of commands that have many, in their order. Of a command with more
// than mostFlags, --help leaves the rare ones out.
var flagGroups = []struct {
	title       string
	flags, rare []string
}{
	{"Usual flags", []string{
		"exec", "serve", "each", "shell", "output", "slots", "concurrency", "on-error", "fresh", "quiet",
	}, nil},
	{"A command for each item", []string{"result", "dry-run"}, []string{
		"tag", "stdin", "ok-exit", "skip-if-exists", "joblog", "shell-program",
	}},
	{"An HTTP endpoint", []string{"http", "llm", "header", "model", "prompt"}, []string{
		"body", "array", "result-path", "schema", "system", "embed", "max-output", "accept-finish", "params", "max-answer", "allow-origin",
		"price-in", "price-out", "price-cached",
	}},
	{"Input", []string{"file", "format", "items", "null"}, []string{"delimiter", "quote", "new-files", "new-files-list", "max-item", "max-input", "flush"}},
	{"Output", []string{"errors", "flatten", "json"}, []string{"columns", "dropped", "split", "report", "verbose"}},
	{"Speed", []string{"batch-items", "call-items", "job-rate"}, []string{"window", "priority", "batch-bytes", "rate", "cpus"}},
	{"Only what is new", []string{"reuse"}, append(slices.Clip(reuseNames), "unique")},
	{"Limits and cost", nil, []string{"rpm", "tpm", "limit-by", "max-cost", "max-tokens", "deadline"}},
	{"Versions of the handler", nil, []string{"pin"}},
	{"Failure", []string{"max-failed", "attempts", "item-attempts", "call-timeout"}, []string{
		"backoff", "retry", "no-retry", "batch-timeout", "expiry", "restarts", "ready",
	}},
	{"Stop", []string{"grace"}, []string{"clean-stop", "ignore-stragglers", "drain", "kill-after"}},
	{"Hooks", nil, []string{"init", "shutdown", "cleanup", "hook"}},
	{"The handler's processes", []string{"env"}, []string{"dir", "seed"}},
	{"Feeds", []string{"feed", "capacity", "batch-wait"}, []string{"capacity-bytes", "keep"}},
	{"A sample", []string{"sample", "workers"}, []string{"sample-seed"}},
	{"Schedules", []string{"cron", "time-zone", "overlap", "catch-up"}, nil},
	{"Names, access and connection", []string{
		"name", "pool", "allow", "state", "address", "namespace", "codec-key-file",
	}, []string{"wait-for-server", "metrics", "ui-port", "profile", "ui"}},
}

const (
	// groupedFlags is the number of flags from which they are shown in groups.
	groupedFlags = 16
	// mostFlags is how many --help shows.
	mostFlags = 40
	// helpAll shows all.
	helpAll = "help-all"
)

// shown returns the flags of a command that it has not hidden.
func shown(cmd *cobra.Command) (flags []*pflag.Flag) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f)
		}
	})
	return flags
}

// addHelpAll adds the flag that shows all flags of a command whose --help leaves some out.
func addHelpAll(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	if len(shown(cmd)) > mostFlags {
		fs := cmd.Flags()
		fs.BoolFunc(helpAll, "help with all flags, rare ones too", func(string) error { return fs.Set("help", "true") })
	}
}

// help prints what a command does and how it is used.
func help(cmd *cobra.Command, _ []string) {
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n", wrapped(cmp.Or(cmd.Long, cmd.Short)))
	_ = cmd.Usage() // to a terminal that is gone
}

// wrapped returns a text with its paragraphs wrapped at textColumns. Indented lines stay as they are.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	newline := func() {
		if column > 0 {
			b.WriteByte('\n')
		}
		column = 0
	}
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, " ") {
			newline()
			b.WriteString(line)
			continue
		}
		for _, word := range words {
			n := utf8.RuneCountInString(word)
			if column > 0 && column+1+n > textColumns {
				newline()
			}
			if column > 0 {
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// usage prints how a command is used: cobra's text, with commands and flags in groups.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.HasSubCommands() {
		fmt.Fprintf(&b, "  %[1]s COMMAND …   (help with one: %[1]s COMMAND --help)\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range cmd.Groups() {
		writeCommands(&b, cmd, group.Title, group.ID)
	}
	if cmd.HasSubCommands() && len(cmd.Groups()) == 0 {
		writeCommands(&b, cmd, "Commands", "")
	}
	if flags := shown(cmd); len(flags) < groupedFlags {
		if cmd.HasParent() {
			writeFlags(&b, "Flags", flags)
		}
	} else {
		writeGroups(&b, cmd, flags)
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nGlobal Flags:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpColumns))
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

func writeCommands(b *strings.Builder, cmd *cobra.Command, title, group string) {
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, sub := range cmd.Commands() {
		if sub.GroupID == group && !sub.Hidden {
			fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

func writeFlags(b *strings.Builder, title string, flags []*pflag.Flag) {
	if len(flags) == 0 {
		return
	}
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	for _, f := range flags {
		set.AddFlag(f)
	}
	fmt.Fprintf(b, "\n%s:\n%s", title, set.FlagUsagesWrapped(helpColumns))
}

// writeGroups writes the flags of a command in groups, the rare ones only if they are asked for or there is room for
// them.
func writeGroups(b *strings.Builder, cmd *cobra.Command, left []*pflag.Flag) {
	all, more := cmd.Flags().Lookup(helpAll), 0
	take := func(names []string) (flags []*pflag.Flag) {
		for _, name := range names {
			if i := slices.IndexFunc(left, func(f *pflag.Flag) bool { return f.Name == name }); i >= 0 {
				flags = append(flags, left[i])
				left = slices.Delete(left, i, i+1)
			}
		}
		return flags
	}
	for _, g := range flagGroups {
		flags, rare := take(g.flags), take(g.rare)
		if all == nil || all.Changed {
			flags = append(flags, rare...)
		} else {
			more += len(rare)
		}
		writeFlags(b, g.title, flags)
	}
	writeFlags(b, "Other flags", left)
	if more > 0 {
		fmt.Fprintf(b, "\n--%s shows %d more flags; all flags are keys of the job file (-f), too.\n", helpAll, more)
	}
}

// unknownCommand returns the error for a command that does not exist. It names those that may be meant.
func unknownCommand(parent *cobra.Command, name string) error {
	_, group, _ := strings.Cut(parent.CommandPath()+" ", " ")
	return usageError("unknown command %q%s", group+name, didYouMean(group, parent.SuggestionsFor(name)))
}

// wrongFlag makes a complaint about a flag a usage error. Of a flag that does not exist it names those that may be
// meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if wanted := wantedValues[invalid.GetFlag().Value.Type()]; wanted != "" {
			if errors.Is(err, strconv.ErrRange) {
				wanted += "; this one is out of range"
			}
			return usageError("--%s %q: use %s", invalid.GetFlag().Name, invalid.GetValue(), wanted)
		}
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return usageError("%w", err)
	}
	// The library compares commands only: these have the names of the flags.
	names := &cobra.Command{Use: cmd.Name(), SuggestionsMinimumDistance: suggestedDistance}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return usageError("%w%s", err, didYouMean("--", closest(unknown.GetSpecifiedName(), names.SuggestionsFor(unknown.GetSpecifiedName()))))
}

// closest returns those of some names that have the same letters as a name in another order, or else those that begin
// with it; if there are none, all.
func closest(name string, names []string) []string {
	letters := func(s string) string { return string(slices.Sorted(slices.Values([]rune(s)))) }
	for _, far := range []func(string) bool{
		func(other string) bool { return letters(other) != letters(name) },
		func(other string) bool { return !strings.HasPrefix(other, name) },
	} {
		if near := slices.DeleteFunc(slices.Clone(names), far); len(near) > 0 {
			return near
		}
	}
	return names
}

// wantedValues say what the flags of a type take, instead of what Go's packages say about it.
var wantedValues = map[string]string{
	"int": "a whole number", "int64": "a whole number", "duration": "a duration with its unit, such as 500ms, 30s or 1h30m",
}

// suggestedDistance is how many letters a suggested name may differ by.
const suggestedDistance = 2

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}
