package starter

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// scheduleFlags are the flags of `start` that make a schedule of the job.
type scheduleFlags struct {
	options job.ScheduleOptions
}

func (o *scheduleFlags) addFlags(fs *pflag.FlagSet) {
	s := &o.options
	fs.StringArrayVar(&s.Cron, "cron", nil, "start the job at each tick of `EXPR`, not now: '0 3 * * *' (5 to 7 fields), @daily, '@every 90m'; repeatable")
	fs.StringVar(&s.TimeZone, "time-zone", "", "`ZONE` of --cron, such as Europe/Berlin (default: UTC)")
	fs.StringVar((*string)(&s.Overlap), "overlap", string(job.OverlapSkip), "`POLICY` for ticks during a run: skip, queue-one, queue, stop, terminate or allow")
	fs.DurationVar(&s.CatchUp, "catch-up", 0, "how late a missed tick may still start a run once a server that was down is back (default: the server's, a year)")
}

// refuseWithoutCron refuses flags that would have no effect.
func (o *scheduleFlags) refuseWithoutCron(fs *pflag.FlagSet) error {
	for _, name := range []string{"time-zone", "overlap", "catch-up"} {
		if fs.Changed(name) {
			return usageError("--%s is for a schedule: give --cron, too", name)
		}
	}
	return nil
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
	options := o.schedule.options
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
		noteUnserved(ctx, p, client, spec.Pool, newProgress(p.Stderr, false, false))
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
