package starter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
)

// takeOver frees every job of this state from the process that ran it before: as this one holds
// the state's lock, no other is alive.
func (r *running) takeOver(ctx context.Context, client *job.Client, namespace string) error {
	jobs, err := client.List(ctx, maxListed)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.State.Final() {
			continue
		}
		if err := client.Get(j.Name).TakeOver(ctx, namespace); err != nil {
			return fmt.Errorf("taking job %s over: %w", j.Name, err)
		}
	}
	return nil
}

// startOrGoOn starts the job, unless there is one of its name that has not completed.
func (r *running) startOrGoOn(ctx context.Context, client *job.Client) (*job.Run, error) {
	options := job.StartOptions{Fresh: true, TaskTimeout: runTaskTimeout}
	if !r.o.job.fresh {
		earlier, err := r.earlier(ctx, client)
		if err != nil {
			return nil, err
		}
		switch {
		case earlier == nil:
		case !earlier.State.Final():
			r.show.note("going on with %s", r.spec.Name)
			return client.Get(r.spec.Name), nil
		case earlier.Redrive != nil:
			r.show.note("going on with the redrive of %s", r.spec.Name)
			return client.Redrive(ctx, r.spec.Name, job.RedriveOptions{TaskTimeout: runTaskTimeout})
		case earlier.State != job.Completed && len(earlier.Manifests) > 0:
			r.show.note("going on with %s: %s items are done", r.spec.Name, job.Thousands(earlier.Done()))
			options = job.StartOptions{Resume: earlier.Manifests, TaskTimeout: runTaskTimeout}
		}
	}
	run, err := client.StartWith(ctx, r.spec, options)
	if err != nil || !options.Fresh || store.IsPrefix(r.spec.Output) {
		return run, err
	}
	return run, r.removeEarlier(run.ID())
}

// removeEarlier removes what earlier jobs of this name have left in the state: nobody else can
// hold it.
func (r *running) removeEarlier(current string) error {
	entries, err := os.ReadDir(r.spec.Store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != current {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.spec.Store, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("removing what earlier runs have left: %w", err)
	}
	return nil
}

// earlier returns how the job of this name stands, waiting for one that is stopping; nil where
// there is none.
func (r *running) earlier(ctx context.Context, client *job.Client) (*job.Report, error) {
	run := client.Get(r.spec.Name)
	for {
		pollCtx, cancel := context.WithTimeout(ctx, dialLimit)
		report, err := run.Report(pollCtx)
		cancel()
		var none *job.NotFoundError
		switch {
		case errors.As(err, &none):
			return nil, nil
		case err != nil && ctx.Err() == nil && unanswered(err):
			continue // the worker is still on its way
		case err != nil:
			return nil, err
		case report.State != job.Stopping:
			return &report, r.checkSpool(ctx, &report)
		}
		r.show.note("waiting for %s, which is stopping", r.spec.Name)
		if _, err := run.Wait(ctx); err != nil {
			var failed *job.FailedError
			if !errors.As(err, &failed) {
				return nil, err
			}
		}
	}
}

// checkSpool makes a job whose standard input was not read to its end count as completed: it
// cannot go on, and starts afresh.
func (r *running) checkSpool(ctx context.Context, report *job.Report) error {
	if !slices.Contains(r.spec.Input, "-") || report.State == job.Completed {
		return nil
	}
	var access store.Access
	defer access.Close()
	complete, err := activities.StdinComplete(ctx, &access, *report)
	if err != nil {
		return err
	}
	if !complete {
		r.show.note("%s had not read its standard input to the end: starting afresh", r.spec.Name)
		report.State = job.Completed
	}
	return nil
}
