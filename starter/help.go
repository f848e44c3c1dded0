package starter

import (
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

// flagGroups are the groups of flags in the help of commands that have many, in their order.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Usual flags", []string{"exec", "serve", "output", "format", "slots", "concurrency", "on-error", "max-failed", "fresh", "quiet"}},
	{"Input", []string{"file", "delimiter", "quote", "max-item", "max-input", "flush"}},
	{"Output", []string{"columns", "errors", "dropped", "split", "flatten", "report", "json", "verbose"}},
	{"Speed", []string{"batch-items", "batch-bytes", "window", "call-items", "job-rate", "rate", "cpus"}},
	{"Failure", []string{"attempts", "item-attempts", "backoff", "call-timeout", "batch-timeout", "expiry", "restarts", "ready"}},
	{"Stop", []string{"grace", "clean-stop", "ignore-stragglers", "drain", "kill-after"}},
	{"Hooks", []string{"init", "shutdown", "cleanup", "hook"}},
	{"The handler's processes", []string{"env", "dir", "seed"}},
	{"Feeds", []string{"feed", "capacity", "capacity-bytes", "batch-wait", "keep"}},
	{"Schedules", []string{"cron", "time-zone", "overlap", "catch-up"}},
	{"Names, access and connection", []string{"name", "pool", "allow", "state", "ui-port", "metrics", "address", "namespace", "profile", "ui", "codec-key-file", "wait-for-server"}},
}

// manyFlags is the number of flags from which they are shown in groups.
const manyFlags = 16

// help prints what a command does and how it is used.
func help(cmd *cobra.Command, _ []string) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n", wrapped(text))
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

// usage prints how a command is used: cobra's text, with the flags of commands that have many in groups.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	writeFlags(&b, cmd.LocalFlags())
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nGlobal Flags:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpColumns))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

func writeFlags(b *strings.Builder, all *pflag.FlagSet) {
	var left []*pflag.Flag
	all.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			left = append(left, f)
		}
	})
	write := func(title string, flags []*pflag.Flag) {
		if len(flags) == 0 {
			return
		}
		group := pflag.NewFlagSet(title, pflag.ContinueOnError)
		group.SortFlags = false
		for _, f := range flags {
			group.AddFlag(f)
		}
		fmt.Fprintf(b, "\n%s:\n%s", title, group.FlagUsagesWrapped(helpColumns))
	}
	if len(left) < manyFlags {
		write("Flags", left)
		return
	}
	for _, g := range flagGroups {
		var some []*pflag.Flag
		for _, name := range g.flags {
			if i := slices.IndexFunc(left, func(f *pflag.Flag) bool { return f.Name == name }); i >= 0 {
				some = append(some, left[i])
				left = slices.Delete(left, i, i+1)
			}
		}
		write(g.title, some)
	}
	write("Other flags", left)
}

// unknownCommand is the error for a command that does not exist. It names those that may be meant.
func unknownCommand(root *cobra.Command, name string) error {
	return usageError("unknown command %q%s", name, didYouMean("", root.SuggestionsFor(name)))
}

// wrongFlag makes a complaint about a flag a usage error. Of a flag that does not exist it names those that may be meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if wanted := wantedValues[invalid.GetFlag().Value.Type()]; wanted != "" {
			if errors.Is(err, strconv.ErrRange) {
				wanted += "; this one is out of range"
			}
			return usageError("--%s %q: use %s", invalid.GetFlag().Name, invalid.GetValue(), wanted)
		}
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return usageError("%w", err)
	}
	// The library compares commands only: these have the names of the flags.
	names := &cobra.Command{Use: cmd.Name(), SuggestionsMinimumDistance: suggestedDistance}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return usageError("%w%s", err, didYouMean("--", names.SuggestionsFor(unknown.GetSpecifiedName())))
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
