package timers

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoClient says that a context holds no [Client]: its code does not run under a worker, or the
// worker has not passed the client on with [NewContext].
var ErrNoClient = errors.New("no timers here: the context holds no client")

// AwayError says that no timer can be had, since nobody would notice its expiry: the watchdog is
// not running, or its last round is too long ago (see [Watchdog.Healthy]).
type AwayError struct {
	Worker string        // whose client asked
	Scope  string        // what for
	Late   time.Duration // since the last round; 0: the watchdog is not running
}

func (e *AwayError) Error() string {
	if e.Late == 0 {
		return fmt.Sprintf("scope %s of worker %s: the watchdog is not running", shorten(e.Scope), e.Worker)
	}
	return fmt.Sprintf("scope %s of worker %s: the watchdog has not looked for %v", shorten(e.Scope), e.Worker, e.Late.Round(time.Millisecond))
}

// ScopeError says why a client does not hold a timer for a scope: the scope's name is empty or too
// long, the client holds too many timers, or the timer's signal does not exist.
type ScopeError struct {
	Scope  string
	Reason string // with what would be right
}

func (e *ScopeError) Error() string {
	if e.Scope == "" {
		return "scope: " + e.Reason
	}
	return fmt.Sprintf("scope %s: %s", shorten(e.Scope), e.Reason)
}

// ClosedError says that a client holds no more timers, since its worker is gone.
type ClosedError struct {
	Worker string
	Reaped bool // because a timer had expired
}

func (e *ClosedError) Error() string {
	if e.Reaped {
		return fmt.Sprintf("worker %s holds no timers any more: it was reaped", e.Worker)
	}
	return fmt.Sprintf("worker %s holds no timers any more: it has ended", e.Worker)
}

// shorten makes a name that may be of any length, and hold anything, fit for a message.
func shorten(name string) string {
	const most = 60
	if len(name) <= most {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q…", name[:most])
}
