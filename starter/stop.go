package starter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
)

type stopOptions struct {
	connection connection
	stop       job.Stop
	wait       bool
}

func newStop(p *Program) *cobra.Command {
	o := &stopOptions{}
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "Stop a job: what runs gets a grace period, what is done is kept",
		Long: `Asks a job to stop. Nothing new is started; running calls may end within the grace period; what
has been done is kept, and the rest can be resumed. With --wait it returns once the job has ended.`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if grace := o.stop.Grace; grace != "" {
				if d, err := time.ParseDuration(grace); err != nil || d < 0 {
					return usageError("--grace %s: give a duration of 0 or more, such as 30s", grace)
				}
			}
			return o.connection.withClient(cmd.Context(), p, func(client *job.Client) error {
				return o.run(cmd.Context(), p, client.Get(args[0]))
			})
		},
	}
	o.connection.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.stop.Reason, "reason", "", "why, for the report")
	cmd.Flags().StringVar(&o.stop.Grace, "grace", "", "how long running calls may take (default: the job's own)")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until the job has ended")
	return cmd
}

func (o *stopOptions) run(ctx context.Context, p *Program, run *job.Run) error {
	err := run.Stop(ctx, o.stop)
	var ended *job.EndedError
	if errors.As(err, &ended) {
		fmt.Fprintln(p.Stderr, ended.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if !o.wait {
		fmt.Fprintf(p.Stderr, "%s is told to stop\n", run.Name())
		return nil
	}
	report, err := run.Wait(ctx)
	var failed *job.FailedError
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	fmt.Fprintf(p.Stderr, "%s: %s, %s items done\n", run.Name(), report.State, job.Thousands(report.Done()))
	if len(report.Stragglers) > 0 {
		return &codeError{code: ExitStragglers}
	}
	return nil
}
