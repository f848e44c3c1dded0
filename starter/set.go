package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

func newSet(p *Program) *cobra.Command {
	o := &asking{}
	cmd := &cobra.Command{
		Use:   "set JOB NAME=VALUE…",
		Short: "Change settings of a running job",
		Long: `Changes settings of a job while it runs, and prints all that are in force then. They survive restarts
and 'stint resume'.

  window=N|auto    batches in flight at once, 1 to 10000; auto: as many as keep the pool busy
  batch-items=N    items of a batch, 0 for automatic; from the next page of batches on
  max-failed=N|P%  failed items that are tolerated, as a number or a share of those done
  rate=R           items a second of the whole job, 250 or 90/m; 0 for no limit. Batches in flight
                   keep their pace; none runs for longer than a minute at first, or than
                   one item takes at that rate
  rpm=N, tpm=N     requests, and tokens, a minute of the whole job; 0 for no limit
  max-cost=AMOUNT  money after which the job stops; 0 for no limit
  max-tokens=N     tokens after which it stops; 0 for no limit
  priority=N       which of the pool's jobs goes first, 1 to 5, with the next batches: 1 before all
  deadline=TIME    when it stops: 2026-01-31T18:00:00Z, or 90m from its start; none for never
  STAGE.window=N   batches in flight at once in a stage of a pipeline, 1 to 10000; auto: as many as
                   the job's window lets. The stages before wait for it`,
		Example: `  stint set nightly window=8 rate=100
  stint set nightly score.window=2`,
		Args: wrongArgs(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return set(cmd.Context(), p, o, args[0], args[1:]) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func set(ctx context.Context, p *Program, o *asking, name string, texts []string) error {
	var settings job.Settings
	err := settings.Parse(texts)
	if err != nil {
		return usageError("%w", err)
	}
	return o.connection.withClient(ctx, p, func(ctx context.Context, client *jobs.Client) error {
		limited, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		now, err := client.Get(name).Set(limited, settings)
		if err != nil {
			return err
		}
		return printEither(p, o.json, now, printSettings)
	})
}

func printSettings(out io.Writer, s job.Settings) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, row := range page.SettingRows(s) {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	return w.Flush()
}

func newPause(p *Program) *cobra.Command {
	o := &connectionOptions{}
	cmd := &cobra.Command{
		Use:   "pause JOB",
		Short: "Have a job start nothing new until it is unpaused",
		Long: `Has a running job start nothing new. Calls in hand end as usual, and batches return what is left of them,
which costs them no attempt; batches that wait in the pool's queue are taken back. Hooks, and a feed's clients, see
nothing of it: a paused feed accepts items up to its capacity. The output waits, too.

A paused job waits for as long as it has to, over restarts of workers and of the server, and costs no event
meanwhile. 'stint status', 'list' and 'watch' say since when it is paused. 'stint unpause JOB' has it go on;
'stint stop JOB' and the job's deadline end it, and 'stint resume JOB' goes on then without the pause.

The pause is recorded at once. If no worker coordinates the job, it takes effect when one does.`,
		Example: `  stint pause nightly
  stint unpause nightly`,
		Args: jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, p, args[0], (*jobs.Run).Pause, func(r job.Report) (string, bool) {
				if r.PausedSince != nil {
					return fmt.Sprintf("%[1]s is paused since %[3]s; '%[2]s unpause %[1]s' has it go on", r.Job, p.name(), r.PausedSince.Local().Format(time.DateTime)), true
				}
				return fmt.Sprintf("job %s is not paused: it is %s", r.Job, endingState(r)), false
			})
		},
	}
	o.connection.addFlags(cmd.Flags())
	return cmd
}

func newUnpause(p *Program) *cobra.Command {
	o := &connectionOptions{}
	cmd := &cobra.Command{
		Use:     "unpause JOB",
		Short:   "Have a paused job go on",
		Long:    `Has a job go on that 'stint pause' has paused. Of a job that is not paused nothing changes.`,
		Example: `  stint unpause nightly`,
		Args:    jobArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, p, args[0], (*jobs.Run).Unpause, func(r job.Report) (string, bool) {
				return fmt.Sprintf("%s is not paused: it is %s", r.Job, endingState(r)), r.PausedSince == nil
			})
		},
	}
	o.connection.addFlags(cmd.Flags())
	return cmd
}

// endingState says what a job does that is not paused.
func endingState(r job.Report) string {
	if r.State == job.Running && r.PlanDone && r.Done()+r.Discarded == r.Planned {
		return "publishing its output"
	}
	return string(r.State)
}

// connectionOptions are those of a command that asks a job for something.
type connectionOptions struct{ connection connection }

// ask requests something of a job, and prints what its report says then. It returns an error if that is not what was
// wanted.
func (o *connectionOptions) ask(cmd *cobra.Command, p *Program, name string, request func(*jobs.Run, context.Context) error, outcome func(job.Report) (string, bool)) error {
	return o.connection.withClient(cmd.Context(), p, func(ctx context.Context, client *jobs.Client) error {
		if err := request(client.Get(name), ctx); err != nil {
			return err
		}
		report, err := reportOf(ctx, p, client, name)
		if silent, ok := errors.AsType[*unansweredError](err); ok {
			fmt.Fprintf(p.Stderr, "recorded: %s takes it in when a worker coordinates it; %s\n", name, silent.hint)
			return nil
		}
		if err != nil {
			return err
		}
		said, ok := outcome(report)
		if !ok {
			return errors.New(said)
		}
		fmt.Fprintln(p.Stderr, said)
		return nil
	})
}
