package starter

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/jobs"
)

func newReset(p *Program) *cobra.Command {
	o := &feedCommand{}
	limit := answerWithin()
	cmd := &cobra.Command{
		Use:   "reset JOB",
		Short: "Begin a feed's next session: discard the items that wait",
		Long: `Begins the next session of a feed. Items that wait for a batch are discarded and counted; those that
run are finished and recorded under their old session, and their results reach no caller any more.`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := limit.check(cmd.Flags(), "", true); err != nil {
				return err
			}
			limit := limit.begun()
			return o.withFeed(cmd.Context(), p, args[0], limit, jobs.FeedOptions{}, func(ctx context.Context, feed *feedClient, _ jobs.Listed) error {
				ctx, cancel := limit.limit(ctx)
				defer cancel()
				done, err := feed.Reset(ctx)
				if err != nil {
					return err
				}
				if o.json {
					return printJSON(p.Stdout, map[string]any{"job": args[0], "session": done.Session, "discarded": done.Discarded})
				}
				_, err = fmt.Fprintf(p.Stdout, "session %d, %s discarded\n", done.Session, text.Count(done.Discarded, "item"))
				return err
			})
		},
	}
	o.addFlags(cmd.Flags())
	limit.addFlags(cmd.Flags(), "how long the feed may take to answer")
	return cmd
}
