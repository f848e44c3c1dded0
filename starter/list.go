package starter

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
)

// maxListed is how many jobs are shown at most, the latest ones.
const maxListed = 1000

func newList(p *Program) *cobra.Command {
	var c connection
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the latest first",
		Args:  wrongArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withClient(cmd.Context(), p, func(client *job.Client) error {
				jobs, err := client.List(cmd.Context(), maxListed)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(p.Stdout, jobs)
				}
				return printJobs(p, jobs)
			})
		},
	}
	c.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printJobs(p *Program, jobs []job.Listed) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tPOOL\tSOURCE\tSTATE\tSTARTED\tTOOK\tOUTPUT")
	for _, j := range jobs {
		took := since(j.Started)
		if j.Ended != nil {
			took = roundTime(j.Ended.Sub(j.Started)).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.Name, j.Pool, j.Source, j.State, j.Started.Local().Format(time.DateTime), took, j.Output)
	}
	return w.Flush()
}
