package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
)

const (
	// stopsLimit bounds the wait for stops that are under way when the worker starts.
	stopsLimit = 10 * time.Second
	// askedJobs is how many running jobs are asked, the latest ones.
	askedJobs = 100
)

// awaitStops returns once the jobs of the pool have taken in stops that were requested while nobody
// coordinated them. Without it, the first batches that the worker took could be of jobs that are to stop
// (S17): these batches still lie in the pool's queue. It asks each running job for its report, which comes
// after everything that the job has to take in, and waits until the stop has reached the legs.
func (w *Worker) awaitStops(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopsLimit)
	defer cancel()
	jobs := job.NewClientWith(w.client, job.ClientOptions{DataConverter: w.options.DataConverter})
	listed, err := jobs.List(ctx, askedJobs)
	if err != nil {
		return // who cannot be asked now is no reason not to serve
	}
	for _, j := range listed {
		if j.Pool != w.pool || j.State.Final() {
			continue
		}
		report, err := jobs.Get(j.Name).Report(ctx)
		if err != nil || report.State != job.Stopping {
			continue
		}
		for _, leg := range report.OpenLegs {
			w.awaitStop(ctx, leg)
		}
	}
}

// awaitStop returns once a leg has taken in a stop, or has ended.
func (w *Worker) awaitStop(ctx context.Context, leg string) {
	for ctx.Err() == nil {
		if _, stopped := protocol.FindStop(ctx, w.client, w.options.DataConverter, leg, ""); stopped {
			return
		}
		desc, err := w.client.DescribeWorkflowExecution(ctx, leg, "")
		if err == nil && desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return
		}
		select {
		case <-time.After(stopPolls):
		case <-ctx.Done():
		}
	}
}

// stopPolls is how often a leg is looked at.
const stopPolls = 20 * time.Millisecond

// Stopping returns a channel that is closed when the call should end: its job is being stopped, or
// its worker drained. ctx is the context that the handler was given, or one derived from it; for any
// other the channel is nil, and never closed. The context itself ends only when the grace period is
// over. Items that the call has not begun by then are not lost: the handler of [Each] is just not
// called for them.
func Stopping(ctx context.Context) <-chan struct{} { return calls.Stopping(ctx) }

// StopNotice returns why the call should end, and when its context will end. It is not ok while the
// call need not end.
func StopNotice(ctx context.Context) (protocol.StopNotice, bool) { return calls.StopNotice(ctx) }

// RequestStop asks for a stop of the job whose call ctx belongs to: a plain one if err is nil,
// otherwise one with that error, which makes the job fail if it is the first one and its type is not
// one of the job's clean-stop types. It returns once the server has recorded the request. If the job
// has ended meanwhile, it returns a *job.EndedError, which wraps the error.
func RequestStop(ctx context.Context, err error) error {
	stop := job.Stop{Reason: "a handler asked for it"}
	if err != nil {
		fault := calls.FaultOf(err)
		stop = job.Stop{Error: &fault.Err}
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	asked := calls.RequestStop(ctx, stop)
	var ended *job.EndedError
	if err != nil && errors.As(asked, &ended) {
		return fmt.Errorf("%w: %w", asked, err)
	}
	return asked
}
