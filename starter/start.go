package starter

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

type startOptions struct {
	job        jobOptions
	connection connection
	schedule   scheduleFlags
	following
}

func newStart(p *Program) *cobra.Command {
	o := &startOptions{}
	cmd := &cobra.Command{
		Use:   "start [INPUT…] | --feed",
		Short: "Start a job on a cluster",
		Long: `Starts a job that the workers of --pool run. Inputs and outputs are paths or bucket URLs as the
workers see them; relative paths are taken from this directory. Prints the job's name: --name, or
one made from the time. Bucket URLs take the driver's parameters, such as
s3://bucket/in/?region=eu-west-1, and for other S3-compatible stores
s3://bucket/in/?endpoint=http://host:9000&use_path_style=true.

With --wait it follows the job and exits as 'stint run' does.

With --feed the job has no inputs: it takes the items that 'stint feed put' and 'stint feed call'
give it, in any number and from anywhere, and runs until 'stint feed close'. --capacity and --capacity-bytes bound
what is accepted and unfinished; more is refused, and can be put again when there is room. Items
leave in batches: of --batch-items, or fewer, whenever a worker is free; --batch-wait has batches
that are not full wait for more.

With --cron nothing starts now: the Temporal server starts the job at each tick ('stint schedule'
lists, pauses and deletes). Each run is a separate job, named after its tick in UTC:
nightly-2026-11-21T03:00:00Z. {time} (20261121T030000Z) and {date} (2026-11-21) in an input, in
--output, --errors, --dropped or --report stand for the tick; without them each run replaces the output when
it completes. {date-1} is the day before, {time-6h} six hours before, {date:2006/01} has a layout of Go,
{date-1:2006/01/02} both. --overlap says what happens at a tick during the previous run:

  skip       it is left out; so are ticks missed while the server was down, but for one (default)
  queue-one  one run waits for its turn, further ticks are left out
  queue      every tick gets its run, one after the other
  stop       the run is stopped as by 'stint stop', then the new one starts
  terminate  the run is ended at once and nothing of it is kept, then the new one starts
  allow      both run; --output must have a {time} then`,
		Example: `  stint start --name nightly --pool upper 's3://bucket/in/*.jsonl' -o s3://bucket/out/ --wait
  stint start --name nightly --pool upper in.jsonl -o 'out-{date}.jsonl' --cron '0 3 * * *' \
      --time-zone Europe/Berlin
  stint start --feed --name risk --pool risk -o s3://bucket/risk/ --capacity 1000 --batch-items 32`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args) },
	}
	o.job.addFlags(cmd.Flags(), p)
	o.connection.addFlags(cmd.Flags())
	o.schedule.addFlags(cmd.Flags())
	o.following.addFlags(cmd.Flags(), "job")
	return cmd
}

func (o *startOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	spec, err := o.job.complete(cmd, args, p.Dir)
	if err != nil {
		return err
	}
	if err := cmp.Or(o.job.refusePools(p), o.following.check(cmd.Flags())); err != nil {
		return err
	}
	if slices.Contains(spec.Inputs(), "-") {
		return usageError("a job on a cluster cannot read this process's standard input: name a file that the workers can read, or use '%s run'", p.name())
	}
	if spec.Pool == "" && len(spec.Stages) == 0 {
		return usageError("no pool given: use --pool NAME, and start workers with '%s worker --pool NAME --allow ROOT'", p.name())
	}
	if len(o.schedule.Cron) > 0 {
		return o.makeSchedule(cmd.Context(), p, spec)
	}
	for _, name := range []string{"time-zone", "overlap", "catch-up"} {
		if cmd.Flags().Changed(name) {
			return usageError("--%s is for a schedule: give --cron, too", name)
		}
	}
	return o.start(cmd.Context(), p, spec)
}

// start starts the job; if it has no name, start makes one up.
func (o *startOptions) start(ctx context.Context, p *Program, spec job.Spec) error {
	spec.Name = cmp.Or(spec.Name, fmt.Sprintf("job-%s-%s", time.Now().UTC().Format("20060102-150405"), strings.ToLower(rand.Text()[:6])))
	if err := spec.WithDefaults().Validate(); err != nil {
		return usageError("%w", err)
	}
	return o.connection.withClientUntil(ctx, p, o.limit, func(ctx context.Context, client *jobs.Client) error {
		run, err := client.Start(ctx, spec, &jobs.StartOptions{Fresh: o.job.fresh})
		if err != nil {
			return err
		}
		if err := announce(ctx, p, client, watched{run, append([]string{run.Pool()}, otherPools(spec)...), o.following}); err != nil || o.wait || !o.job.loop.loop {
			return err
		}
		if len(spec.Init) > 0 { // its slots begin when these hooks have ended, however long they take
			return nil
		}
		noteIdle(ctx, p, client, run)
		return nil
	})
}

// otherPools returns the pools besides its own that a job waits for: those of init hooks before its first batch, and
// those of later stages.
func otherPools(spec job.Spec) (pools []string) {
	add := func(pool string) {
		if pool != spec.Pool && !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	spec = spec.WithDefaults()
	for _, hook := range spec.Init {
		pool, _ := spec.HookOf(hook)
		add(pool)
	}
	for _, stage := range spec.StagePools() {
		add(stage.Pool)
	}
	return pools
}
