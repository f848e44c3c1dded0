package starter

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
)

// What the result of a command for each item may be, and what it may have on its standard input.
const (
	resultLines = "lines"
	resultNone  = "none"
	stdinNone   = "none"
	stdinItem   = "item"
)

// commandKeys are the flags that say more of a command for each item.
var commandKeys = []string{
	"shell-program", "result", "tag", "stdin", "ok-exit", "skip-if-exists", "joblog", "delimiter",
}

// stdinFlag is the standard input of a command.
type stdinFlag bool

func (s *stdinFlag) String() string {
	if *s {
		return stdinItem
	}
	return stdinNone
}
func (s *stdinFlag) Type() string { return stdinNone + "|" + stdinItem }
func (s *stdinFlag) Set(text string) error {
	if text != stdinNone && text != stdinItem {
		return errors.New("use " + stdinNone + " or " + stdinItem)
	}
	*s = text == stdinItem
	return nil
}

// addCommandFlags adds the flags of commands for each item.
func (o *workerOptions) addCommandFlags(fs *pflag.FlagSet) {
	c := &o.command
	fs.StringVar(&c.Shell, "shell-program", "sh", "of --shell: the `SHELL`: sh, dash or bash, or a path to one")
	fs.StringVar(&c.Result, "result", resultLines, "of --each and --shell: what an item's result is: the `lines` that the command prints, as they are; "+
		"json: all of it as one string; record: an object with its exit status, too; none")
	fs.BoolVar(&c.Tag, "tag", false, "of --each and --shell: put the item and a tab before each line")
	fs.Var((*stdinFlag)(&c.Stdin), "stdin", "of --each and --shell: what the command has on its standard input: nothing, or the item")
	fs.IntSliceVar(&c.OKExits, "ok-exit", nil, "of --each and --shell: exit `STATUSES` that are no failure, such as 0,1 (default: 0)")
	fs.StringVar(&c.SkipIfExists, "skip-if-exists", "", "of --each and --shell: `FILE` that the command makes, with placeholders: if it is there, the command is not run; {out} is a name for it until the command has succeeded")
	fs.StringVar(&c.JobLog, "joblog", "", "of --each and --shell: `FILE` that gets a line for each command: when, how long, its exit status")
	if fs.Lookup("delimiter") == nil { // a command that takes inputs has it for them, too
		fs.StringVar(&c.Delimiter, "delimiter", "", "of --each and --shell: what separates the columns {1}, {2} of a line of text, such as ; or \\t (default: it is one column)")
	}
}

// eachCommand returns the handler of a command for each item.
func (o *workerOptions) eachCommand(words []string, script string) (worker.Handler, error) {
	c := o.command
	c.Words, c.Script = words, script
	if c.Delimiter == `\t` {
		c.Delimiter = "\t"
	}
	return worker.Command(c), nil
}

// runsEach reports whether the handler runs a command for each item.
func (o *workerOptions) runsEach() bool {
	named := o.named()
	return len(named) == 1 && named[0].each
}

// takeCommand makes what follows -- the command for each item, unless another flag has given the handler. It returns the
// inputs.
func (o *workerOptions) takeCommand(cmd *cobra.Command, p *Program, args []string) ([]string, error) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 || len(o.named()) > 0 || p.builtIn() {
		return args, nil
	}
	if dash == len(args) {
		return nil, usageError("there is no command after --")
	}
	return args[:dash], cmd.Flags().Set("each", command.Line(args[dash:]))
}

// eachItem completes the spec of a job with a command for each item: what its results are, and what its items are if
// nothing else says so.
func (o *workerOptions) eachItem(spec *job.Spec) {
	if o.command.Result == resultLines || o.command.Result == resultNone {
		spec.Flatten = true
	}
	if spec.Files == nil {
		return
	}
	if spec.Files.OtherFormat == "" {
		spec.Files.OtherFormat = string(records.Text)
	}
	if o.command.Delimiter = spec.Files.Delimiter; !mayBeDelimited(spec) {
		spec.Files.Delimiter = ""
	}
}

// mayBeDelimited reports whether an input has fields with a delimiter, as far as its name shows.
func mayBeDelimited(spec *job.Spec) bool {
	if shape, err := records.ParseFormat(spec.Format); err == nil {
		return records.Delimited(&shape)
	}
	return slices.ContainsFunc(spec.Files.Input, func(input string) bool {
		shape, err := records.FormatOf(input)
		return err == nil && records.Delimited(&shape)
	})
}

// takeLists makes the lists of values of the command line the job's input.
func (o *runOptions) takeLists(fs *pflag.FlagSet, p *Program, spec *job.Spec) error {
	switch {
	case p.lists == nil:
		return nil
	case len(spec.Inputs()) > 0:
		return usageError("input %s: the items are the values after %s: leave one of them out", spec.Inputs()[0], listMark)
	case !o.worker.runsEach():
		return usageError("%s is for a command for each item: give it with --each, --shell or --", listMark)
	}
	for _, name := range []string{"format", "null", "items", "delimiter", "quote"} {
		if fs.Changed(name) {
			return usageError("--%s says how inputs are read, and the items are the values after %s: leave it out", name, listMark)
		}
	}
	spec.Files.Input, spec.Format = []string{job.StandardInput}, string(records.JSONL)
	p.Stdin, o.worker.command.Columns = p.lists.reader(), true
	return nil
}

// identity returns what of the flags distinguishes jobs with the same command.
func (o *workerOptions) identity() string {
	if !o.runsEach() {
		return ""
	}
	var parts []string
	o.flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(commandKeys, f.Name) && f.Name != "joblog" {
			parts = append(parts, f.Name, f.Value.String())
		}
	})
	return strings.Join(parts, "\x00")
}
