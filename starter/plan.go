package starter

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

type planOptions struct {
	job  jobOptions
	json bool
}

func newPlan(p *Program) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan [INPUT…]",
		Short: "Dry run: count items, batches, events and actions",
		Long: `Reads the inputs as a job would and counts its items and batches, the events of its histories and
the actions that Temporal Cloud would bill. Nothing is started. With automatic batches the counts
are those of a handler that is quick enough for the largest ones; a slower one gets smaller
batches, and more of them.`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, p, args) },
	}
	o.job.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *planOptions) run(cmd *cobra.Command, p *Program, args []string) error {
	spec, err := o.job.complete(cmd, args, p.Dir)
	if err != nil {
		return err
	}
	spec.Name, spec.Pool, spec.Store = "plan", "plan", "plan" // neither is used
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return usageError("%v", err)
	}
	var access store.Access
	defer access.Close()
	survey, err := activities.TakeSurvey(cmd.Context(), &access, spec, p.Stdin)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(p.Stdout, survey)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(name string, v int64) { fmt.Fprintf(w, "%s\t  %s\t\n", job.Thousands(v), name) }
	row("inputs", int64(survey.Inputs))
	row("items", survey.Items)
	row("bytes", survey.Bytes)
	row("batches", survey.Batches)
	row("legs", survey.Legs)
	row("events of history, about", survey.Events)
	row("actions, about", survey.Actions)
	return w.Flush()
}
