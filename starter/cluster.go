package starter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
)

// path makes a path absolute, relative to the program's working directory.
func (p *Program) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.Dir, name)
}

// withClient dials and runs fn with a client of jobs.
func (c *connection) withClient(ctx context.Context, p *Program, fn func(*job.Client) error) error {
	temporal, err := c.dial(ctx, p, false)
	if err != nil {
		return err
	}
	defer temporal.Close()
	return fn(job.NewClientWith(temporal, job.ClientOptions{DataConverter: c.converter()}))
}

// reportOf asks a job for its report. If no worker answers it returns an *unansweredError, soon after
// pollLimit.
func reportOf(ctx context.Context, p *Program, client *job.Client, name string) (job.Report, error) {
	limited, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	report, err := client.Get(name).Report(limited)
	if err == nil || ctx.Err() != nil || !job.Unanswered(err) {
		return report, err
	}
	jobs, listErr := client.List(ctx, maxListed)
	if listErr != nil {
		return report, err
	}
	for _, j := range jobs {
		if j.Name == name {
			return report, &unansweredError{name, j, p.silent(ctx, client, j.Pool)}
		}
	}
	return report, err
}

// unansweredError reports that a job runs but no worker answers for it.
type unansweredError struct {
	name string
	job  job.Listed
	hint string // what to do
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("job %s is %s, but no worker answers for it: %s", e.name, e.job.State, e.hint)
}

// silent says why no worker answers for a job of the pool, and what to do.
func (p *Program) silent(ctx context.Context, client *job.Client, pool string) string {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	if n, err := client.Pollers(ctx, pool); err == nil && n > 0 {
		return fmt.Sprintf("workers serve pool %s, but those that coordinate jobs have just begun, are too busy or are gone; ask again in some seconds", pool)
	}
	return p.unserved(pool)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func jobArg() cobra.PositionalArgs { return wrongArgs(cobra.ExactArgs(1)) }

func since(t time.Time) string { return roundTime(time.Since(t)).String() }
