package starter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/jobs"
)

type workersCommand struct {
	asking
	pools []string
}

func newWorkers(p *Program) *cobra.Command {
	o := &workersCommand{}
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the workers of each pool",
		Long: `Lists the workers that have polled for batches of a pool within the last minutes, and the batches
that they have in hand: slot, process, how many calls the slot makes at once, start, and the timers that
handlers hold, by scope, with the time that is left. They are known from a batch's first heartbeat on, which comes when an item has been answered, or after a
quarter of the job's expiry. A worker of which nothing has been heard for 90 s is marked; the server forgets it after some minutes.

Without --pool, the pools are those of all workers that coordinate jobs, idle ones too, and of the jobs that run.`,
		Example: `  stint workers
  stint workers --pool upper --json`,
		Args: wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.connection.withClient(cmd.Context(), p, func(ctx context.Context, c *jobs.Client) error { return o.run(ctx, p, c) })
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&o.pools, "pool", nil, "only this pool; repeatable")
	return cmd
}

func (o *workersCommand) run(ctx context.Context, p *Program, client *jobs.Client) error {
	for _, pool := range o.pools {
		if err := limits.CheckName("pool", pool); err != nil {
			return usageError("%w", err)
		}
	}
	report, pools, err := page.AskWorkers(ctx, client, o.pools)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(p.Stdout, report)
	}
	if err := printWorkers(p, report); err != nil {
		return err
	}
	for _, pool := range pools {
		if !slices.ContainsFunc(report.Workers, func(w jobs.PoolWorker) bool { return w.Pool == pool }) {
			fmt.Fprintln(p.Stderr, p.unserved(pool))
		}
	}
	return nil
}

func printWorkers(p *Program, r page.Workers) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tWORKER\tVERSION\tSEEN")
	for _, one := range r.Workers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s ago%s\n", one.Pool, one.Worker, cmp.Or(one.Version, unknown), since(one.Seen), silence(r, one, time.Now()))
	}
	if len(r.Running) > 0 {
		fmt.Fprintln(w, "\nJOB\tWORKER\tSLOT\tPID\tINCARNATION\tCALLS\tBATCH\tAGE\tTIMERS")
	}
	for _, b := range r.Running {
		slot, pid, incarnation, calls := unknown, unknown, unknown, unknown
		if !b.Beat.IsZero() {
			slot, pid = fmt.Sprint(b.Slot), fmt.Sprint(b.PID)
			incarnation, calls = fmt.Sprint(b.Incarnation), fmt.Sprint(max(1, b.Concurrency))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", b.Job, b.Worker, slot, pid, incarnation, calls, cmp.Or(b.Batch, unknown), since(b.Since), describeTimers(b.Timers, time.Now()))
	}
	return w.Flush()
}

// silence returns what to say of a worker of which nothing has been heard for long; "": it has been.
func silence(all page.Workers, w jobs.PoolWorker, now time.Time) string {
	if !all.Unheard(w, now) {
		return ""
	}
	return ", and not heard of since: ended, dead or cut off"
}

const unknown = "–"

// describeTimers lists scopes, each with the time that it has left: "model.py#12 in 3s".
func describeTimers(held []jobs.HeldTimer, now time.Time) string {
	var all []string
	for _, t := range held {
		left := t.Deadline.Sub(now)
		if left < 0 {
			all = append(all, fmt.Sprintf("%s overdue by %v", t.Scope, roundTime(-left)))
			continue
		}
		all = append(all, fmt.Sprintf("%s in %v", t.Scope, roundTime(left)))
	}
	return cmp.Or(strings.Join(all, ", "), unknown)
}

// describeRunning describes a running batch in a line.
func describeRunning(b jobs.RunningBatch) string {
	line := fmt.Sprintf("%s on %s, for %s", cmp.Or(b.Batch, "a batch"), b.Worker, since(b.Since))
	if b.Beat.IsZero() {
		return line
	}
	return line + fmt.Sprintf(", slot %d, pid %d, incarnation %d, at item %s, heard of %s ago%s",
		b.Slot, b.PID, b.Incarnation, text.Thousands(b.First), since(b.Beat), slotCalls(b.Concurrency))
}
