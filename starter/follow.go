package starter

import (
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
)

const (
	pollEvery = 500 * time.Millisecond // while a person looks
	// pollLimit is how long a report may take; without a worker there is none.
	pollLimit = 3 * time.Second
	// answerLimit is how long a job may take to answer an update.
	answerLimit = 10 * time.Second
	// unservedEvery is how often the pool's pollers are checked, and unservedFirst the wait before the first check: the server
	// takes a moment to know a worker that has just been started.
	unservedEvery = 3 * time.Second
	unservedFirst = time.Second
)

// follow shows a job's progress until it has ended, and returns its final report. A job that
// failed is not an error: its report says so.
func follow(ctx context.Context, p *Program, client *jobs.Client, run *jobs.Run, pools []string, show *progress) (job.Report, error) {
	defer show.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looked := trap.Go("looking for workers", func() error {
		lookForWorkers(ctx, p, client, run, pools, show)
		return nil
	})
	report, err := run.Follow(ctx, show.every(), show.show)
	cancel()
	if defect := <-looked; defect != nil {
		return report, defect
	}
	if _, ok := errors.AsType[*jobs.FailedError](err); ok {
		err = nil
	}
	return report, err
}

// outcome returns the exit code of a final report.
func outcome(r job.Report) error {
	switch {
	case r.State == job.Failed:
		return &codeError{code: ExitFailed}
	case r.State == job.Stopped && r.Error != nil: // with work still running
		return &codeError{code: ExitStragglers}
	case r.State == job.Stopped:
		return &codeError{code: ExitStopped}
	case r.Failed > 0:
		return &codeError{code: ExitSomeFailed}
	}
	return nil
}
