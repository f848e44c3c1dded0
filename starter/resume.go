package starter

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
)

type resumeOptions struct {
	connection connection
	wait, json bool
}

func newResume(p *Program) *cobra.Command {
	o := &resumeOptions{}
	cmd := &cobra.Command{
		Use:   "resume JOB [NAME=VALUE…]",
		Short: "Go on with a job that was stopped, has failed or was terminated",
		Long: `Goes on with a job: what has been recorded is not run again, everything else is, with whatever
handler the pool's workers have now. The job is as it was started, with the settings in force when
it ended; NAME=VALUE gives others: those of 'stint set'.

A job that Temporal itself has ended (terminated in the web UI, say) needs a worker that is up, to be
asked how far it was.

With --wait it follows the job to its end and exits as 'stint run' does.`,
		Example: `  stint resume nightly --wait
  stint resume nightly max-failed=5%`,
		Args: wrongArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), p, args[0], args[1:]) },
	}
	o.connection.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow the job to its end")
	cmd.Flags().BoolVar(&o.json, "json", false, "print reports as JSON")
	return cmd
}

func (o *resumeOptions) run(ctx context.Context, p *Program, name string, texts []string) error {
	settings, err := job.ParseSettings(texts)
	if err != nil {
		return usageError("%v", err)
	}
	return o.connection.withClient(ctx, p, func(client *job.Client) error {
		run, err := client.Resume(ctx, name, job.ResumeOptions{Settings: settings})
		var completed *job.EndedError
		if errors.As(err, &completed) {
			return fmt.Errorf("job %s has completed: nothing is left to resume; 'stint redrive %s' runs its failed items again", name, name)
		}
		if err != nil {
			return err
		}
		return announce(ctx, p, client, run, o.wait, o.json)
	})
}

// announce follows a job that has been started, or prints its name.
func announce(ctx context.Context, p *Program, client *job.Client, run *job.Run, wait, asJSON bool) error {
	pool := run.Pool()
	if wait {
		return followToEnd(ctx, p, client, run, pool, asJSON)
	}
	noteUnserved(ctx, client, pool, newProgress(p.Stderr, false, false))
	if asJSON {
		return printJSON(p.Stdout, map[string]string{"job": run.Name(), "pool": pool})
	}
	_, err := fmt.Fprintln(p.Stdout, run.Name())
	return err
}
