package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.temporal.io/api/serviceerror"
	sdkclient "go.temporal.io/sdk/client"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/inputs"
	"github.com/stint-run/stint/internal/data/ledger"
	"github.com/stint-run/stint/internal/data/reuse"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/temporal/orphans"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

const (
	// taskTimeout is how long a workflow task that a killed process held stays held.
	taskTimeout = 2 * time.Second
	// reportLimit is how long an earlier job may take to answer before the next try.
	reportLimit = 5 * time.Second
	// maxTakenOver is how many jobs of a state are looked at, the latest ones.
	maxTakenOver = 1000
)

// takeOver frees every job of this state from the process that ran it before: this process holds the state's lock, so
// that process has ended.
func (r *run) takeOver(ctx context.Context, c sdkclient.Client, client *jobs.Client, namespace string) error {
	listed, err := client.List(ctx, maxTakenOver, nil)
	if err != nil {
		return err
	}
	for _, j := range listed {
		if j.State.Final() {
			continue
		}
		running, err := orphans.End(ctx, c, namespace, j.Name)
		if err != nil {
			return fmt.Errorf("taking job %s over: %w", j.Name, err)
		}
		r.tookOver = r.tookOver || running && j.Name == r.spec.Name
	}
	return nil
}

// startOrContinue starts the job, unless there is one of its name that has not completed.
func (r *run) startOrContinue(ctx context.Context, client *jobs.Client) (*jobs.Run, error) {
	options := jobs.StartOptions{Fresh: true, TaskTimeout: taskTimeout}
	if !r.o.Fresh {
		earlier, err := r.earlier(ctx, client)
		if err != nil {
			return nil, err
		}
		unprinted, err := r.isUnprinted(ctx, earlier)
		if err != nil {
			return nil, err
		}
		switch {
		case earlier == nil:
		case unprinted:
			r.noteUnprinted(ctx, earlier)
			return client.Get(r.spec.Name), nil
		case !earlier.State.Final(), r.finished(earlier):
			r.note("continuing %s", r.spec.Name)
			r.giveStdin(earlier.Run)
			running := client.Get(r.spec.Name)
			return running, r.bringUp(ctx, client, running, earlier)
		case earlier.Redrive != nil:
			r.note("continuing the redrive of %s", r.spec.Name)
			return client.Redrive(ctx, r.spec.Name, jobs.RedriveOptions{TaskTimeout: taskTimeout})
		case earlier.State != job.Completed:
			heads, err := client.ResumePoint(ctx, *earlier)
			if err != nil {
				return nil, err
			}
			cleared, err := r.cleared(ctx, heads)
			if err != nil {
				return nil, err
			}
			if cleared {
				r.note("what %s had done is gone from its store: starting afresh", r.spec.Name)
				break
			}
			options.Spent, options.Lost, options.Samples = earlier.Usage, earlier.LostUsage, earlier.Samples
			if options.Earlier, err = client.EarlierRuns(ctx, *earlier); err != nil {
				return nil, err
			}
			if options.Root, err = client.RootRun(ctx, *earlier); err != nil {
				return nil, err
			}
			switch {
			case len(heads) == 0 && earlier.Failed > 0:
				r.note("starting %s again: all of its items had failed", r.spec.Name)
			case len(heads) > 0 && !slices.Equal(heads, earlier.Manifests):
				r.note("continuing %s from before the run in which nothing worked", r.spec.Name)
			case len(heads) > 0:
				r.note("continuing %s: %s already done", r.spec.Name, text.Count(earlier.Done(), "item"))
			}
			if len(heads) > 0 {
				options.Fresh, options.Resume = false, heads
			}
		}
	}
	run, err := client.Start(ctx, r.spec, &options)
	if err == nil {
		r.giveStdin(run.ID())
	}
	if err != nil || !options.Fresh || !r.ownStore {
		return run, err
	}
	return run, r.removeEarlier(run.ID())
}

// finished reports whether the job is one that this process has taken over, and that has completed before it was looked
// at: it is the one to continue, and not run afresh.
func (r *run) finished(report *job.Report) bool { return r.tookOver && report.State == job.Completed }

// giveStdin lets a run read the standard input. An earlier job may have been on the worker since it began.
func (r *run) giveStdin(run string) {
	if r.stdin != nil {
		r.stdin.For(run)
	}
}

// removeEarlier removes what earlier jobs of this name have left in the state, which nobody else uses. The workers of
// this process may still write parts of an earlier run, whose batches they took up before this one replaced it: what
// they write meanwhile is removed when they have ended (removeLeft).
func (r *run) removeEarlier(current string) error {
	r.replaces = current
	err := r.removeOthers(current)
	if filledMeanwhile(err) {
		return nil
	}
	return err
}

// filledMeanwhile reports whether a directory could not be removed because somebody has put a file into it.
func filledMeanwhile(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist)
}

// removeLeft removes what removeEarlier had to leave. Nobody writes there any more.
func (r *run) removeLeft() {
	if r.replaces == "" {
		return
	}
	if err := r.removeOthers(r.replaces); err != nil {
		r.note("%v", err)
	}
}

