package starter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

// path makes a path absolute, relative to the program's working directory.
func (p *Program) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.Dir, name)
}

// withClient dials and runs fn with a client of jobs. A request to end ends fn's context.
func (c *connection) withClient(ctx context.Context, p *Program, fn func(context.Context, *jobs.Client) error) error {
	return c.withClientSoon(ctx, p, waitLimit{}, fn)
}

// withClientUntil is withClient, all of it until the limit is over.
func (c *connection) withClientUntil(
	ctx context.Context, p *Program, limit waitLimit, fn func(context.Context, *jobs.Client) error,
) error {
	ctx, cancel := limit.limit(ctx)
	defer cancel()
	return c.withClient(ctx, p, fn)
}

// withClientSoon is withClient with a limit for dialling.
func (c *connection) withClientSoon(ctx context.Context, p *Program, limit waitLimit, fn func(context.Context, *jobs.Client) error) error {
	ctx, end := p.untilSignal(ctx)
	defer end()
	dialling, cancel := limit.limit(ctx)
	defer cancel()
	temporal, err := c.dial(dialling, p, false)
	if err != nil {
		return unlessOver(dialling, err)
	}
	defer temporal.Close()
	client := c.clientOf(temporal)
	return unlessOver(ctx, p.unanswered(ctx, client, fn(ctx, client)))
}

// unanswered adds to the error of a question to a job that nobody has answered who should have.
func (p *Program) unanswered(ctx context.Context, client *jobs.Client, err error) error {
	silent, ok := errors.AsType[*jobs.UnansweredError](err)
	if !ok || interrupted(ctx) {
		return err
	}
	code := unansweredCode(ctx, err)
	said := err.Error()
	if who := p.whoDoesNotAnswer(ctx, client, client.Get(silent.Name)); !strings.Contains(said, who) {
		said += "\n" + who
	}
	return &codeError{code: code, err: errors.New(said)} // not wrapped: the client's error speaks of the server
}

// unansweredCode returns the exit code of a question that nobody has answered: the error's own, if it has one.
func unansweredCode(ctx context.Context, err error) int {
	if coded, has := errors.AsType[*codeError](err); has {
		return coded.code
	}
	if isLimit(ctx) {
		return ExitTimeout
	}
	return ExitFailed
}

// reportOf asks a job for its report. If no worker answers it returns an *unansweredError, soon after pollLimit, and
// the last numbers that are known; it says so if a workflow task of the job fails. If there are workers, they are busy,
// and it asks again, for busyLimit.
func reportOf(ctx context.Context, p *Program, client *jobs.Client, name string) (job.Report, error) {
	report, err := reportWithin(ctx, client.Get(name), pollLimit)
	if err == nil || ctx.Err() != nil {
		return report, err
	}
	failing, _ := failingTask(ctx, client.Get(name)) // nil if that is not known
	if failing == nil && !jobs.Unanswered(err) {
		return report, err
	}
	j, listErr := client.Get(name).Listed(ctx)
	if listErr != nil {
		return report, err
	}
	if failing != nil {
		return report, &unansweredError{name, j, failing.String()}
	}
	if needs := needsOf(ctx, client.Get(name)); needs != "" {
		return report, &unansweredError{name, j, needs + "; " + jobContinues}
	}
	hint, served := p.silent(ctx, client, j.Pool)
	if served {
		if report, err = reportWithin(ctx, client.Get(name), busyLimit); err == nil || !jobs.Unanswered(err) {
			return report, err
		}
	}
	return report, &unansweredError{name, j, hint}
}

// busyLimit is how long a report may take if there are workers.
const busyLimit = 7 * time.Second

func reportWithin(ctx context.Context, run *jobs.Run, limit time.Duration) (job.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return run.Report(ctx)
}

// unansweredError reports that a job runs but no worker answers for it.
type unansweredError struct {
	name string
	job  jobs.Listed
	hint string // what to do
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("job %s is %s, but no worker answers for it: %s", e.name, e.job.State, e.hint)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// printEither prints a value as JSON, or for people.
func printEither[T any](p *Program, asJSON bool, v T, forPeople func(io.Writer, T) error) error {
	if asJSON {
		return printJSON(p.Stdout, v)
	}
	return forPeople(p.Stdout, v)
}

// asking are the flags of a command that asks the server and prints what it says.
type asking struct {
	connection connection
	json       bool
}

func (o *asking) addFlags(fs *pflag.FlagSet) {
	o.connection.addFlags(fs)
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

func jobArg() cobra.PositionalArgs { return wrongArgs(cobra.ExactArgs(1)) }

// since returns the time since t, in whole seconds: it has become more when it is read.
func since(t time.Time) string { return max(0, time.Since(t)).Round(time.Second).String() }
