package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/stint-run/stint/internal/data/outputs"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/temporal/devserver"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// Resume continues a job of Options.State that was interrupted, stopped or has failed, by its name: with the job's own
// spec, and with h as its handler. It is [Run] without a spec, but never starts a job afresh. Errors: *jobs.EndedError
// if the job has completed, *jobs.NotFoundError if it does not exist. Options.State is required, and Options.Results if
// the job has no output of its own. settings replace those that were in force, if they are set.
func Resume(ctx context.Context, name string, h worker.Handler, settings job.Settings, o Options) (job.Report, error) {
	return again(ctx, name, h, o, func(r *run, ctx context.Context, client *jobs.Client) (*jobs.Run, error) {
		return r.resume(ctx, client, settings)
	})
}

// Redrive runs the failed items of a completed job of Options.State again, with h as their handler, and merges their
// results into the job's output. It also continues a redrive that was interrupted. See [jobs.Client.Redrive] for its
// errors, and [Resume] for the options.
func Redrive(ctx context.Context, name string, h worker.Handler, redrive jobs.RedriveOptions, o Options) (job.Report, error) {
	return again(ctx, name, h, o, func(r *run, ctx context.Context, client *jobs.Client) (*jobs.Run, error) {
		return r.redrive(ctx, client, redrive)
	})
}

// StoreDir returns the directory below a state for the parts of a job whose spec names no store.
func StoreDir(state, name string) string { return filepath.Join(state, "jobs", name) }

func again(ctx context.Context, name string, h worker.Handler, o Options, begin func(*run, context.Context, *jobs.Client) (*jobs.Run, error)) (job.Report, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return job.Report{}, err
	}
	if o.State == "" {
		return job.Report{}, errors.New("no state: set Options.State to that of the job's run")
	}
	r.named = name
	defer r.access.Close()
	r.begin = func(ctx context.Context, client *jobs.Client) (*jobs.Run, error) { return begin(r, ctx, client) }
	dir, err := os.Getwd()
	if err != nil {
		return job.Report{}, fmt.Errorf("finding the working directory: %w", err)
	}
	if err := store.MakeAbsolute(dir, &r.state); err != nil {
		return job.Report{}, err
	}
	if _, err := os.Stat(devserver.StateDir(r.state)); err != nil {
		return job.Report{}, &jobs.NotFoundError{Name: name}
	}
	return r.all(h)
}

// lookUp takes the spec of a job that is continued by its name.
func (r *run) lookUp(ctx context.Context, client *jobs.Client) error {
	if r.named == "" {
		return nil
	}
	spec, err := client.Spec(ctx, r.named)
	if err != nil {
		return err
	}
	if spec.Output == "" && r.o.Results == nil {
		return fmt.Errorf("job %s has no output of its own: set Options.Results", r.named)
	}
	r.spec, r.ownStore = spec, spec.Store == StoreDir(r.state, r.named)
	return nil
}

func (r *run) resume(ctx context.Context, client *jobs.Client, settings job.Settings) (*jobs.Run, error) {
	earlier, err := r.known(ctx, client)
	if err != nil {
		return nil, err
	}
	unprinted, err := r.isUnprinted(ctx, earlier)
	switch {
	case err != nil:
		return nil, err
	case !earlier.State.Final(), r.finished(earlier):
		r.note("continuing %s", r.named)
		running := client.Get(r.named)
		if !settings.IsZero() && !earlier.State.Final() {
			if _, err := running.Set(ctx, settings); err != nil {
				return nil, err
			}
		}
		return running, nil
	case unprinted:
		r.noteUnprinted(ctx, earlier)
		return client.Get(r.named), nil
	case earlier.State == job.Completed:
		return nil, &jobs.EndedError{Name: r.named, State: job.Completed}
	case earlier.Redrive != nil:
		return client.Redrive(ctx, r.named, jobs.RedriveOptions{TaskTimeout: taskTimeout})
	}
	heads, err := client.ResumePoint(ctx, *earlier)
	if err != nil {
		return nil, err
	}
	if len(heads) == 0 && slices.Contains(r.spec.Inputs(), "-") {
		return nil, fmt.Errorf("job %s has to read its standard input again: give its own command again", r.named)
	}
	cleared, err := r.cleared(ctx, heads)
	if err != nil {
		return nil, err
	}
	if cleared {
		return nil, fmt.Errorf("what job %s had done is gone from its store, %s: give its own command again, which starts it afresh",
			r.spec.Name, r.spec.WithDefaults().Store)
	}
	running, err := client.Resume(ctx, r.named, jobs.ResumeOptions{Settings: settings, TaskTimeout: taskTimeout})
	if err != nil || len(heads) > 0 || !r.ownStore {
		return running, err
	}
	return running, r.removeEarlier(running.ID())
}

func (r *run) redrive(ctx context.Context, client *jobs.Client, o jobs.RedriveOptions) (*jobs.Run, error) {
	earlier, err := r.known(ctx, client)
	switch {
	case err != nil:
		return nil, err
	case !earlier.State.Final() && earlier.Redrive != nil, r.finished(earlier) && earlier.Redriven > 0:
		if begun := earlier.Redrive; begun != nil && o.Where != "" && o.Where != begun.Where {
			return nil, &jobs.RedriveBegunError{Name: r.named, Where: begun.Where}
		}
		r.note("continuing the redrive of %s", r.named)
		return client.Get(r.named), nil
	}
	if outputs.SelectsNone(ctx, &r.access, *earlier, o.Where) {
		return nil, &jobs.NothingFailedError{Name: r.named, Where: o.Where}
	}
	o.TaskTimeout = taskTimeout
	return client.Redrive(ctx, r.named, o)
}

// known returns the report of the job that is continued.
func (r *run) known(ctx context.Context, client *jobs.Client) (*job.Report, error) {
	report, err := r.latest(ctx, client)
	if err == nil && report == nil {
		err = &jobs.NotFoundError{Name: r.named}
	}
	if err != nil {
		return nil, err
	}
	complete, err := r.spoolComplete(ctx, *report)
	if err == nil && !complete {
		err = fmt.Errorf("job %s had not read its standard input to the end: give its own command again", r.named)
	}
	return report, err
}
