package timers

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoGuard reports that a context holds no [Guard]: its code does not run under a worker, or the
// worker has not passed it on with [NewContext].
var ErrNoGuard = errors.New("no timers here: the context holds no guard")

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

// AwayError reports that no timer can be held, because nobody would notice its expiry: the watchdog is
// not running, or its last round is too long ago.
type AwayError struct {
	Worker string        // whose client asked
	Scope  string        // what for
	Late   time.Duration // time since the last round; 0: the watchdog is not running
}

func (e *AwayError) Error() string {
	if e.Late == 0 {
		return fmt.Sprintf("scope %s of worker %s: the watchdog is not running", shorten(e.Scope), e.Worker)
	}
	return fmt.Sprintf("scope %s of worker %s: the watchdog has not looked for %v", shorten(e.Scope), e.Worker, e.Late.Round(time.Millisecond))
}

// ExpiredError reports that a timer has expired.
type ExpiredError struct {
	Scope string
	After time.Duration // how long the scope was allowed to last
	Over  time.Duration // how long ago that was
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%s took longer than %v", e.Scope, e.After)
}

// shorten makes a name of any length and content fit for a message.
func shorten(name string) string {
	const most = 60
	if len(name) <= most {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q…", name[:most])
}
