package starter

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
)

type closeOptions struct {
	feedCommand
	wait bool
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
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), p, args[0]) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().Lookup("json").Usage = "with --wait, print reports as JSON"
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow the feed to its end")
	return cmd
}

func (o *closeOptions) run(ctx context.Context, p *Program, name string) error {
	pool := ""
	err := o.withFeed(ctx, p, name, job.FeedOptions{}, func(ctx context.Context, feed *feedClient, listed job.Listed) error {
		pool = listed.Pool
		return feed.Close(ctx)
	})
	if err != nil {
		return err
	}
	if !o.wait {
		fmt.Fprintf(p.Stderr, "%s is closed: it completes when its items are done\n", name)
		return nil
	}
	return o.connection.withClient(ctx, p, func(client *job.Client) error {
		return followToEnd(ctx, p, client, client.Get(name), []string{pool}, o.json)
	})
}
