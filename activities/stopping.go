package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/job"
)

// minderKey is under which a handler's context holds its minder.
type minderKey struct{}

func minderOf(ctx context.Context) *minder {
	m, _ := ctx.Value(minderKey{}).(*minder)
	return m
}

// Stopping returns a channel that is closed when the call of which ctx is the context should end
// because the job or the worker does; nil where ctx is no call's.
func Stopping(ctx context.Context) <-chan struct{} {
	if m := minderOf(ctx); m != nil {
		return m.stopping
	}
	return nil
}

// StopNotice tells why the call should end, and when it will be ended; false while it need not.
func StopNotice(ctx context.Context) (job.StopNotice, bool) {
	m := minderOf(ctx)
	if m == nil {
		return job.StopNotice{}, false
	}
	select {
	case <-m.stopping:
		return m.notice, true
	default:
		return job.StopNotice{}, false
	}
}

// ErrNoCall says that a context is not that of a handler's call.
var ErrNoCall = errors.New("the context is not that of a call: pass on the one that the handler was given")

// RequestStop asks for the stop of the job whose call ctx is the context of.
func RequestStop(ctx context.Context, stop job.Stop) error {
	m := minderOf(ctx)
	if m == nil || m.limits.request == nil {
		return ErrNoCall
	}
	return m.limits.request(context.WithoutCancel(ctx), stop)
}

// errEnded is the cause with which a call is cancelled when its worker must end at once.
var errEnded = errors.New("the worker must end: the grace period of a stop is over")

// errDrained is that cause where the worker itself is about to be gone.
var errDrained = fmt.Errorf("the drain limit is over: %w", errEnded)

// Drained reports whether the cause of a call's cancellation is that its worker is about to be gone: what
// does not end soon then is too late.
func Drained(cause error) bool { return errors.Is(cause, errDrained) }
