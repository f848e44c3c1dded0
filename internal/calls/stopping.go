package calls

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// watchKey is under which a handler's context holds its watch.
type watchKey struct{}

func watchOf(ctx context.Context) *Watch {
	m, _ := ctx.Value(watchKey{}).(*Watch)
	return m
}

// Stopping returns a channel that is closed when the call of which ctx is the context should end
// because the job or the worker does; nil if ctx is not a call's.
func Stopping(ctx context.Context) <-chan struct{} {
	if m := watchOf(ctx); m != nil {
		return m.stopping
	}
	return nil
}

// StopNotice returns why the call should end, and when it will be ended; false while it need not. While the server is asked for
// that, it waits; false if ctx ends meanwhile.
func StopNotice(ctx context.Context) (wire.StopNotice, bool) {
	m := watchOf(ctx)
	if m == nil || !closed(m.stopping) {
		return wire.StopNotice{}, false
	}
	select {
	case <-m.noticed:
	case <-ctx.Done():
	case <-m.done: // the call is over
	}
	if !closed(m.noticed) {
		return wire.StopNotice{}, false
	}
	return m.notice, true
}

// ErrNoCall says that a context is not that of a handler's call.
var ErrNoCall = errors.New("the context is not that of a call: pass on the one that the handler was given")

// RequestStop asks for the stop of the job whose call ctx is the context of.
func RequestStop(ctx context.Context, stop job.Stop) error {
	m := watchOf(ctx)
	if m == nil || m.limits.Request == nil {
		return ErrNoCall
	}
	return m.limits.Request(context.WithoutCancel(ctx), stop)
}

// ErrEnded is the cause with which a call is cancelled when its worker must end at once.
var ErrEnded = errors.New("the worker must end: the grace period of a stop is over")

// errDrained is that cause if the worker itself is about to be gone.
var errDrained = fmt.Errorf("the drain limit is over: %w", ErrEnded)

// Drained reports whether the cause of a call's cancellation is that its worker is about to be gone: what
// does not end soon then is too late.
func Drained(cause error) bool { return errors.Is(cause, errDrained) }
