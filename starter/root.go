package starter

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/build"
	"github.com/stint-run/stint/internal/temporal/devserver"
)

// docsPage is where the words of messages, recipes and all else are explained.
const docsPage = "https://github.com/stint-run/stint/tree/main/docs"

const aboutStint = `stint runs a program or Go function over millions of records, on one machine or many, with results
in input order. It survives the death of any process, and pins a fault on its record.`

const aboutBuiltIn = `Runs its handler over files with millions of records, on one machine or many, and writes the
results in input order. It survives the death of any process, pins a fault on the one record that
causes it, and accounts for every record. It is a program of stint, with all of stint's commands.`

// firstCommand is the command that the help begins with.
func firstCommand() string {
	if devserver.Linked {
		return `  stint run --exec 'tr a-z A-Z' big.jsonl -o out.jsonl     # killed, the same command continues`
	}
	return `For the workers and clients of a cluster: this program has no Temporal server of its own.
  stint worker --pool upper --allow /data --exec 'tr a-z A-Z'`
}

// Help shows commands in the order in which they are added.
func init() { cobra.EnableCommandSorting = false }

func newRoot(p *Program) *cobra.Command {
	about := aboutStint
	if p.builtIn() {
		about = cmp.Or(p.Options.About, aboutBuiltIn)
	}
	root := &cobra.Command{
		Use:   p.name(),
		Short: "Durable batch work: a program or Go function over millions of records",
		Long: about + `

` + firstCommand() + `
Words such as batch and call, and recipes: ` + docsPage,
		SilenceErrors: true, SilenceUsage: true,
		Version: p.version().String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageFunc(usage)
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(wrongFlag)
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run jobs", []*cobra.Command{
			needsServer(newRun(p)), newPlan(p), newStart(p), newLoop(p), newFeed(p), newSchedule(p), newWorker(p), needsServer(newServer(p)),
		}},
		{"Follow and change jobs", []*cobra.Command{
			newUI(p), newList(p), newStatus(p), newWatch(p), newWorkers(p), newResults(p), newErrors(p), newReport(p),
			newStop(p), newResume(p), newPause(p), newUnpause(p), newRedrive(p), newSet(p),
		}},
		{"Other commands", []*cobra.Command{newCodecServer(p), newVersion(p)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
		}
		addCommands(root, group.commands...)
		root.SetHelpCommandGroupID(group.title) // these are the last ones
		root.SetCompletionCommandGroupID(group.title)
	}
	names := []string{"completion", "help"}
	for _, cmd := range root.Commands() {
		names = append(names, regexp.QuoteMeta(cmd.Name()))
	}
	p.adapt(root, regexp.MustCompile(`\bstint (`+strings.Join(names, "|")+`)\b`))
	p.complete(root)
	return root
}

// needsServer has a command that starts a server say that there is none, in a program without one.
func needsServer(cmd *cobra.Command) *cobra.Command {
	if !devserver.Linked {
		cmd.Hidden, cmd.DisableFlagParsing, cmd.Args = true, true, nil
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			_, err := devserver.Start(cmd.Context(), devserver.Options{})
			return usageError("%s: %w", cmd.Name(), err)
		}
	}
	return cmd
}

// addCommands adds commands to one that has no work of its own.
func addCommands(to *cobra.Command, commands ...*cobra.Command) {
	to.AddCommand(commands...)
	to.SuggestionsMinimumDistance = suggestedDistance
	to.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	to.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// givenHandlers are the flags that give the handler, in examples and in brackets.
var givenHandlers = regexp.MustCompile(` --(` + strings.Join(handlerFlags(), "|") + `) '[^']*'| \(--exec [^)]*\)`)

// adapt puts the program's own name where help texts name a command of stint, and takes out how a handler is given if
// the program has one. It adds --help-all where it is of use.
func (p *Program) adapt(cmd *cobra.Command, commands *regexp.Regexp) {
	ours := func(text *string) {
		if p.builtIn() {
			*text = givenHandlers.ReplaceAllString(*text, "")
		}
		*text = commands.ReplaceAllStringFunc(*text, func(line string) string { return p.name() + line[len("stint"):] })
	}
	for _, text := range []*string{&cmd.Use, &cmd.Short, &cmd.Long, &cmd.Example} {
		ours(text)
	}
	ofHandlers := slices.Concat(handlerFlags(), commandFlags, httpFlags, []string{"dry-run"}) // that flags give
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			ours(&f.Usage)
			f.Hidden = f.Hidden || p.builtIn() && slices.Contains(ofHandlers, f.Name)
		})
	}
	addHelpAll(cmd)
	for _, sub := range cmd.Commands() {
		p.adapt(sub, commands)
	}
}

// version is what is known of the program's build.
type version struct {
	Name     string `json:"name"`
	Version  string `json:"version"`            // such as v0.1.0, or "(devel)"
	Commit   string `json:"commit,omitempty"`   // of its source
	Date     string `json:"date,omitempty"`     // of that commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // since that commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Temporal string `json:"temporal_server,omitempty"` // the version of the embedded server; "": there is none
}

func (p *Program) version() version {
	b := build.This()
	return version{p.name(), b.Version, b.Commit, b.Date, b.Modified, b.Go, b.Platform, devserver.TemporalVersion}
}

func (v version) String() string {
	s := v.Name + " " + v.Version
	if v.Commit != "" {
		s += fmt.Sprintf(" (%.12s, %s)", v.Commit, v.Date)
	}
	server := "no Temporal server"
	if v.Temporal != "" {
		server = "Temporal server " + v.Temporal
	}
	return fmt.Sprintf("%s, %s %s, %s", s, v.Go, v.Platform, server)
}

func newVersion(p *Program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  wrongArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(p.Stdout, p.version())
			}
			_, err := fmt.Fprintln(p.Stdout, p.version())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
