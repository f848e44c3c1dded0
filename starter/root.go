package starter

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/temporal/devserver"
)

// docsPage is where the words of messages, recipes and all else are explained.
const docsPage = "https://github.com/stint-run/stint/tree/main/docs"

const aboutStint = `stint runs a program or Go function over millions of records, on one machine or many, with results
in input order. It survives the death of any process, and pins a fault on its record.`

const aboutBuiltIn = `Runs its handler over files with millions of records, on one machine or many, and writes the
results in input order. It survives the death of any process, pins a fault on the one record that
causes it, and accounts for every record. It is a program of stint, with all of stint's commands.`

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

  stint run --exec 'tr a-z A-Z' big.jsonl -o out.jsonl     # killed, the same command continues
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
			newRun(p), newPlan(p), newStart(p), newLoop(p), newFeed(p), newSchedule(p), newWorker(p), newServer(p),
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
	Version  string `json:"version"`            // of the main module, or "(devel)"
	Revision string `json:"revision,omitempty"` // of its source
	Time     string `json:"time,omitempty"`     // of that revision, RFC 3339
	Modified bool   `json:"modified,omitempty"` // since that revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Temporal string `json:"temporal_server"` // the version of the embedded server
}

func (p *Program) version() version {
	v := version{
		Name: p.name(), Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Temporal: devserver.TemporalVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v version) String() string {
	s := v.Name + " " + v.Version
	if v.Revision != "" {
		s += fmt.Sprintf(" (%.12s, %s)", v.Revision, v.Time)
	}
	return fmt.Sprintf("%s, %s %s, Temporal server %s", s, v.Go, v.Platform, v.Temporal)
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
