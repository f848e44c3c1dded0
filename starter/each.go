package starter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/predict"
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

var (
	// commandFlags are the flags that say more of a command for each item, and of nothing else.
	commandFlags = []string{"shell-program", "result", "tag", "stdin", "ok-exit", "skip-if-exists", "joblog"}
	// commandKeys are those that pools of a job file have.
	commandKeys = append(slices.Clip(commandFlags), "delimiter")
)

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
	fs.BoolVar(&c.Columns, "value-lists", false, "of --each and --shell: items that are lists in JSON stand for their values, as those after ::: do")
	fs.Lookup("value-lists").Hidden = true // run sets it, and says so where a job of its kind is to be continued
	if fs.Lookup("delimiter") == nil {     // a command that takes inputs has it for them, too
		fs.StringVar(&c.Delimiter, "delimiter", "", "of --each and --shell: what separates the columns {1}, {2} of a line of text, such as ; or \\t (default: it is one column)")
	}
}

// commandOf returns the command for each item that a flag gives.
func (o *workerOptions) commandOf() (c worker.CommandOptions, err error) {
	c = o.command
	if c.Delimiter == `\t` {
		c.Delimiter = "\t"
	}
	if c.Script = *o.handlers["shell"]; c.Script == "" {
		c.Words, err = splitCommand("each", *o.handlers["each"])
	}
	return c, err
}

// openCommand returns the handler that runs it.
func openCommand(o *workerOptions, _ *Program, _ string) (worker.Handler, error) {
	c, err := o.commandOf()
	return worker.Command(c), err
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
	p.Stdin = p.lists.reader()
	return fs.Set("value-lists", "true")
}

// maxPrinted is how many commands a dry run prints.
const maxPrinted = 100

// printCommands prints the commands of the first items, so that they can be pasted into a shell.
func (o *runOptions) printCommands(ctx context.Context, p *Program, spec job.Spec) error {
	if !o.worker.runsEach() {
		return usageError("--dry-run prints the command of each item, and the handler is none: '%s plan' counts the items of a job", p.name())
	}
	c, err := o.worker.commandOf()
	if err != nil {
		return err
	}
	template, err := command.New(c.Words, c.Script, c.Shell, c.Stdin)
	if err != nil {
		return err // not reached: the handler was checked
	}
	var file *command.Template
	if c.SkipIfExists != "" {
		if file, err = command.ParseName(c.SkipIfExists); err != nil {
			return err
		}
	}
	ctx, end := p.untilSignal(ctx)
	defer end()
	var access store.Access
	defer access.Close()
	all, err := predict.FirstItems(ctx, &access, spec, p.Stdin, maxPrinted, func(first predict.FirstItem) error {
		item := &command.Item{
			Data: first.Data, JSON: !first.Text, Delimiter: c.Delimiter, Columns: c.Columns, Number: first.Ordinal + 1, Slot: 1,
		}
		err := first.Err
		if err == nil && file != nil {
			var name []string
			if name, err = file.Words(item); err == nil {
				item.Out = name[0]
			}
		}
		var words []string
		if err == nil {
			words, err = template.Words(item)
		}
		if err != nil {
			_, err = fmt.Fprintf(p.Stdout, "# item %d: %s\n", first.Ordinal, strings.ReplaceAll(err.Error(), "\n", " "))
			return err
		}
		_, err = fmt.Fprintln(p.Stdout, command.Line(words))
		return err
	})
	if err == nil && all > maxPrinted {
		fmt.Fprintf(p.Stderr, "these are %d of %d commands\n", maxPrinted, all)
	}
	return unlessInterrupted(ctx, err)
}

// identity returns what of the flags distinguishes jobs with the same command, or requests to the same place.
func (o *workerOptions) identity(p *Program) (parts []string) {
	switch {
	case o.runsEach():
		o.flags.Visit(func(f *pflag.Flag) {
			if slices.Contains(commandKeys, f.Name) && f.Name != "joblog" {
				parts = append(parts, f.Name, f.Value.String())
			}
		})
		parts = []string{strings.Join(parts, "\x00"), p.lists.identity()}
	case o.callsHTTP():
		parts = o.httpIdentity(p)
	}
	return parts
}
