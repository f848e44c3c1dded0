package starter

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// maxListed is how many jobs are shown at most, the latest ones.
const maxListed = 1000

type listCommand struct {
	asking
	states, pools []string
}

func newList(p *Program) *cobra.Command {
	o := &listCommand{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the latest first",
		Long: `Lists jobs, the latest first. DONE and FAILED are as of the last time that a job has noted them: whenever
its done items have doubled, or a tenth has been added, and when it ends. 'stint status JOB' has them as of now.
A job is stuck if its coordination fails again and again, as it does with workers of another version; status says why.`,
		Example: `  stint list
  stint list --state running --state stopping --pool upper`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := o.filter()
			if err != nil {
				return err
			}
			return o.connection.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				listed, err := client.List(ctx, maxListed, &filter)
				if err != nil {
					return err
				}
				return printEither(p, o.json, listed, printJobs)
			})
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&o.states, "state", nil, "only jobs in this `STATE`: "+strings.Join(stateNames(), ", ")+"; repeatable")
	cmd.Flags().StringArrayVar(&o.pools, "pool", nil, "only jobs of this pool; repeatable")
	return cmd
}

func stateNames() (names []string) {
	for _, s := range []job.State{job.Running, job.Completed, job.Stopping, job.Stopped, job.Failed} {
		names = append(names, string(s))
	}
	return names
}

func (o *listCommand) filter() (f jobs.ListFilter, err error) {
	for _, s := range o.states {
		if !slices.Contains(stateNames(), s) {
			return f, usageError("--state %s: use %s", s, strings.Join(stateNames(), ", "))
		}
		f.States = append(f.States, job.State(s))
	}
	for _, pool := range o.pools {
		if err := limits.CheckName("pool", pool); err != nil {
			return f, usageError("%w", err)
		}
	}
	f.Pools = o.pools
	return f, nil
}

func printJobs(out io.Writer, listed []jobs.Listed) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tPOOL\tSTATE\tDONE\tFAILED\tSTARTED\tTOOK\tSOURCE\tOUTPUT")
	for _, j := range listed {
		took, state := since(j.Started), string(j.State)
		if j.PausedSince != nil {
			state += ", paused"
		}
		if j.Stuck {
			state += ", stuck"
		}
		if j.Needs != "" {
			state += ", " + j.Needs
		}
		if j.Ended != nil {
			took = roundTime(j.Ended.Sub(j.Started)).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.Name, j.Pool, state, listedDone(j), listedFailed(j),
			j.Started.Local().Format(time.DateTime), took, cmp.Or(j.Source, unknown), j.Output)
	}
	return w.Flush()
}

// listedDone returns how much of a job was done when it last noted that.
func listedDone(j jobs.Listed) string {
	if percent, ok := j.Percent(); ok {
		return fmt.Sprintf("%d%%", percent)
	}
	if j.Progress == nil {
		return unknown
	}
	return text.Thousands(j.Progress.Done())
}

func listedFailed(j jobs.Listed) string {
	switch {
	case j.Progress != nil:
		return text.Thousands(j.Progress.Failed)
	case j.State == job.Completed:
		return "0" // one with failed items has noted them
	}
	return unknown
}
