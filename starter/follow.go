package starter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/job"
)

const (
	pollEvery = 500 * time.Millisecond // where a person looks
	// pollLimit is how long a report may take; without a worker there is none.
	pollLimit = 3 * time.Second
	// answerLimit is how long a job may take to answer an update.
	answerLimit = 10 * time.Second
	// unservedEvery is how often the pool's pollers are looked at, and unservedFirst after how long
	// for the first time: a worker that has just been started takes a moment to be known.
	unservedEvery = 3 * time.Second
	unservedFirst = time.Second
)

// follow shows a job's progress until it has ended, and returns its final report. A job that
// failed is no error: its report says so.
func follow(ctx context.Context, client *job.Client, run *job.Run, pool string, show *progress) (job.Report, error) {
	ended := make(chan struct{})
	var final job.Report
	var finalErr error
	go func() {
		defer close(ended)
		final, finalErr = run.Wait(ctx)
	}()
	defer show.end()
	polls := time.NewTicker(show.every())
	defer polls.Stop()
	looks := time.NewTimer(unservedFirst)
	defer looks.Stop()
	for {
		select {
		case <-ended:
			var failed *job.FailedError
			if errors.As(finalErr, &failed) {
				finalErr = nil
			}
			return final, finalErr
		case <-looks.C:
			noteUnserved(ctx, client, pool, show)
			looks.Reset(unservedEvery)
		case <-polls.C:
			pollCtx, cancel := context.WithTimeout(ctx, pollLimit)
			report, err := run.Report(pollCtx)
			cancel()
			if err == nil && !report.State.Final() {
				show.show(report)
			}
		}
	}
}

// noteUnserved says it when no worker serves the pool.
func noteUnserved(ctx context.Context, client *job.Client, pool string, show *progress) {
	if pool == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	if n, err := client.Pollers(ctx, pool); err == nil && n == 0 {
		show.note("%s", unserved(pool))
	}
}

func unserved(pool string) string {
	return fmt.Sprintf("no worker serves pool %s: start one with 'stint worker --pool %s --exec COMMAND'; the job goes on then", pool, pool)
}

// outcome turns a final report into the exit code that the contract gives it.
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
