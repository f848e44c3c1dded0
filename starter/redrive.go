package starter

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
)

type redriveOptions struct {
	connection connection
	embedding  embedding
	redrive    jobs.RedriveOptions
	following
}

func newRedrive(p *Program) *cobra.Command {
	o := &redriveOptions{}
	cmd := &cobra.Command{
		Use:   "redrive JOB",
		Short: "Run only the failed items of a completed job again",
		Long: `Runs the failed items of a completed job again, with the handler that the job's pool has now, and
merges their results into the output at their places. Errors that remain stay in the errors file. It can
be repeated any number of times. The input is taken from the error records: the job's own input need not
exist any more. Items that are not in the job's format, or were too long to keep, are not run again.

The output stays as it is until the merged one replaces it, even if the redrive is stopped or fails:
the same command then continues it, as does 'stint resume'. A job that was itself stopped or has failed
must be resumed first. A job without failed items is left alone.

With --where only the failed items that the expression selects run again: 'stint errors JOB' shows
expressions. All others stay as they were. A redrive that has not completed continues with the
expression that it began with.

With --wait it follows the redrive and exits as 'stint run' does.` + aboutEmbedding,
		Example: `  stint redrive nightly --wait
  stint redrive nightly --batch-items 1
  stint redrive nightly --where 'kind=expired' --wait
  stint redrive run-3fe4c1a09b --exec './clean.sh'`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args[0]) },
	}
	o.connection.addFlags(cmd.Flags())
	o.embedding.addFlags(cmd.Flags(), p)
	o.following.addFlags(cmd.Flags(), "redrive")
	cmd.Flags().StringVar((*string)(&o.redrive.Where), "where", "", "only the failed items that `EXPRESSION` selects, as in 'stint errors' (default: all)")
	cmd.Flags().Int64Var(&o.redrive.BatchItems, "batch-items", 0, "items of a batch (0: as in the job)")
	return cmd
}

func (o *redriveOptions) run(cmd *cobra.Command, p *Program, name string) error {
	if n := o.redrive.BatchItems; n < 0 || n > limits.MaxBatchItems {
		return usageError("--batch-items %d: use 0 to %d", n, limits.MaxBatchItems)
	}
	if cmd.Flags().Changed("where") {
		if err := o.redrive.Where.Validate(); err != nil {
			return usageError("--where: %w", err)
		}
	}
	if err := o.following.check(cmd.Flags()); err != nil {
		return err
	}
	if o.embedding.wanted(cmd, p, &o.connection, name) {
		err := o.embedding.run(cmd, p, name, o.json, func(ctx context.Context, name string, h worker.Handler, options local.Options) (job.Report, error) {
			return local.Redrive(ctx, name, h, o.redrive, options)
		})
		if p.nothingFailed(err) {
			return nil
		}
		return err
	}
	return o.connection.withClientUntil(cmd.Context(), p, o.limit, func(ctx context.Context, client *jobs.Client) error {
		run, err := o.begin(ctx, client, name)
		if p.nothingFailed(err) {
			return o.printLatest(ctx, p, client, name)
		}
		if err != nil {
			return err
		}
		return announce(ctx, p, client, watched{run, poolsOf(ctx, client, name, run.Pool()), o.following})
	})
}

// begin starts the redrive, unless it would run nothing, as far as that shows from here.
func (o *redriveOptions) begin(ctx context.Context, client *jobs.Client, name string) (*jobs.Run, error) {
	if o.redrive.Where != "" {
		var access store.Access
		defer access.Close()
		report, err := reportWithin(ctx, client.Get(name), pollLimit)
		if err == nil && outputs.SelectsNone(ctx, &access, report, o.redrive.Where) {
			return nil, &jobs.NothingFailedError{Name: name, Where: o.redrive.Where}
		}
	}
	return client.Redrive(ctx, name, o.redrive)
}

// nothingFailed reports whether an error only says that there is nothing to run again, and prints it then.
func (p *Program) nothingFailed(err error) bool {
	none, ok := errors.AsType[*jobs.NothingFailedError](err)
	if !ok || none.Dropped {
		return false
	}
	fmt.Fprintln(p.Stderr, describeError(none))
	return true
}

// printLatest prints the report of a job that is left alone, if a program waits for one.
func (o *redriveOptions) printLatest(ctx context.Context, p *Program, client *jobs.Client, name string) error {
	if !o.wait || !o.json {
		return nil
	}
	report, err := reportOf(ctx, p, client, name)
	if err != nil {
		return err
	}
	return printJSON(p.Stdout, report)
}
