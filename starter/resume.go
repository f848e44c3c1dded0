package starter

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

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
	settings, err := job.ParseSettings(texts)
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
