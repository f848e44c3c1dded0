package starter

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/jobs"
)

func newWatch(p *Program) *cobra.Command {
	var c connection
	var limit waitLimit
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch JOB",
		Short: "Follow a job to its end",
		Long:  "Shows a job's progress until it ends, and exits as 'stint run' does. Ctrl-C ends the watching only.",
		Args:  jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := limit.check(cmd.Flags(), "", true); err != nil {
				return err
			}
			ctx, cancel := limit.limit(cmd.Context())
			defer cancel()
			return c.withClient(ctx, p, func(ctx context.Context, client *jobs.Client) error {
				listed, err := client.Get(args[0]).Listed(ctx)
				if err != nil {
					return err
				}
				return watched{client.Get(args[0]), poolsOf(ctx, client, args[0], listed.Pool), asJSON, limit}.toEnd(ctx, p, client)
			})
		},
	}
	c.addFlags(cmd.Flags())
	limit.addFlags(cmd.Flags(), "how long to watch; the job continues then (default: until its end)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print reports as JSON: progress to stderr, the last to stdout")
	return cmd
}

// poolsOf are the pools that a job waits for: its own, and those of further stages and of init hooks.
func poolsOf(ctx context.Context, client *jobs.Client, name, own string) []string {
	pools := []string{own}
	if spec, err := client.Spec(ctx, name); err == nil { // otherwise the job is about to say what is wrong
		pools[0] = cmp.Or(own, spec.Pool)
		pools = append(pools, otherPools(spec)...)
	}
	return pools
}
