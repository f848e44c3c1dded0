package starter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/jobs"
)

func newSchedules(p *Program) *cobra.Command {
	var c connection
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List, pause, trigger and delete schedules of jobs",
		Long: `Lists the schedules that 'stint start --cron' has made: when each ticks next, and the state of its
last run. The runs themselves are jobs like others: see 'stint list' and 'stint status'.`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				schedules, err := client.Schedules(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(p.Stdout, schedules)
				}
				return printSchedules(p, schedules)
			})
		},
	}
	c.addFlags(cmd.PersistentFlags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	var note string
	pause := forSchedules(p, &c, "pause NAME…", "Let ticks pass without a run, until 'resume'", "paused",
		func(ctx context.Context, client *jobs.Client, name string) error {
			return client.PauseSchedule(ctx, name, note)
		})
	pause.Flags().StringVar(&note, "reason", "", "why, shown in the list")
	cmd.AddCommand(
		forSchedules(p, &c, "delete NAME…", "Delete schedules; their runs continue", "deleted",
			func(ctx context.Context, client *jobs.Client, name string) error { return client.Unschedule(ctx, name) }),
		pause,
		forSchedules(p, &c, "resume NAME…", "Resume paused schedules; missed ticks are not made up for", "resumed",
			func(ctx context.Context, client *jobs.Client, name string) error {
				return client.ResumeSchedule(ctx, name)
			}),
		forSchedules(p, &c, "trigger NAME…", "Start runs now, as at a tick", "triggered",
			func(ctx context.Context, client *jobs.Client, name string) error {
				return client.TriggerSchedule(ctx, name)
			}),
	)
	return cmd
}

// forSchedules makes a command that does something to each schedule named.
func forSchedules(p *Program, c *connection, use, short, done string, do func(context.Context, *jobs.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: wrongArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			return c.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				var errs []error
				for _, name := range names {
					err := do(ctx, client, name)
					errs = append(errs, err)
					if err == nil {
						fmt.Fprintf(p.Stderr, "schedule %s is %s\n", name, done)
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}

func printSchedules(p *Program, schedules []jobs.Scheduled) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SCHEDULE\tCRON\tPOOL\tOVERLAP\tNEXT\tLAST RUN\tSTATE\tOUTPUT")
	for _, s := range schedules {
		next, last, state := "never", "none yet", ""
		switch {
		case s.Paused:
			next = "paused"
		case s.Next != nil:
			next = s.Next.Local().Format(time.DateTime)
		}
		if s.Last != nil {
			last, state = s.Last.Started.Local().Format(time.DateTime), lastState(s.Last)
		}
		fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, strings.Join(s.Cron, ", "), s.TimeZone, s.Pool, s.Overlap, next, last, state, s.Output)
	}
	return w.Flush()
}

func lastState(last *jobs.Listed) string {
	if last.State == "" {
		return "forgotten"
	}
	return string(last.State)
}
