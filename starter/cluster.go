package starter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
)

// path makes a path absolute by the program's working directory.
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
	return fn(job.NewClient(temporal))
}

// reportOf asks a job for its report. While no worker answers it says so, within pollLimit and a bit.
func reportOf(ctx context.Context, client *job.Client, name string) (job.Report, error) {
	limited, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	report, err := client.Get(name).Report(limited)
	if err == nil || ctx.Err() != nil || !unanswered(err) {
		return report, err
	}
	jobs, listErr := client.List(ctx, maxListed)
	if listErr != nil {
		return report, err
	}
	for _, j := range jobs {
		if j.Name == name {
			return report, &unansweredError{name, j}
		}
	}
	return report, err
}

// unansweredError says that a job runs and nobody answers for it.
type unansweredError struct {
	name string
	job  job.Listed
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("job %s is %s, and nobody answers for it: %s", e.name, e.job.State, unserved(e.job.Pool))
}

// unanswered reports whether an error says that nobody answered in time: the server's patience may
// end a little before the caller's.
func unanswered(err error) bool {
	var late *serviceerror.DeadlineExceeded
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late)
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
