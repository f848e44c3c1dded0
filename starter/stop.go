package starter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

type stopOptions struct {
	connection connection
	stop       job.Stop
	failure    string
	pool       string
	all        bool
	wait       bool
	limit      waitLimit
	terminate  bool
}

func newStop(p *Program) *cobra.Command {
	o := &stopOptions{}
	cmd := &cobra.Command{
		Use:   "stop JOB | --pool POOL | --all",
		Short: "Stop jobs: running calls get a grace period, recorded outcomes are kept",
		Long: `Asks a job, all jobs of a pool, or all jobs to stop. Nothing new is started; running calls may end
within the grace period and are then ended with TERM and KILL. Calls that still run after that are
named. Recorded outcomes are kept, and the rest can be resumed.

With --error the job ends as failed with that error, unless its type is one of the job's
--clean-stop types. Stopping a job twice is not an error: the first stop counts, errors of later
ones are listed in the report.

What a job has done, and what a feed has not, is written by a worker of its pool: if none serves it, the
command says so, and the job ends when there is one. A job whose workers will not come back is ended by
--terminate: at once, by the server, without its workers and their calls. What it had recorded is kept, and
'stint resume' continues it once there is a worker.

With --wait it returns when the jobs have ended, which may have been before; Ctrl-C and --timeout end the
waiting only. Exit status: 0, 5 if work was still running, also with --error, 124 not within --timeout.`,
		Example: `  stint stop nightly --reason 'disk almost full' --grace 30s --wait
  stint stop nightly --error 'BadInput: the export is of last week'
  stint stop nightly --wait --timeout 5m || stint stop nightly --terminate
  stint stop --pool thumbnails`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args) },
	}
	o.connection.addFlags(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&o.stop.Reason, "reason", "", "why, for the report")
	fs.StringVar(&o.failure, "error", "", "`ERROR` that makes the job fail: TYPE: MESSAGE, or a message")
	fs.StringVar(&o.stop.Grace, "grace", "", "how long running calls may take (default: the job's own)")
	fs.BoolVar(&o.stop.IgnoreStragglers, "ignore-stragglers", false, "do not make what is still running then the job's outcome")
	fs.StringVar(&o.pool, "pool", "", "stop every job of this `POOL`, also those with a stage that it runs")
	fs.BoolVar(&o.all, "all", false, "stop every job")
	fs.BoolVar(&o.wait, "wait", false, "wait until the jobs have ended")
	o.limit.addFlags(fs, "with --wait, how long to wait; the stop stays requested then (default: until their end)")
	fs.BoolVar(&o.terminate, "terminate", false, "end the jobs at once, without their workers, grace and hooks: for jobs whose workers are gone for good")
	return cmd
}

func (o *stopOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	if err := o.check(cmd, args); err != nil {
		return err
	}
	return o.connection.withClientUntil(cmd.Context(), p, o.limit, func(ctx context.Context, client *jobs.Client) error {
		if o.terminate {
			return o.end(ctx, p, client, args)
		}
		if len(args) == 0 {
			return o.many(ctx, p, client)
		}
		return o.one(ctx, p, client, client.Get(args[0]))
	})
}

func (o *stopOptions) check(cmd *cobra.Command, args []string) error {
	for _, name := range []string{"error", "grace", "ignore-stragglers", "wait"} {
		if o.terminate && cmd.Flags().Changed(name) {
			return usageError("--terminate ends a job at once, without its workers: leave --%s out", name)
		}
	}
	if err := o.limit.check(cmd.Flags(), "--wait", o.wait); err != nil {
		return err
	}
	named := 0
	for _, is := range []bool{len(args) > 0, o.pool != "", o.all} {
		if is {
			named++
		}
	}
	if named != 1 || len(args) > 1 {
		return usageError("no job to stop: name one, or use --pool POOL or --all")
	}
	if grace := o.stop.Grace; grace != "" {
		if d, err := time.ParseDuration(grace); err != nil || d < 0 {
			return usageError("--grace %s: give a duration of 0 or more, such as 30s", grace)
		}
	}
	if o.failure != "" {
		o.stop.Error = parseError(o.failure)
	}
	return nil
}

// parseError reads an error as people write one: "TYPE: MESSAGE", or a message. A type is one word.
func parseError(text string) *job.Error {
	kind, message, found := strings.Cut(text, ": ")
	if !found || kind == "" || strings.ContainsAny(kind, " \t\n") {
		return &job.Error{Type: "Error", Message: text}
	}
	return &job.Error{Type: kind, Message: message}
}

func (o *stopOptions) one(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run) error {
	err := run.Stop(ctx, o.stop)
	switch ended, ok := errors.AsType[*jobs.EndedError](err); {
	case ok && ended.Reported == nil:
		fmt.Fprintln(p.Stderr, ended.Error())
	case err != nil:
		return err
	default:
		requested(ctx, p, client, run)
	}
	return o.waitFor(ctx, p, client, []*jobs.Run{run})
}

