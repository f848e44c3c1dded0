package timers

import (
	"errors"
	"fmt"
)

// ErrNoClient reports that a context holds no [Client]: its code does not run under a worker, or the
// worker has not passed the client on with [NewContext].
var ErrNoClient = errors.New("no timers here: the context holds no client")

// ScopeError says why a client does not hold a timer for a scope: the scope's name is empty or too
// long, the client holds too many timers, or the timer's signal does not exist.
type ScopeError struct {
	Scope  string
	Reason string // what is wrong, and what to use
}

func (e *ScopeError) Error() string {
	if e.Scope == "" {
		return "scope: " + e.Reason
	}
	return fmt.Sprintf("scope %s: %s", shorten(e.Scope), e.Reason)
}

// ClosedError reports that a client holds no more timers because its worker is gone.
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

// shorten makes a name of any length and content fit for a message.
func shorten(name string) string {
	const most = 60
	if len(name) <= most {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q…", name[:most])
}
