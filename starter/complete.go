package starter

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// completionLimit bounds how long a shell waits for names from a server.
const completionLimit = 2 * time.Second

// flagValues are the values that a shell offers for a flag.
var flagValues = map[string][]string{
	"format":      formatNames(),
	"on-error":    {job.OnErrorRecord, job.OnErrorDrop, job.OnErrorStop},
	"window":      {"auto"},
	"concurrency": {autoConcurrency},
	"overlap":     {"skip", "queue-one", "queue", "stop", "terminate", "allow"},
	"allow":       {"all"},
	"where":       kindConditions(),
}

// kindConditions are the conditions on kinds of failure.
func kindConditions() (conditions []string) {
	for _, kind := range limits.FailureKinds {
		conditions = append(conditions, "kind="+kind.Name)
	}
	return conditions
}

func formatNames() []string {
	names := []string{formats.Auto}
	for _, f := range formats.All() {
		names = append(names, f.Name)
	}
	return names
}

// settingNames are those that `set` and `resume` change.
var settingNames = []string{"batch-items=", "deadline=", "max-cost=", "max-failed=", "max-tokens=", "priority=", "rate=", "rpm=", "tpm=", "window="}

// settingValues are the values of settings that have a name.
var settingValues = map[string][]string{"window": {"window=auto"}, "max-failed": {"max-failed=none"}}

// complete makes shells complete the arguments of a command and of those below it: jobs, pools, settings and values of
// flags.
func (p *Program) complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		p.complete(sub)
	}
	for name, values := range flagValues {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return beginning(values, typed), cobra.ShellCompDirectiveDefault
			}) // it exists, and has none
		}
	}
	if cmd.Flags().Lookup("pool") != nil {
		_ = cmd.RegisterFlagCompletionFunc("pool", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(p.known(cmd, func(j jobs.Listed) string { return j.Pool }), typed), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if _, args, _ := strings.Cut(cmd.Use, " "); !strings.HasPrefix(args, "JOB") {
		return
	}
	settings := strings.Contains(cmd.Use, "NAME=VALUE")
	items := strings.Contains(cmd.Use, "ITEM")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			names := append(p.known(cmd, func(j jobs.Listed) string { return j.Name }), p.localJobs(cmd)...)
			return beginning(names, typed), cobra.ShellCompDirectiveNoFileComp
		case settings:
			return p.settings(cmd, args[0], typed)
		case items:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// settings offers the settings of a job, those of its stages, too, and then their values.
func (p *Program) settings(cmd *cobra.Command, name, typed string) ([]string, cobra.ShellCompDirective) {
	setting, _, valued := strings.Cut(typed, "=")
	if !valued {
		return beginning(append(p.stageWindows(cmd, name), settingNames...), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	values := settingValues[setting]
	if strings.HasSuffix(setting, ".window") {
		values = []string{setting + "=auto"}
	}
	return beginning(values, typed), cobra.ShellCompDirectiveNoFileComp
}

// stageWindows returns the settings that a job's stages have; none if the job is not a pipeline or the server does not
// answer.
func (p *Program) stageWindows(cmd *cobra.Command, name string) (settings []string) {
	p.ask(cmd, func(ctx context.Context, client *jobs.Client) error {
		spec, err := client.Spec(ctx, name)
		for _, stage := range spec.StagePools() {
			settings = append(settings, stage.Name+".window=")
		}
		return err
	})
	return settings
}

// known lists something of each job on the server that the command's flags name; nothing if no server answers.
func (p *Program) known(cmd *cobra.Command, of func(jobs.Listed) string) (names []string) {
	p.ask(cmd, func(ctx context.Context, client *jobs.Client) error {
		listed, err := client.List(ctx, maxListed, nil)
		for _, j := range listed {
			names = append(names, of(j))
		}
		return err
	})
	return names
}

// ask asks the server that the command's flags name. A missing answer is not an error: a shell could not show it.
func (p *Program) ask(cmd *cobra.Command, do func(context.Context, *jobs.Client) error) {
	var c connection
	for name, value := range map[string]*string{"address": &c.address, "namespace": &c.namespace, "profile": &c.profile, "codec-key-file": &c.keys.file} {
		if f := cmd.Flags().Lookup(name); f != nil {
			*value = f.Value.String()
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	_ = c.withClient(ctx, p, do)
}

// localJobs returns the jobs of `stint run` in this directory, for commands that can continue them.
func (p *Program) localJobs(cmd *cobra.Command) (names []string) {
	state := cmd.Flags().Lookup("state")
	if state == nil {
		return nil
	}
	for _, below := range []string{"jobs", besideName} {
		entries, err := os.ReadDir(filepath.Join(p.path(state.Value.String()), below))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// beginning returns the names that begin with what has been typed, each once, in order.
func beginning(names []string, typed string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" || !strings.HasPrefix(name, typed) })
	slices.Sort(names)
	return slices.Compact(names)
}
