package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// scheduleFlags are the flags of `start` that make a schedule of the job.
type scheduleFlags struct{ job.ScheduleOptions }

func (s *scheduleFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&s.Cron, "cron", nil, "start the job at each tick of `EXPR`, not now: '0 3 * * *' (5 to 7 fields), @daily, '@every 90m'; repeatable")
	fs.StringVar(&s.TimeZone, "time-zone", "", "`ZONE` of --cron, such as Europe/Berlin (default: UTC)")
	fs.StringVar(&s.Overlap, "overlap", job.OverlapSkip, "`POLICY` for ticks during a run: skip, queue-one, queue, stop, terminate or allow")
	fs.DurationVar(&s.CatchUp, "catch-up", 0, "how late a missed tick may still start a run once a server that was down is back (default: the server's, a year)")
}

// madeSchedule is what `start --cron --json` prints.
type madeSchedule struct {
	Schedule string     `json:"schedule"`
	Pool     string     `json:"pool"`
	Next     *time.Time `json:"next,omitempty"`
}

// makeSchedule makes a schedule of the job, and prints when it starts first.
func (o *startOptions) makeSchedule(ctx context.Context, p *Program, spec job.Spec) error {
	if o.wait {
		return usageError("--wait follows a job that starts now: leave it or --cron out; '%s watch' follows a run of a schedule", p.name())
	}
	if spec.Name == "" {
		return usageError("a schedule needs a name: give --name NAME")
	}
	options := o.schedule.ScheduleOptions
	options.Replace = o.job.fresh
	if err := options.Validate(spec.WithDefaults()); err != nil {
		return usageError("%w", err)
	}
	return o.connection.withClient(ctx, p, func(ctx context.Context, client *jobs.Client) error {
		if err := client.Schedule(ctx, spec, options); err != nil {
			return err
		}
		made, err := client.GetSchedule(ctx, spec.Name)
		if err != nil {
			return err
		}
		noteUnserved(ctx, p, client, newProgress(p.Stderr, false, false), spec.Pool)
		if o.json {
			return printJSON(p.Stdout, madeSchedule{Schedule: made.Name, Pool: made.Pool, Next: made.Next})
		}
		if made.Next == nil {
			fmt.Fprintln(p.Stderr, "no tick will ever come: the cron expressions match no time")
		} else {
			fmt.Fprintf(p.Stderr, "%s starts first at %s\n", made.Name, made.Next.Local().Format(time.DateTime+" MST"))
		}
		_, err = fmt.Fprintln(p.Stdout, made.Name)
		return err
	})
}

func newSchedule(p *Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "List, pause, resume, trigger and delete schedules of jobs",
		Long: `Handles the schedules that 'stint start --cron' has made. Their runs are jobs like others: see
'stint list' and 'stint status'.`,
	}
	var c connection
	c.addFlags(cmd.PersistentFlags())
	var note string
	pause := forSchedules(p, &c, "pause NAME…", "Let ticks pass without a run, until 'resume'", "paused",
		func(client *jobs.Client, ctx context.Context, name string) error {
			return client.PauseSchedule(ctx, name, note)
		})
	pause.Flags().StringVar(&note, "reason", "", "why, shown in the list")
	addCommands(cmd, newScheduleList(p, &c), pause,
		forSchedules(p, &c, "resume NAME…", "Resume paused schedules; missed ticks are not made up for", "resumed",
			(*jobs.Client).ResumeSchedule),
		forSchedules(p, &c, "trigger NAME…", "Start runs now, as at a tick", "triggered", (*jobs.Client).TriggerSchedule),
		forSchedules(p, &c, "delete NAME…", "Delete schedules; their runs continue", "deleted", (*jobs.Client).Unschedule))
	return cmd
}

func newScheduleList(p *Program, c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules: when each ticks next, and the state of its last run",
		Args:  wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				schedules, err := client.Schedules(ctx)
				if err != nil {
					return err
				}
				return printEither(p, asJSON, schedules, printSchedules)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// forSchedules makes a command that does something to each schedule named.
func forSchedules(
	p *Program, c *connection, use, short, done string, do func(*jobs.Client, context.Context, string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: wrongArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			return c.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
				var errs []error
				for _, name := range names {
					err := do(client, ctx, name)
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

func printSchedules(out io.Writer, schedules []jobs.Scheduled) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
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
			last, state = s.Last.Started.Local().Format(time.DateTime), cmp.Or(string(s.Last.State), "forgotten")
		}
		fmt.Fprintf(w, "%s\t%s (%s)\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, strings.Join(s.Cron, ", "), s.TimeZone, s.Pool, s.Overlap, next, last, state, s.Output)
	}
	return w.Flush()
}
