package starter

import (
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
	wait, json bool
	limit      waitLimit
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

With --feed the job has no inputs: it takes the items that 'stint put' and 'stint call' give it, in
any number and from anywhere, and runs until 'stint close'. --capacity and --capacity-bytes bound
what is accepted and unfinished; more is refused, and can be put again when there is room. Items
leave in batches: of --batch-items, or fewer, whenever a worker is free; --batch-wait has batches
that are not full wait for more.

With --cron nothing starts now: the Temporal server starts the job at each tick ('stint schedules'
shows, pauses and deletes). Each run is a separate job, named after its tick in UTC:
nightly-2026-11-21T03:00:00Z. {time} (20261121T030000Z) and {date} (2026-11-21) in an input, in
--output, --errors, --dropped or --report stand for the tick; without them each run replaces the output when
it completes. --overlap says what happens at a tick during the previous run:

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
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow the job to its end")
	o.limit.addFlags(cmd.Flags(), "with --wait, how long to wait; the job continues then (default: until its end)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print reports as JSON")
	return cmd
}

func (o *startOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	spec, err := o.job.complete(cmd, args, p.Dir)
	if err != nil {
		return err
	}
	if err := o.job.refusePools(p); err != nil {
		return err
	}
	if err := o.limit.check(cmd.Flags(), "--wait", o.wait); err != nil {
		return err
	}
	if slices.Contains(spec.Input, "-") {
		return usageError("a job on a cluster cannot read this process's standard input: name a file that the workers can read, or use '%s run'", p.name())
	}
	if spec.Pool == "" && len(spec.Stages) == 0 {
		return usageError("no pool given: use --pool NAME, and start workers with '%s worker --pool NAME --allow ROOT'", p.name())
	}
	if len(o.schedule.options.Cron) > 0 {
		return o.makeSchedule(cmd.Context(), p, spec)
	}
	if err := o.schedule.refuseWithoutCron(cmd.Flags()); err != nil {
		return err
	}
	return o.start(cmd.Context(), p, spec)
}

// start starts the job; if it has no name, start makes one up.
func (o *startOptions) start(ctx context.Context, p *Program, spec job.Spec) error {
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("job-%s-%s", time.Now().UTC().Format("20060102-150405"), strings.ToLower(rand.Text()[:6]))
	}
	if err := spec.WithDefaults().Validate(); err != nil {
		return usageError("%w", err)
	}
	ctx, cancel := o.limit.limit(ctx)
	defer cancel()
	return o.connection.withClient(ctx, p, func(ctx context.Context, client *jobs.Client) error {
		run, err := client.Start(ctx, spec, &jobs.StartOptions{Fresh: o.job.fresh})
		if err != nil {
			return err
		}
		if err := announce(ctx, p, client, watched{run, otherPools(spec), o.json, o.limit}, o.wait); err != nil || o.wait || spec.Source != job.SourceClock {
			return err
		}
		if len(spec.Init) > 0 { // its slots begin when these hooks have ended, however long they take
			return nil
		}
		noteIdle(ctx, p, client, run)
		return nil
	})
}

// otherPools are the pools besides its own that a job waits for: those of init hooks before its first batch, and those of later
// stages.
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

// watched is a job that a command follows to its end.
type watched struct {
	run   *jobs.Run
	pools []string // that it waits for
	json  bool
	limit waitLimit
}

// toEnd shows a job's progress until it ends, prints its report and gives its exit code. A request to end, and the end of the limit,
// leave the job running.
func (w watched) toEnd(ctx context.Context, p *Program, client *jobs.Client) error {
	began := time.Now()
	show := progressOf(p, w.json)
	show.detailed = true
	report, err := follow(ctx, p, client, w.run, w.pools, show)
	name := w.run.Name()
	switch {
	case err != nil && interrupted(ctx):
		return &codeError{code: ExitInterrupted, err: fmt.Errorf("no longer watching %[1]s, which continues; '%[2]s stop %[1]s' stops it", name, p.name())}
	case err != nil && w.limit.over(ctx):
		return w.limit.exceeded(fmt.Sprintf("%[1]s has not ended within %[3]v, and continues: '%[2]s watch %[1]s' follows it, '%[2]s stop %[1]s' stops it", name, p.name(), w.limit.timeout),
			p.whoIsSilent(ctx, client, w.run, w.pools))
	case err != nil:
		return err
	}
	if w.json {
		if err := printJSON(p.Stdout, report); err != nil {
			return err
		}
	} else {
		show.page(report) // it may have ended before its first report
		took := time.Since(began)
		if report.Ended != nil && !report.Started.IsZero() {
			took = report.Ended.Sub(report.Started)
		}
		summary(p.Stderr, p.Dir, report, took, true)
		if report.State == job.Stopped || report.State == job.Failed {
			fmt.Fprintf(p.Stderr, "  '%s resume %s' continues from here\n", p.name(), name)
		}
	}
	return outcome(report)
}
