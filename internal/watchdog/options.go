package watchdog

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/timers"
)

// Options tune a watchdog. The zero value of a field means its default.
type Options struct {
	// Interval is the time between rounds, and so how late an expiry may be noticed. Default
	// 100 ms; 1 ms to 1 min.
	Interval time.Duration
	// OnEvent is called with each event, by one goroutine at a time and in order. It may be slow,
	// call the watchdog and its clients, and even panic: rounds do not wait for it, only Stop
	// does, for a limited time. Up to 16,384 events wait for it; more are lost and counted
	// by [Watchdog.Lost]. Default: none.
	OnEvent func(Event)
	// MaxScope is the most bytes of a scope's name. Default 200; 1 to 65,536.
	MaxScope int
	// MaxTimers is the most timers that one client holds at once. Default 10,000; 1 to 1,000,000.
	MaxTimers int
}

const (
	defaultInterval = 100 * time.Millisecond
	minInterval     = time.Millisecond
	maxInterval     = time.Minute

	defaultMaxScope = 200
	mostMaxScope    = 65_536

	defaultMaxTimers = 10_000
	mostMaxTimers    = 1_000_000
)

func (o Options) withDefaults() Options {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.MaxScope == 0 {
		o.MaxScope = defaultMaxScope
	}
	if o.MaxTimers == 0 {
		o.MaxTimers = defaultMaxTimers
	}
	return o
}

// validate expects options with their defaults filled in.
func (o Options) validate() error {
	var errs []error
	if o.Interval < minInterval || o.Interval > maxInterval {
		errs = append(errs, fmt.Errorf("interval %v: use %v to %v", o.Interval, minInterval, maxInterval))
	}
	if o.MaxScope < 1 || o.MaxScope > mostMaxScope {
		errs = append(errs, fmt.Errorf("scope names of up to %d bytes: use 1 to %d", o.MaxScope, mostMaxScope))
	}
	if o.MaxTimers < 1 || o.MaxTimers > mostMaxTimers {
		errs = append(errs, fmt.Errorf("up to %d timers: use 1 to %d", o.MaxTimers, mostMaxTimers))
	}
	return errors.Join(errs...)
}

// maxSignal is the highest signal of any system.
const maxSignal = 64

// check returns an error if a timer cannot be held.
func (o Options) check(t timers.Timer) error {
	switch {
	case t.Named && t.Scope == "":
		return &timers.ScopeError{Reason: fmt.Sprintf("the name is empty: use 1 to %d bytes", o.MaxScope)}
	case t.Named && len(t.Scope) > o.MaxScope:
		return &timers.ScopeError{Scope: t.Scope, Reason: fmt.Sprintf("the name has %d bytes: use 1 to %d", len(t.Scope), o.MaxScope)}
	case t.Signal < 0 || t.Signal > maxSignal:
		return &timers.ScopeError{Scope: t.Scope, Reason: fmt.Sprintf("invalid signal %d: use 1 to %d", int(t.Signal), maxSignal)}
	}
	return nil
}