func (r *run) removeOthers(current string) error {
	entries, err := os.ReadDir(r.spec.Store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != current && e.Name() != path.Clean(reuse.Folder) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.spec.Store, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("removing what earlier runs have left: %w", err)
	}
	return nil
}

// earlier returns the report of the job of this name, nil if there is none that can continue: one that has not read its
// standard input to the end cannot. It waits for one that is stopping, until the caller's context ends.
func (r *run) earlier(ctx context.Context, client *jobs.Client) (*job.Report, error) {
	report, err := r.latest(ctx, client)
	if err != nil || report == nil {
		return nil, err
	}
	complete, err := r.spoolComplete(ctx, *report)
	if err != nil {
		return nil, err
	}
	if !complete {
		r.note("%s had not read its standard input to the end: starting afresh", r.spec.Name)
		return nil, nil
	}
	return report, nil
}

// latest returns the report of the job of this name once it is not stopping, nil if there is none.
func (r *run) latest(ctx context.Context, client *jobs.Client) (*job.Report, error) {
	run := client.Get(r.spec.Name)
	for {
		pollCtx, cancel := context.WithTimeout(ctx, reportLimit)
		report, err := run.Report(pollCtx)
		cancel()
		switch {
		case errors.As(err, new(*jobs.NotFoundError)):
			return nil, nil
		case err != nil && ctx.Err() == nil && jobs.Unanswered(err):
			continue // the worker is still on its way
		case err != nil:
			return nil, r.explain(err)
		case report.State != job.Stopping:
			return &report, nil
		}
		r.note("waiting for %s, which is stopping", r.spec.Name)
		if err := r.waitFor(ctx, run); err != nil {
			return nil, err
		}
	}
}

// waitFor waits for a job that is stopping, however it ends.
func (r *run) waitFor(ctx context.Context, stopping *jobs.Run) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer trap.OnDone(r.ctx, "ending a run", nil, func() { cancel(context.Cause(r.ctx)) })()
	_, err := stopping.Wait(ctx)
	switch {
	case err == nil || errors.As(err, new(*jobs.FailedError)):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for job %s, which is stopping: %w", r.spec.Name, context.Cause(ctx))
	}
	return err
}

func (r *run) note(format string, args ...any) { r.o.Note(fmt.Sprintf(format, args...)) }

// spoolComplete reports whether the job can do without its standard input: it has none, or has read it to its end.
func (r *run) spoolComplete(ctx context.Context, report job.Report) (bool, error) {
	if !slices.Contains(r.spec.Inputs(), "-") || report.State == job.Completed || report.Redrive != nil {
		return true, nil
	}
	complete := false
	err := r.throughOutage(ctx, func() (err error) {
		complete, err = inputs.StdinComplete(ctx, &r.access, report)
		return err
	})
	return complete, err
}

// cleared reports whether somebody has removed what a job had done from its store: one of the manifests that it would
// continue from, or what that needs.
func (r *run) cleared(ctx context.Context, heads []string) (cleared bool, err error) {
	err = r.throughOutage(ctx, func() error {
		cleared, err = r.lacks(ctx, heads)
		return err
	})
	return cleared, err
}

// lacks is cleared, without waiting for a store that cannot be used for now.
func (r *run) lacks(ctx context.Context, heads []string) (bool, error) {
	dir, err := r.access.Open(ctx, r.spec.WithDefaults().Store)
	if err != nil {
		return false, err
	}
	for _, key := range heads {
		head, err := ledger.ReadHead(ctx, dir, key)
		if err == nil && head.Sources != "" {
			_, err = dir.Stat(ctx, head.Sources)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// explain says what to do about the error of asking a job that another version of stint has begun, and this one cannot
// read.
func (r *run) explain(err error) error {
	if _, failing := errors.AsType[*serviceerror.WorkflowNotReady](err); !failing {
		return err
	}
	return fmt.Errorf("job %s was begun by another version of stint, which this one cannot continue: use that version, or start the job anew with --fresh, or name another --state: %w",
		r.spec.Name, err)
}

const (
	// outageLimit is how long this process itself waits for a store, or the host of an input, that cannot be used for
	// now. A job waits longer: see [job.Outage].
	outageLimit = time.Minute
	// outageDelay is the first wait between two tries; it doubles up to maxOutageDelay.
	outageDelay    = time.Second
	maxOutageDelay = 10 * time.Second
)

// throughOutage calls look, which reads from a store or looks at inputs, until that is no longer kept from it by a
// fault that may pass, or outageLimit is over. It returns the error of the last try.
func (r *run) throughOutage(ctx context.Context, look func() error) error {
	began := time.Now()
	ended := r.ctx.Done() // by the first request to end
	for tries := 1; ; tries++ {
		err := look()
		_, ofStore := errors.AsType[*store.OpError](err)
		switch {
		case !ofStore || store.Permanent(err):
			return err
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case ctx.Err() != nil:
			return err
		}
		wait := backoff.Delay(outageDelay, tries, maxOutageDelay)
		if time.Since(began)+wait > outageLimit {
			return err
		}
		if tries == 1 {
			r.note("waiting up to %v: %v", outageLimit, err)
		}
		if !backoff.Wait(wait, ended) {
			return context.Cause(r.ctx)
		}
	}
}
