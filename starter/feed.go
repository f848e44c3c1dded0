package starter

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/feedstore"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

func newFeed(p *Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed",
		Short: "Give items to a feed and get their results: put, call, reset, close, serve",
		Long: `Uses feeds: jobs that take items from anywhere, at any time, and run until they are closed.
'stint start --feed' starts one, 'stint status' shows how full it is, 'stint results' prints what it has recorded.`,
	}
	addCommands(cmd, newPut(p), newCall(p), newReset(p), newClose(p), newFeedServe(p))
	return cmd
}

// feedClient is a client of a feed for items and results as JSON.
type feedClient = jobs.Feed[json.RawMessage, json.RawMessage]

// feedCommand is what the commands for the clients of a feed have in common.
type feedCommand struct {
	asking
	client *jobs.Client // set by withFeed
}

// answerWithin returns the flag --timeout of a command to whose requests a feed answers at once.
func answerWithin() waitLimit { return waitLimit{timeout: jobs.DefaultFeedLimit} }

// withFeed dials, checks that the job is a feed, and runs fn with a client of it. A request to end ends fn's context.
// The server has the limit to be reached, and to say what it knows of the job.
func (o *feedCommand) withFeed(ctx context.Context, p *Program, name string, limit waitLimit, options jobs.FeedOptions, fn func(context.Context, *feedClient, jobs.Listed) error) error {
	return o.connection.withClientSoon(ctx, p, limit, func(ctx context.Context, client *jobs.Client) error {
		o.client = client
		limited, cancel := limit.limit(ctx)
		defer cancel()
		listed, err := client.Get(name).Listed(limited)
		if err != nil {
			return unlessOver(limited, err)
		}
		if listed.Source != job.SourceFeed {
			return &jobs.FeedError{Code: jobs.CodeNotFeed, Feed: name}
		}
		results := feedstore.New(feedstore.Options{})
		defer results.Close()
		options.Store = results
		feed := jobs.NewFeed[json.RawMessage, json.RawMessage](client, name, options)
		defer feed.Release()
		err = fn(ctx, feed, listed)
		switch {
		case jobs.IsCode(err, jobs.CodeUnserved):
			fmt.Fprintln(p.Stderr, p.unserved(listed.Pool))
		case wraps[*jobs.FailedError](err):
			err = fmt.Errorf("%w: '%s resume %s' continues it", err, p.name(), name)
		case isLate(err):
			err = &codeError{code: ExitTimeout, err: fmt.Errorf("%w\n%s", err, p.whoDoesNotAnswer(ctx, client, client.Get(name)))}
		}
		return err
	})
}

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
	return o.connection.withClientUntil(ctx, p, limit, func(ctx context.Context, client *jobs.Client) error {
		return watched{client.Get(name), []string{pool}, following{json: o.json, limit: limit}}.toEnd(ctx, p, client)
	})
}
