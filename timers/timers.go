// Package timers guards code of handlers that may hang, with expiry timers: countdowns for named scopes. Whoever enters
// such code acquires a timer and releases it on the way out ([Do], [Expires]). If it does not get out in time, the
// timer expires: the worker is presumed hung and is reaped, so that its work can be repeated elsewhere. To the worker,
// a timer says "end me unless you hear from me in time".
//
// Three kinds of timer guard a batch, each for what the others cannot see:
//
//   - The batch's expiry is its heartbeat timeout on the server. The worker heartbeats only while its watchdog is
//     healthy and none of the batch's timers has expired. So a worker that hangs, dies or is cut off loses its batches
//     after one expiry, with nobody's help.
//   - The call timeout is a timer around every call of a handler.
//   - A handler guards the risky blocks of its code with its own timers: [Do] and [Expires] here,
//     acquire and release frames in the serve protocol.
//
// One watchdog looks after the timers of all workers of a process, in rounds, every 100 ms. One expired timer condemns
// the worker; once it is reaped all its timers are gone. A timer with [ReportOnly] only raises an event. Times are
// taken from the monotonic clock, as durations from the moment at which a timer is acquired; setting the machine's
// clock changes nothing. If the watchdog is not running, or is late, timers are refused with an [AwayError] at once:
// code that asks to be guarded must not run unguarded without knowing it.
//
// # Source
//
// The idea, and the words timer, scope, acquire, release and reap, are those of torch elastic's expiration timers
// (torch.distributed.elastic.timer). The default scope there names a line of the standard library, the same for all
// callers, so nested scopes end each other's timers; here it is the caller's file and line, and each entering has its
// own timer, under recursion and in several goroutines too. A client whose server is away does not notice there
// (queue), or notices after a second (named pipe); here it gets an error at once.
package timers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type contextKey struct{}

// Guard holds timers: a worker's client of its watchdog.
type Guard interface {
	// Hold holds a timer that expires after that time unless it is released before. The number identifies this holding.
	// Errors are *[AwayError], *[ScopeError] and *[ClosedError].
	Hold(after time.Duration, t Timer) (h Holding, number uint64, err error)
}

// Holding is where a timer that is held is released.
type Holding interface {
	// Release ends the timer, unless it has ended or was replaced.
	Release(number uint64)
}

// NewContext returns a context that carries a guard, for [Expires] and [Do] in the code that runs under it. A worker
// does this for its handlers.
func NewContext(ctx context.Context, g Guard) context.Context {
	return context.WithValue(ctx, contextKey{}, g)
}

// Expires acquires a timer from the context's guard and returns the function that releases it. If release is not called
// within the time, the worker is reaped.
//
// Unless it is [Named], the timer's scope is the place that Expires is called from, as
// "file.go#line", and every call has its own timer, in recursion and in several goroutines at the same place, too.
//
// Errors are [ErrNoGuard] and those of [Guard]; the code to be guarded must then not run. release is never nil;
// calling it again does nothing.
func Expires(ctx context.Context, after time.Duration, o ...Option) (release func(), err error) {
	h, number, err := enter(ctx, after, o)
	if err != nil {
		return func() {}, err
	}
	return func() { h.Release(number) }, nil
}

// Do runs fn; if fn does not return within the time, the worker is reaped. It returns fn's error. The timer is released
// on every way out of fn, even a panic. If it cannot be acquired (errors as of [Expires]) fn is not run.
func Do(ctx context.Context, after time.Duration, fn func(context.Context) error, o ...Option) error {
	h, number, err := enter(ctx, after, o)
	if err != nil {
		return err
	}
	defer h.Release(number)
	return fn(ctx)
}

// enter must be called by Expires and Do themselves: callSite counts on it.
func enter(ctx context.Context, after time.Duration, o []Option) (Holding, uint64, error) {
	g, ok := ctx.Value(contextKey{}).(Guard)
	if !ok {
		return nil, 0, ErrNoGuard
	}
	var t Timer
	for _, option := range o {
		option.Apply(&t)
	}
	if !t.Named {
		t.Scope = callSite()
	}
	return g.Hold(after, t)
}

// sites are the places that timers have been acquired from, by program counter. There are few, so
// a new one is added to a copy, and finding one takes no lock.
var (
	sites    atomic.Pointer[map[uintptr]string]
	addSites sync.Mutex
)

// callSite returns the place that Expires or Do was called from.
func callSite() string {
	const skip = 4 // runtime.Callers, callSite, enter, Expires or Do; inlined or not
	var pc [1]uintptr
	if runtime.Callers(skip, pc[:]) == 0 {
		return "unknown"
	}
	if known := sites.Load(); known != nil {
		if site, ok := (*known)[pc[0]]; ok {
			return site
		}
	}
	return addSite(pc[0])
}

func addSite(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	site := fmt.Sprintf("%s#%d", path.Base(frame.File), frame.Line)
	addSites.Lock()
	defer addSites.Unlock()
	all := map[uintptr]string{pc: site}
	if known := sites.Load(); known != nil {
		maps.Copy(all, *known)
	}
	sites.Store(&all)
	return site
}

// Timer is what a timer is held for.
type Timer struct {
	Scope      string
	Named      bool           // a scope of that name that is held already has its timer replaced
	Signal     syscall.Signal // with which the worker is ended; 0: the reaper chooses
	ReportOnly bool
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
	optionSignal optionKind = iota + 1
	optionReport
	optionNamed
)

// WithSignal names the signal, 1 to 64, with which the worker is to be ended if this timer
// expires. Without it, or with 0, the reaper chooses.
func WithSignal(signal syscall.Signal) Option { return Option{kind: optionSignal, signal: signal} }

// ReportOnly makes the timer's expiry an event and nothing else: the worker continues. The timer ends with the event.
func ReportOnly() Option { return Option{kind: optionReport} }

// Named gives the timer of [Expires] or [Do] a scope of that name, instead of the place it is
// called from. Entering a named scope that is held already replaces its timer.
func Named(scope string) Option { return Option{kind: optionNamed, scope: scope} }

// Apply changes the timer.
func (o Option) Apply(t *Timer) {
	switch o.kind {
	case optionSignal:
		t.Signal = o.signal
	case optionReport:
		t.ReportOnly = true
	case optionNamed:
		t.Scope, t.Named = o.scope, true
	}
}

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
