package starter

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/text"
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
	for _, row := range settingRows(s) {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	return w.Flush()
}

// settingRows returns the names and values of settings.
func settingRows(s job.Settings) [][2]string {
	var rows [][2]string
	if s.Window != nil {
		rows = append(rows, [2]string{"window", limits.DescribeWindow(*s.Window, 0)})
	}
	if s.BatchItems != nil {
		value := fmt.Sprint(*s.BatchItems)
		if *s.BatchItems == 0 {
			value = "automatic"
		}
		rows = append(rows, [2]string{"batch-items", value})
	}
	if s.MaxFailed != nil {
		value := string(*s.MaxFailed)
		if s.MaxFailed.Unlimited() {
			value = "none"
		}
		rows = append(rows, [2]string{"max-failed", value})
	}
	if s.Rate != nil {
		rows = append(rows, [2]string{"rate", s.Rate.String()})
	}
	for _, limit := range []struct {
		name string
		rate *job.Rate
	}{{"rpm", s.RequestRate}, {"tpm", s.TokenRate}} {
		if limit.rate != nil && *limit.rate > 0 {
			rows = append(rows, [2]string{limit.name, limit.rate.String()})
		}
	}
	if s.MaxCost != nil && *s.MaxCost > 0 {
		rows = append(rows, [2]string{"max-cost", s.MaxCost.String()})
	}
	if s.MaxTokens != nil && *s.MaxTokens > 0 {
		rows = append(rows, [2]string{"max-tokens", text.Thousands(*s.MaxTokens)})
	}
	if s.Deadline != nil && *s.Deadline != "" {
		rows = append(rows, [2]string{"deadline", *s.Deadline})
	}
	for _, stage := range slices.Sorted(maps.Keys(s.Windows)) {
		rows = append(rows, [2]string{stage + ".window", limits.DescribeWindow(s.Windows[stage], 0)})
	}
	return rows
}
