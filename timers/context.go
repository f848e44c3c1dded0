package timers

import (
	"context"
	"time"
)

type contextKey struct{}

// Guard holds timers: a worker's client of its watchdog.
type Guard interface {
	// Hold holds a timer that expires after that time unless it is released before. The number identifies this holding. Errors are
	// *[AwayError], *[ScopeError] and *[ClosedError].
	Hold(after time.Duration, t Timer) (h Holding, number uint64, err error)
}

// Holding is where a timer that is held is released.
type Holding interface {
	// Release ends the timer, unless it has ended or was replaced.
	Release(number uint64)
}

// NewContext returns a context that carries a guard, for [Expires] and [Do] in the code that runs under it. A worker does this for its
// handlers.
func NewContext(ctx context.Context, g Guard) context.Context {
	return context.WithValue(ctx, contextKey{}, g)
}

// Expires acquires a timer from the context's guard and returns the function that releases it. If release is not called within
// the time, the worker is reaped.
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

// Do runs fn; if fn does not return within the time, the worker is reaped. It returns fn's error. The timer is released on
// every way out of fn, even a panic. If it cannot be acquired
// (errors as of [Expires]) fn is not run.
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
