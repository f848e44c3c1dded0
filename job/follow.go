package job

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/stint-run/stint/internal/trap"
)

// followLimit is how long a report may take while a job is followed.
const followLimit = 3 * time.Second

// Follow is [Run.Wait], and reports meanwhile how the job stands: about every interval, which must be
// above 0, it calls progress with a report, until the job has ended. progress is never called twice
// at a time. A report that takes longer than three seconds is left out: no worker answers for the job.
func (r *Run) Follow(ctx context.Context, interval time.Duration, progress func(Report)) (Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reported := trap.Go("reporting on a job", func() error {
		r.reportEvery(ctx, interval, progress)
		return nil
	})
	report, err := r.Wait(ctx)
	cancel()
	if defect := <-reported; err == nil {
		err = defect
	}
	return report, err
}

func (r *Run) reportEvery(ctx context.Context, interval time.Duration, progress func(Report)) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		limited, cancel := context.WithTimeout(ctx, followLimit)
		report, err := r.Report(limited)
		cancel()
		if err == nil && !report.State.Final() && ctx.Err() == nil {
			progress(report)
		}
	}
}

// Unanswered reports whether an error says that nobody answered in time: no worker is there, or it is
// still starting.
func Unanswered(err error) bool {
	var late *serviceerror.DeadlineExceeded       // the server's patience may end a little before the caller's
	var unpolled *serviceerror.FailedPrecondition // no worker has polled lately
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) || errors.As(err, &unpolled)
}
