package starter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/outputs"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

type resultsOptions struct {
	connection connection
	want       outputs.Selection
	follow     bool
}

func newResults(p *Program) *cobra.Command {
	o := &resultsOptions{}
	cmd := &cobra.Command{
		Use:   "results JOB",
		Short: "Print a job's results, in input order",
		Long: `Prints the results of a job in the order of its items. Of a job that has not finished it prints
those that have been committed, up to the first item that has not; --follow continues as more come.
The files must be reachable from here. The results of a feed are committed every ten seconds or so;
--session prints those of one session only.`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.want.Session < 0 {
				return usageError("--session %d: use 1 or more", o.want.Session)
			}
			return o.connection.withClient(cmd.Context(), p, func(client *job.Client) error {
				return o.print(cmd.Context(), p, client, args[0])
			})
		},
	}
	o.connection.addFlags(cmd.Flags())
	cmd.Flags().Int64Var(&o.want.Session, "session", 0, "of a feed: only items of session `N` (default: all)")
	cmd.Flags().Lookup("session").DefValue = zeroDefault
	cmd.Flags().BoolVar(&o.want.Errors, "errors", false, "print the error records instead")
	cmd.Flags().BoolVar(&o.follow, "follow", false, "continue until the job has ended")
	return cmd
}

func (o *resultsOptions) print(ctx context.Context, p *Program, client *job.Client, name string) error {
	var access store.Access
	defer access.Close()
	shown := ""
	for {
		report, err := reportOf(ctx, p, client, name)
		var silent *unansweredError
		switch {
		case err == nil:
			shown = ""
			if o.want.From, err = outputs.Results(ctx, &access, report, o.want, p.Stdout); err != nil {
				return err
			}
			if !o.follow || report.State.Final() {
				return nil
			}
		case !o.follow || !errors.As(err, &silent):
			return err
		case shown != err.Error(): // a worker may come
			shown = err.Error()
			fmt.Fprintln(p.Stderr, shown)
		}
		select {
		case <-time.After(pollEvery):
		case <-p.Signals:
			return &codeError{code: ExitInterrupted}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
