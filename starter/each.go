package starter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/valuelists"
	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/predict"
	"github.com/stint-run/stint/internal/run/calls"
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
		return usageError("input %s: the items are the values after %s: leave one of them out", spec.Inputs()[0], valuelists.Mark)
	case !o.worker.runsEach():
		return usageError("%s is for a command for each item: give it with --each, --shell or --", valuelists.Mark)
	}
	for _, name := range []string{"format", "null", "items", "delimiter", "quote"} {
		if fs.Changed(name) {
			return usageError("--%s says how inputs are read, and the items are the values after %s: leave it out", name, valuelists.Mark)
		}
	}
	spec.Files.Input, spec.Format = []string{job.StandardInput}, string(records.JSONL)
	p.Stdin = p.lists.Reader()
	return fs.Set("value-lists", "true")
}

// maxPrinted is how many items a dry run prints the commands or requests of.
const maxPrinted = 100

// printFirst prints the commands or requests of the first items, so that they can be pasted into a shell.
func (o *runOptions) printFirst(ctx context.Context, p *Program, spec job.Spec, handler worker.Handler) error {
	ctx, end := p.untilSignal(ctx)
	defer end()
	var err error
	switch {
	case o.worker.runsEach():
		err = o.printCommands(ctx, p, spec)
	case o.worker.callsHTTP():
		err = o.printRequests(ctx, p, spec, handler)
	default:
		return usageError("--dry-run prints the command or the request of each item, and the handler is none: '%s plan' counts the items of a job", p.name())
	}
	return unlessInterrupted(ctx, err)
}

// printCommands prints the commands of the first items.
func (o *runOptions) printCommands(ctx context.Context, p *Program, spec job.Spec) error {
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
	printer := commandPrinter{Program: p, options: c, template: template, file: file, dir: o.worker.options.Dir}
	most := int64(maxPrinted)
	if file != nil {
		most = math.MaxInt64 // to count what is skipped
	}
	all, err := p.firstItems(ctx, spec, calls.Lines, most, printer.take)
	if err != nil {
		return err
	}
	p.notePrinted(printer.printed, all-printer.skipped, "commands")
	if file != nil {
		fmt.Fprintf(p.Stderr, "%d of %s would be skipped, because the file is there\n", printer.skipped, text.Count(all, "item"))
	}
	return nil
}

// commandPrinter prints the commands of the first items that are not skipped, and counts those that are.
type commandPrinter struct {
	*Program
	options          worker.CommandOptions
	template, file   *command.Template // file: of the file that the command makes; nil: it makes none
	dir              string            // of the commands
	printed, skipped int64
}

func (c *commandPrinter) take(first predict.FirstItem) error {
	item := &command.Item{
		Data: first.Data, JSON: !first.Text, Delimiter: c.options.Delimiter, Columns: c.options.Columns, Number: first.Ordinal + 1, Slot: 1,
	}
	var words []string
	var file string
	err := first.Err
	if err == nil {
		words, file, err = c.template.WordsAndFile(item, c.file, func(name string) string { return name })
	}
	switch {
	case err == nil && file != "" && c.isThere(file):
		c.skipped++
		return nil
	case c.printed == maxPrinted:
		return nil
	}
	c.printed++
	if err != nil {
		return c.printNone(first.Ordinal, err)
	}
	_, err = fmt.Fprintln(c.Stdout, command.Line(words))
	return err
}

// isThere reports whether there is a file with a name as commands have it.
func (c *commandPrinter) isThere(name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.dir, name)
	}
	_, err := os.Stat(name)
	return err == nil
}

// printRequests prints the requests of the first items.
func (o *runOptions) printRequests(ctx context.Context, p *Program, spec job.Spec, handler worker.Handler) error {
	items := make([][]byte, 0, maxPrinted)
	all, err := p.firstItems(ctx, spec, calls.CheckedJSON, maxPrinted, func(first predict.FirstItem) error {
		if first.Err != nil {
			items = append(items, nil)
			return p.printNone(first.Ordinal, first.Err)
		}
		items = append(items, bytes.Clone(first.Data))
		return nil
	})
	if err != nil {
		return err
	}
	lines, err := handler.Curl(o.worker.options, items)
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.Stdout, line); err != nil {
			return err
		}
	}
	p.notePrinted(int64(len(items)), all, "items")
	return err
}

// firstItems passes the first items of a job to take, so many at most. It returns how many there are.
func (p *Program) firstItems(ctx context.Context, spec job.Spec, form calls.Form, most int64, take func(predict.FirstItem) error) (all int64, err error) {
	var access store.Access
	defer access.Close()
	return predict.FirstItems(ctx, &access, spec, p.Stdin, form, most, take)
}

// notePrinted says that what is printed is not all.
func (p *Program) notePrinted(printed, all int64, what string) {
	if printed < all {
		fmt.Fprintf(p.Stderr, "these are %d of %d %s\n", printed, all, what)
	}
}

// printNone prints why an item has no command or request.
func (p *Program) printNone(ordinal int64, why error) error {
	_, err := fmt.Fprintf(p.Stdout, "# item %d: %s\n", ordinal, strings.ReplaceAll(why.Error(), "\n", " "))
	return err
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
		parts = []string{strings.Join(parts, "\x00"), p.lists.Identity()}
	case o.callsHTTP():
		parts = o.httpIdentity(p)
	}
	return parts
}
