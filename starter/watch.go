package starter

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
)

func newWatch(p *Program) *cobra.Command {
	var c connection
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch JOB",
		Short: "Follow a job to its end",
		Long:  "Shows a job's progress until it ends, and exits as 'stint run' does. Ctrl-C ends the watching only.",
		Args:  jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withClient(cmd.Context(), p, func(client *job.Client) error {
				pool, err := poolOf(cmd.Context(), p, client, args[0])
				if err != nil {
					return err
				}
				return followToEnd(cmd.Context(), p, client, client.Get(args[0]), poolsOf(cmd.Context(), client, args[0], pool), asJSON)
			})
		},
	}
	c.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print reports as JSON: progress to stderr, the last to stdout")
	return cmd
}

// poolsOf are the pools that a job waits for: its own, and those of further stages and of init hooks.
func poolsOf(ctx context.Context, client *job.Client, name, own string) []string {
	pools := []string{own}
	if spec, err := client.Spec(ctx, name); err == nil { // otherwise the job is about to say what is wrong
		pools = append(pools, otherPools(spec)...)
	}
	return pools
}

// poolOf finds a job's pool, even while no worker answers for the job.
func poolOf(ctx context.Context, p *Program, client *job.Client, name string) (string, error) {
	report, err := reportOf(ctx, p, client, name)
	if err == nil {
		return report.Pool, nil
	}
	if _, ok := errors.AsType[*job.NotFoundError](err); ok {
		return "", err
	}
	jobs, err := client.List(ctx, maxListed)
	if err != nil {
		return "", err
	}
	for _, j := range jobs {
		if j.Name == name {
			return j.Pool, nil
		}
	}
	return "", &job.NotFoundError{Name: name}
}