// requested says that a stop has been requested, and if it will have to wait: what is done is committed by a worker,
// and so is what a feed has left.
func requested(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run) {
	fmt.Fprintf(p.Stderr, "stop of %s requested\n", run.Name())
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	listed, err := run.Listed(ctx)
	if err != nil || listed.State.Final() {
		return // it is a hint only
	}
	if n, err := client.Pollers(ctx, listed.Pool); err == nil && n == 0 {
		fmt.Fprintf(p.Stderr, "%[1]s; %[2]s ends then, because a worker writes what it has done and left; '%[3]s stop %[2]s --terminate' ends it without one\n",
			p.noWorker(listed.Pool), run.Name(), p.name())
	}
}

// many stops several jobs: it requests all stops before it waits for any.
func (o *stopOptions) many(ctx context.Context, p *Program, client *jobs.Client) error {
	stopping, err := client.StopAll(ctx, o.pool, o.stop)
	for _, run := range stopping {
		requested(ctx, p, client, run)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(p.Stdout, len(stopping)); err != nil {
		return err
	}
	return o.waitFor(ctx, p, client, stopping)
}

// followStop is follow, and ends with a *stuckError if a workflow task of the job fails, so that it cannot stop.
func followStop(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run, pool string, show *progress) (job.Report, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	looked := trap.Go("looking whether the job can stop", func() error { giveUpStuck(ctx, run, giveUp); return nil })
	report, err := follow(ctx, p, client, run, []string{pool}, show)
	if stuck, ok := errors.AsType[*stuckError](context.Cause(ctx)); ok && err != nil {
		err = stuck
	}
	giveUp(nil)
	if defect := <-looked; err == nil {
		err = defect
	}
	return report, err
}

// end ends jobs without their workers.
func (o *stopOptions) end(ctx context.Context, p *Program, client *jobs.Client, names []string) error {
	if len(names) == 0 {
		filter := jobs.ListFilter{Running: true}
		if o.pool != "" {
			filter.Pools = []string{o.pool}
		}
		listed, err := client.List(ctx, math.MaxInt, &filter)
		if err != nil {
			return err
		}
		for _, j := range listed {
			names = append(names, j.Name)
		}
		defer func() { fmt.Fprintln(p.Stdout, len(names)) }()
	}
	var errs []error
	for _, name := range names {
		err := client.Get(name).Terminate(ctx, o.stop.Reason)
		switch ended, ok := errors.AsType[*jobs.EndedError](err); {
		case ok:
			fmt.Fprintln(p.Stderr, ended.Error())
		case err != nil:
			errs = append(errs, err)
		default:
			fmt.Fprintf(p.Stderr, "%[1]s has been ended; '%[2]s resume %[1]s' continues it once a worker serves its pool\n", name, p.name())
		}
	}
	return errors.Join(errs...)
}

func (o *stopOptions) waitFor(ctx context.Context, p *Program, client *jobs.Client, runs []*jobs.Run) error {
	if !o.wait {
		return nil
	}
	leftovers := false
	for i, run := range runs {
		listed, _ := run.Listed(ctx) // for a hint only
		show := newProgress(p.Stderr, false, false)
		show.then = "the job ends then"
		report, err := followStop(ctx, p, client, run, listed.Pool, show)
		if err != nil {
			return o.notEnded(ctx, p, client, runs[i:], listed.Pool, err)
		}
		if !report.Started.IsZero() { // otherwise Temporal has ended the job, and nobody has counted
			fmt.Fprintf(p.Stderr, "%s: %s, %s done\n", run.Name(), report.State, text.Count(report.Done(), "item"))
		}
		printLeft(indentedRows(p.Stderr), report)
		leftovers = leftovers || leftRunning(report)
	}
	if leftovers {
		return &codeError{code: ExitStragglers}
	}
	return nil
}

// notEnded is the error of a wait that has been given up: of jobs that have not ended, the first of which has this
// pool.
func (o *stopOptions) notEnded(ctx context.Context, p *Program, client *jobs.Client, runs []*jobs.Run, pool string, err error) error {
	name := runs[0].Name()
	who := name
	if n := len(runs) - 1; n > 0 {
		who = fmt.Sprintf("%s and %s", name, text.Count(n, "other job"))
	}
	switch {
	case interrupted(ctx):
		return &codeError{code: ExitInterrupted, err: fmt.Errorf("no longer waiting for %s; the stop stays requested", who)}
	case isLimit(ctx):
		return o.limit.exceeded(fmt.Sprintf("not ended within %v: %s; the stop stays requested, and '%s stop %s --terminate' ends it without its workers",
			o.limit.timeout, who, p.name(), name), p.whoIsSilent(ctx, client, runs[0], []string{pool}))
	}
	return err
}

// leftRunning reports whether a job has ended with work that was still running and was not to be ignored.
func leftRunning(r job.Report) bool {
	left := func(e job.Error) bool { return e.Type == job.ErrorLeftovers }
	return r.Error != nil && left(*r.Error) || slices.ContainsFunc(r.LaterErrors, left)
}
