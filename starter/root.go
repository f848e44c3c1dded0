package starter

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/devserver"
)

// Where the words of messages, and recipes, are explained.
const (
	wordsPage   = "https://github.com/stint-run/stint/blob/main/docs/words.md"
	recipesPage = "https://github.com/stint-run/stint/blob/main/docs/recipes.md"
)

const aboutStint = `stint cuts files with millions of records into batches, runs a program or Go function over them
on one machine or many, and writes the results in input order. It survives the death of any
process, pins a fault on the one record that causes it, and accounts for every record.`

const aboutBuiltIn = `Runs its handler over files with millions of records, on one machine or many, and writes the
results in input order. It survives the death of any process, pins a fault on the one record that
causes it, and accounts for every record. It is a program of stint, with all of stint's commands.`

func newRoot(p *Program) *cobra.Command {
	root := &cobra.Command{
		Use:   p.name(),
		Short: "Durable batch work: a program or Go function over millions of records",
		Long: aboutStint + `

  stint run --exec 'tr a-z A-Z' big.jsonl -o out.jsonl

runs everything in one process. Interrupted or killed, the same command continues.

Words such as batch, call, slot and leg: ` + wordsPage + `
Recipes: ` + recipesPage,
		SilenceErrors: true, SilenceUsage: true,
		Version: p.version().String(), SuggestionsMinimumDistance: suggestedDistance,
		Args: func(root *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(root, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageFunc(usage)
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(
		newRun(p), newStart(p), newLoop(p), newWorker(p), newServer(p), newList(p), newWorkers(p), newStatus(p), newWatch(p),
		newPut(p), newCall(p), newReset(p), newClose(p), newResults(p), newStop(p), newResume(p), newRedrive(p), newSet(p), newSchedules(p), newPlan(p), newGateway(p), newCodecServer(p), newVersion(p),
	)
	if p.builtIn() {
		root.Long = cmp.Or(p.Options.About, aboutBuiltIn) + root.Long[len(aboutStint):]
	}
	p.adapt(root)
	p.complete(root)
	return root
}

var (
	// commandLines are the places in help texts that name a command of stint.
	commandLines = regexp.MustCompile(`\bstint (run|start|loop|worker|server|list|workers|status|watch|put|call|reset|close|results|stop|resume|redrive|set|schedules|plan|gateway|codec-server|version|completion)\b`)
	// commandFlags are the flags that give the handler, in examples and in brackets.
	commandFlags = regexp.MustCompile(` --(exec|serve) '[^']*'| \(--exec [^)]*\)`)
)

// adapt puts the program's own name into all help texts, and takes out how a handler is given if the
// program has one.
func (p *Program) adapt(cmd *cobra.Command) {
	for _, text := range []*string{&cmd.Use, &cmd.Short, &cmd.Long, &cmd.Example} {
		*text = p.helpText(*text)
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			f.Usage = p.helpText(f.Usage)
			f.Hidden = f.Hidden || p.builtIn() && (f.Name == "exec" || f.Name == "serve")
		})
	}
	for _, sub := range cmd.Commands() {
		p.adapt(sub)
	}
}

func (p *Program) helpText(text string) string {
	if p.builtIn() {
		text = commandFlags.ReplaceAllString(text, "")
	}
	return commandLines.ReplaceAllStringFunc(text, func(line string) string { return p.name() + line[len("stint"):] })
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
