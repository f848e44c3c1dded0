package starter

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// loopFlags are the flags that make a job a loop.
type loopFlags struct {
	loop bool
	spec job.Loop
}

// loopFlag makes a job a loop. Only the command `loop` has it, and sets it.
const loopFlag = "loop"

// notForLoops are flags that say something about inputs and batches, or about feeds.
var notForLoops = []string{
	loopFlag, "format", "delimiter", "quote", "columns", "max-item", "max-input", "batch-items", "batch-bytes", "window", "batch-timeout", "max-failed", "job-rate", "errors", "dropped",
	"rpm", "tpm", "limit-by", "max-cost", "max-tokens",
	"split", "flatten",
	"feed", "capacity", "capacity-bytes", "batch-wait", "keep",
}

func (o *loopFlags) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.loop, loopFlag, false, "run ticks of a clock")
	fs.DurationVar(&o.spec.Every, "every", 0, "the interval, 1ms or more (default: back to back)")
	fs.IntVar(&o.spec.Slots, "slots", 1, "how many slots of the pool it runs in, 1 to 200, each with ticks of its own")
	fs.StringVar(&o.spec.CatchUp, "catch-up", "", "what becomes of ticks that are due while an earlier one runs: `all|skip`, made up afterwards or left out (default: all)")
}

// complete sets what a loop has.
func (o *loopFlags) complete(fs *pflag.FlagSet, s *job.Spec) error {
	if fs.Changed("every") && o.spec.Every <= 0 {
		return usageError("--every %v: use 1ms or more, or leave it out to run back to back", o.spec.Every)
	}
	if o.spec.Slots < 1 {
		return usageError("--slots %d: use 1 to %d", o.spec.Slots, limits.MaxSlots)
	}
	loop := o.spec
	s.Loop = &loop
	if !fs.Changed("on-error") {
		s.OnError = "" // a loop's own default
	}
	return nil
}

func newLoop(p *Program) *cobra.Command {
	o := &startOptions{}
	cmd := &cobra.Command{
		Use:   "loop",
		Short: "Run the handler at an interval, or back to back, until it is stopped",
		Long: `Starts a loop: a job whose items are ticks of a clock. Each of its --slots runs the handler of --pool
over ticks of its own, one at a time, until 'stint stop'. A tick is the item

  {"slot":0,"tick":12,"due":"2026-11-23T09:30:00Z"}

With --every the first tick is due at once, and tick k is due k intervals later, whatever is restarted
meanwhile. Ticks that are due while an earlier one runs are run back to back afterwards, or left out
with --catch-up skip. Without --every each tick begins when the one before has ended.

The first failed tick stops the loop with its error, unless --on-error is record or drop. A tick's
--call-timeout and --item-attempts are those of an item in any job.

Results are kept if --output names a directory or bucket prefix: in parts of ten seconds, which
'stint results' prints. When a worker drains, or a program crashes, the next tick follows exactly. When a
worker is lost, its slot continues from its last heartbeat, about a second before, or from its last part;
ticks that may run twice are counted ('stint status'). A resumed loop continues with the next ticks: those of the
time in which it was stopped are not made up.`,
		Example: `  stint loop --name probe --pool probe --every 10s -o s3://bucket/probe/
  stint loop --name poll --pool poll --slots 4 --on-error record`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := o.job.complete(cmd, nil, p.Dir)
			if err != nil {
				return err
			}
			if spec.Pool == "" {
				return usageError("no pool given: use --pool NAME, and start workers with '%s worker --pool NAME --allow ROOT'", p.name())
			}
			if err := o.following.check(cmd.Flags()); err != nil {
				return err
			}
			return o.start(cmd.Context(), p, spec)
		},
	}
	fs := cmd.Flags()
	o.job.addFlags(fs, p)
	o.job.loop.addFlags(fs)
	o.job.loop.loop = true
	for _, name := range notForLoops {
		fs.Lookup(name).Hidden = true
	}
	fs.Lookup("on-error").DefValue = job.OnErrorStop
	fs.Lookup("output").Usage = "directory or bucket `PREFIX` (ending in /) that keeps the results (default: they are not kept)"
	o.connection.addFlags(fs)
	o.following.addFlags(fs, "loop")
	return cmd
}

const (
	// idleLimit is how long after its start a loop is checked for slots without a place.
	idleLimit = 10 * time.Second
	idleEvery = 200 * time.Millisecond
)

// noteIdle prints a note if the pool has fewer free slots than the loop asks for, once every slot runs or has waited
// too long.
func noteIdle(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run) {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	if n, err := client.Pollers(ctx, run.Pool()); err != nil || n == 0 {
		return // that has been said
	}
	warning := ""
	for settled := false; !settled && backoff.Wait(idleEvery, ctx.Done()); {
		if report, err := run.Report(ctx); err == nil && report.Loop != nil {
			warning = report.Loop.Warning(report.Pool)
			settled = report.State.Final() || report.Loop.Running+report.Loop.Idle >= report.Loop.Slots
		}
	}
	if warning != "" {
		newProgress(p.Stderr, false, false).note("%s", warning)
	}
}
