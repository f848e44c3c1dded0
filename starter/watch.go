package starter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

func newWatch(p *Program) *cobra.Command {
	var c connection
	var o following
	var all jobMetrics
	one := jobArg()
	cmd := &cobra.Command{
		Use:   "watch JOB | --metrics ADDR",
		Short: "Follow a job to its end",
		Long: `Shows a job's progress until it ends, and exits as 'stint run' does. Ctrl-C ends the watching only.

With --metrics it shows the numbers of all jobs of the namespace to Prometheus, until it is asked to end: items by
state, speed, time left, trouble. Run one for a namespace: two would count every job twice. What workers do is
counted at their own --metrics. Every --every it asks the latest --most running jobs and their open legs, which
some servers bill; others are counted by their state. There is no authentication: beyond this machine, listen in
networks that you trust.`,
		Example: `  stint watch nightly
  stint watch --metrics 9091`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("metrics") {
				return nil
			}
			return one(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := all.check(cmd.Flags(), args); err != nil {
				return err
			}
			if cmd.Flags().Changed("metrics") {
				return all.run(cmd.Context(), p, &c)
			}
			if err := o.limit.check(cmd.Flags(), "", true); err != nil {
				return err
			}
			return c.withClientUntil(cmd.Context(), p, o.limit, func(ctx context.Context, client *jobs.Client) error {
				listed, err := client.Get(args[0]).Listed(ctx)
				if err != nil {
					return err
				}
				return watched{client.Get(args[0]), poolsOf(ctx, client, args[0], listed.Pool), o}.toEnd(ctx, p, client)
			})
		},
	}
	c.addFlags(cmd.Flags())
	o.limit.addFlags(cmd.Flags(), "how long to watch; the job continues then (default: until its end)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print reports as JSON: progress to stderr, the last to stdout")
	all.addFlags(cmd.Flags())
	return cmd
}

// poolsOf returns the pools that a job waits for: its own, and those of further stages and of init hooks.
func poolsOf(ctx context.Context, client *jobs.Client, name, own string) []string {
	pools := []string{own}
	if spec, err := client.Spec(ctx, name); err == nil { // otherwise the job is about to say what is wrong
		pools[0] = cmp.Or(own, spec.Pool)
		pools = append(pools, otherPools(spec)...)
	}
	return pools
}

const (
	pollEvery = 500 * time.Millisecond // while a person looks
	// pollLimit is how long a report may take; without a worker there is none.
	pollLimit = 3 * time.Second
	// answerLimit is how long a job may take to answer an update.
	answerLimit = 10 * time.Second
	// unservedEvery is how often the pool's pollers are checked, and unservedFirst the wait before the first check: the
	// server takes a moment to know a worker that has just been started.
	unservedEvery = 3 * time.Second
	unservedFirst = time.Second
)

// follow shows a job's progress until it has ended, and returns its final report. A job that
// failed is not an error: its report says so.
func follow(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run, pools []string, show *progress) (job.Report, error) {
	defer show.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looked := trap.Go("looking for workers", func() error {
		lookForWorkers(ctx, p, client, run, pools, show)
		return nil
	})
	report, err := run.Follow(ctx, show.every(), show.show)
	cancel()
	if defect := <-looked; defect != nil {
		return report, defect
	}
	if wraps[*jobs.FailedError](err) {
		err = nil
	}
	return report, err
}

// outcome returns the exit code of a final report.
func outcome(r job.Report) error {
	switch {
	case r.State == job.Failed:
		return &codeError{code: ExitFailed}
	case r.State == job.Stopped && r.Error != nil: // with work still running
		return &codeError{code: ExitStragglers}
	case r.State == job.Stopped:
		return &codeError{code: ExitStopped}
	case r.Failed > 0:
		return &codeError{code: ExitSomeFailed}
	}
	return nil
}

// following are the flags of a command that starts a job and may follow it to its end.
type following struct {
	wait, json bool
	limit      waitLimit
}

func (o *following) addFlags(fs *pflag.FlagSet, what string) {
	fs.BoolVar(&o.wait, "wait", false, "follow the "+what+" to its end")
	o.limit.addFlags(fs, "with --wait, how long to wait; the "+what+" continues then (default: until its end)")
	fs.BoolVar(&o.json, "json", false, "print reports as JSON")
}

func (o *following) check(fs *pflag.FlagSet) error { return o.limit.check(fs, "--wait", o.wait) }

// watched is a job that a command follows to its end.
type watched struct {
	run   *jobs.Run
	pools []string // that it waits for: its own, and others
	following
}

// toEnd shows a job's progress until it ends, prints its report and gives its exit code. A request to end, and the end
// of the limit, leave the job running.
func (w watched) toEnd(ctx context.Context, p *Program, client *jobs.Client) error {
	began := time.Now()
	show := progressOf(p, w.json)
	show.detailed = true
	report, err := follow(ctx, p, client, w.run, w.pools, show)
	name := w.run.Name()
	switch {
	case err != nil && interrupted(ctx):
		return &codeError{code: ExitInterrupted, err: fmt.Errorf("no longer watching %[1]s, which continues; '%[2]s stop %[1]s' stops it", name, p.name())}
	case err != nil && isLimit(ctx):
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

// announce follows a job that has been started, or prints its name.
func announce(ctx context.Context, p *Program, client *jobs.Client, w watched) error {
	if w.wait {
		return w.toEnd(ctx, p, client)
	}
	notes := newProgress(p.Stderr, false, false)
	noteUnserved(ctx, p, client, notes, w.pools...)
	noteNeeds(ctx, w.run, notes)
	if w.json {
		return printJSON(p.Stdout, map[string]string{"job": w.run.Name(), "pool": w.run.Pool()})
	}
	if url := p.pageOf(job.Report{Job: w.run.Name(), Run: w.run.ID()}); url != "" {
		fmt.Fprintf(p.Stderr, "page: %s\n", url)
	}
	_, err := fmt.Fprintln(p.Stdout, w.run.Name())
	return err
}
