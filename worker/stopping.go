package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
)

// Stopping returns a channel that is closed when the call should come to its end: its job is being
// stopped, or its worker drained. ctx is the context that the handler was given, or one made of it;
// with any other the channel is nil, and never closed. The context itself ends only when the grace
// period is over. Items that the call has not begun by then are not lost: the handler of [Each] is
// just not called for them.
func Stopping(ctx context.Context) <-chan struct{} { return activities.Stopping(ctx) }

// StopNotice tells why the call should end, and when its context will; false while it need not.
func StopNotice(ctx context.Context) (job.StopNotice, bool) { return activities.StopNotice(ctx) }

// RequestStop asks for a stop of the job whose call ctx belongs to: a plain one where err is nil,
// otherwise one with that error, which makes the job fail if it is the first, and if its type is none
// of the job's clean-stop types. It returns once the server has recorded the wish. A job that has
// ended meanwhile gives a *job.EndedError, which wraps the error.
func RequestStop(ctx context.Context, err error) error {
	stop := job.Stop{Reason: "a handler asked for it"}
	if err != nil {
		fault := activities.FaultOf(err)
		stop = job.Stop{Error: &fault.Err}
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	asked := activities.RequestStop(ctx, stop)
	var ended *job.EndedError
	if err != nil && errors.As(asked, &ended) {
		return fmt.Errorf("%w: %w", asked, err)
	}
	return asked
}
