package starter

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/jobs"
)

type closeOptions struct {
	feedCommand
	wait  bool
	limit waitLimit
}

func newClose(p *Program) *cobra.Command {
	o := &closeOptions{}
	cmd := &cobra.Command{
		Use:   "close JOB",
		Short: "Close a feed: it takes no more items, and completes",
		Long: `Closes a feed: it takes no more items, does those that it has accepted, writes its output and completes.
It can be repeated, from anywhere.

With --wait it follows the feed to its end and exits as 'stint run' does.`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args[0]) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().Lookup("json").Usage = "with --wait, print reports as JSON"
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow the feed to its end")
	o.limit.addFlags(cmd.Flags(), "how long to wait for the feed's answer (default: 1m0s), or with --wait for its end (default: until then)")
	return cmd
}

func (o *closeOptions) run(cmd *cobra.Command, p *Program, name string) error {
	if err := o.limit.check(cmd.Flags(), "", true); err != nil {
		return err
	}
	ctx := cmd.Context()
	limit, answer := o.limit.begun(), answerWithin().begun()
	if limit.timeout > 0 {
		answer = limit
	}
	pool := ""
	err := o.withFeed(ctx, p, name, answer, jobs.FeedOptions{}, func(ctx context.Context, feed *feedClient, listed jobs.Listed) error {
		pool = listed.Pool
		ctx, cancel := answer.limit(ctx)
		defer cancel()
		return feed.Close(ctx)
	})
	if err != nil {
		return err
	}
	if !o.wait {
		fmt.Fprintf(p.Stderr, "%s is closed: it completes when its items are done\n", name)
		return nil
	}
	ctx, cancel := limit.limit(ctx)
	defer cancel()
	return o.connection.withClient(ctx, p, func(ctx context.Context, client *jobs.Client) error {
		return watched{client.Get(name), []string{pool}, o.json, limit}.toEnd(ctx, p, client)
	})
}
