package timers

import (
	"errors"
	"fmt"
	"syscall"
	"time"
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

// Option changes a single timer.
type Option struct {
	kind   optionKind
	signal syscall.Signal
	scope  string
}

// An Option is a value and not a function, so that a timer with options costs no allocation.
type optionKind int

const (
	optionNone optionKind = iota
	optionSignal
	optionReport
	optionNamed
)

// WithSignal names the signal, 1 to 64, with which the worker is to be ended if this timer
// expires. Without it, or with 0, the reaper chooses.
func WithSignal(signal syscall.Signal) Option { return Option{kind: optionSignal, signal: signal} }

// ReportOnly makes the timer's expiry an event ([EventExpired]) and nothing else: the worker continues. The timer ends with the event.
func ReportOnly() Option { return Option{kind: optionReport} }

// Named gives the timer of [Expires] or [Do] a scope of that name, instead of the place it is
// called from. Entering a named scope that is held already replaces its timer. [Client.Acquire]
// has its own argument for that and ignores this option.
func Named(scope string) Option { return Option{kind: optionNamed, scope: scope} }

// terms are the options of a timer, applied.
type terms struct {
	signal     syscall.Signal
	reportOnly bool
	scope      string
	named      bool
}

func gather(options []Option) terms {
	var t terms
	for _, o := range options {
		switch o.kind {
		case optionSignal:
			t.signal = o.signal
		case optionReport:
			t.reportOnly = true
		case optionNamed:
			t.scope, t.named = o.scope, true
		}
	}
	return t
}

// maxSignal is the highest signal of any system.
const maxSignal = 64

// check returns an error if the terms are invalid.
func (o Options) check(t terms) error {
	switch {
	case t.named && t.scope == "":
		return &ScopeError{Reason: fmt.Sprintf("the name is empty: use 1 to %d bytes", o.MaxScope)}
	case t.named && len(t.scope) > o.MaxScope:
		return &ScopeError{Scope: t.scope, Reason: fmt.Sprintf("the name has %d bytes: use 1 to %d", len(t.scope), o.MaxScope)}
	case t.signal < 0 || t.signal > maxSignal:
		return &ScopeError{Scope: t.scope, Reason: fmt.Sprintf("invalid signal %d: use 1 to %d", int(t.signal), maxSignal)}
	}
	return nil
}
