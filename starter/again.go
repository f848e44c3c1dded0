package starter

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

// embedding are the flags with which `resume` and `redrive` continue a job of `stint run` in this process: those of a
// worker, and the place of the state.
type embedding struct {
	worker workerOptions
	state  string
	file   string // with the pools of a pipeline
}

const aboutEmbedding = `

A job of 'stint run' needs no server: with the same handler (--exec or --serve, as given there; for a job with
stages the pools of its file, --file) everything runs in this process again, in the state of --state.`

func (e *embedding) addFlags(fs *pflag.FlagSet, p *Program) {
	e.worker.addFlags(fs, p)
	fs.StringVar(&e.state, "state", defaultState, "`DIR` of the state of 'stint run', for one of its jobs")
	fs.StringVarP(&e.file, "file", "f", "", "job `FILE` of 'stint run', whose pools run the stages of one of its jobs")
}

// wanted reports whether the job is one of `stint run`, and not of a server or a cluster.
func (e *embedding) wanted(cmd *cobra.Command, p *Program, c *connection, name string) bool {
	fs := cmd.Flags()
	if slices.ContainsFunc(append(handlerFlags(), "state", "file"), fs.Changed) {
		return true
	}
	if fs.Changed("address") || fs.Changed("namespace") || fs.Changed("profile") || limits.CheckName("job", name) != nil {
		return false
	}
	state := stateOf(p.path(e.state), name)
	if _, err := os.Stat(local.StoreDir(state, name)); err != nil {
		return false
	}
	holder, err := devserver.Holder(devserver.StateDir(state))
	return err == nil && holder == nil && !c.configured(p)
}

// run continues the job.
func (e *embedding) run(cmd *cobra.Command, p *Program, name string, asJSON bool, do func(context.Context, string, worker.Handler, local.Options) (job.Report, error)) error {
	handler, pools, err := e.handlers(p)
	if err != nil {
		return err
	}
	o := &runOptions{worker: e.worker, state: e.state, json: asJSON, uiPort: devserver.AnyPort}
	r := &running{
		o: o, p: p, spec: job.Spec{Name: name}, pools: pools, state: stateOf(p.path(e.state), name), flags: cmd.Flags(), show: progressOf(p, asJSON),
		do: func(ctx context.Context, options local.Options) (job.Report, error) {
			return do(ctx, name, handler, options)
		},
	}
	err = r.all(cmd.Context())
	switch {
	case wraps[*jobs.NotFoundError](err):
		return fmt.Errorf("there is no job %s in the state of %s: the state of a job of '%s run' is in the directory where it was run, or in its --state", name, r.state, p.name())
	case wraps[*jobs.EndedError](err):
		return p.nothingToResume(name)
	}
	return err
}

// handlers returns the handler, or the pools of a pipeline with theirs.
func (e *embedding) handlers(p *Program) (h worker.Handler, pools map[string]local.Pool, err error) {
	if e.file != "" {
		keys, err := readDocument(e.file, p.Dir)
		if err != nil {
			return h, nil, err
		}
		if node, ok := keys["pools"]; ok {
			pools, err = (&poolsFile{e.file, &node}).read(p, &e.worker, nil)
			return h, pools, err
		}
	}
	if !p.builtIn() && len(e.worker.named()) == 0 {
		return h, nil, usageError("no handler given: use --exec COMMAND or --serve COMMAND, or for a job with stages --file FILE, whose pools run them")
	}
	h, err = e.worker.handler(p)
	return h, nil, err
}

type resumeOptions struct {
	connection connection
	embedding  embedding
	following
}

func newResume(p *Program) *cobra.Command {
	o := &resumeOptions{}
	cmd := &cobra.Command{
		Use:   "resume JOB [NAME=VALUE…]",
		Short: "Continue a job that was stopped, has failed or was terminated",
		Long: `Continues a job: items with a recorded outcome are not run again, all others are, with the handler
that the pool's workers have now. The job is as it was started, with the settings in force when it
ended; NAME=VALUE changes one of them, as 'stint set' does.

For a job that Temporal itself has ended (terminated in the web UI, say) a worker must be running: it
reads how far the job was.

With --wait it follows the job to its end and exits as 'stint run' does.` + aboutEmbedding,
		Example: `  stint resume nightly --wait
  stint resume nightly max-failed=5%
  stint resume run-3fe4c1a09b --exec './clean.sh'`,
		Args: wrongArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args[0], args[1:]) },
	}
	o.connection.addFlags(cmd.Flags())
	o.embedding.addFlags(cmd.Flags(), p)
	o.following.addFlags(cmd.Flags(), "job")
	return cmd
}

func (o *resumeOptions) run(cmd *cobra.Command, p *Program, name string, texts []string) error {
	var settings job.Settings
	err := settings.Parse(texts)
	if err != nil {
		return usageError("%w", err)
	}
	if err := o.following.check(cmd.Flags()); err != nil {
		return err
	}
	if o.embedding.wanted(cmd, p, &o.connection, name) {
		return o.embedding.run(cmd, p, name, o.json, func(ctx context.Context, name string, h worker.Handler, options local.Options) (job.Report, error) {
			return local.Resume(ctx, name, h, settings, options)
		})
	}
	return o.connection.withClientUntil(cmd.Context(), p, o.limit, func(ctx context.Context, client *jobs.Client) error {
		run, err := client.Resume(ctx, name, jobs.ResumeOptions{Settings: settings})
		if wraps[*jobs.EndedError](err) {
			return p.nothingToResume(name)
		}
		if err != nil {
			return err
		}
		return announce(ctx, p, client, watched{run, poolsOf(ctx, client, name, run.Pool()), o.following})
	})
}

// nothingToResume is the error of `resume` for a job that has completed.
func (p *Program) nothingToResume(name string) error {
	return fmt.Errorf("job %[1]s has completed: nothing is left to resume; '%[2]s redrive %[1]s' runs its failed items again", name, p.name())
}

// again returns the command line with which another command continues this run's job, for a POSIX shell.
func (r *running) again(verb string) string {
	words := []string{r.p.name(), verb, r.spec.Name}
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&embedding{}).addFlags(known, r.p)
	r.flags.Visit(func(f *pflag.Flag) {
		if known.Lookup(f.Name) == nil || f.Name == "file" && r.pools == nil {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if f.Name == "env" {
				value, _, _ = strings.Cut(value, "=") // it may be a secret: it is never printed
			}
			if f.NoOptDefVal != "" { // a value that is a word of its own would be an argument
				words = append(words, "--"+f.Name+"="+value)
				continue
			}
			if f.Name == "header" {
				value = printable(value)
			}
			words = append(words, "--"+f.Name, command.Quote(value))
		}
	})
	return strings.Join(words, " ")
}

// hidden names the variables that the command line of again needs in its environment, because it has their names only:
// those that were given with values, other than those of this environment.
func (r *running) hidden() (names []string) {
	for _, entry := range r.o.worker.flagged.Env {
		name, value, ok := strings.Cut(entry, "=")
		if here, _ := r.p.lookup(name); ok && here != value && r.o.worker.flags.Changed("env") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// hiddenHeaders names the headers whose values the command line of again lacks.
func (r *running) hiddenHeaders() (names []string) {
	if !r.o.worker.callsHTTP() {
		return nil
	}
	for _, header := range r.o.worker.http.Headers {
		if printable(header) != header {
			name, _, _ := strings.Cut(header, ":")
			names = append(names, name)
		}
	}
	return names
}
