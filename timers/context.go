package timers

import (
	"context"
	"time"
)

type contextKey struct{}

// NewContext returns a context that carries a client, for [Expires] and [Do] in the code that runs
// under it.
func NewContext(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the client that the context carries, if it does.
func FromContext(ctx context.Context) (*Client, bool) {
	c, _ := ctx.Value(contextKey{}).(*Client)
	return c, c != nil
}

// Expires acquires a timer from the context's client and returns the function that releases it. If release is not called within
// the time, the worker is reaped.
//
// Unless it is [Named], the timer's scope is the place that Expires is called from, as
// "file.go#line", and every call has its own timer, in recursion and in several goroutines at the same place, too.
//
// Errors are [ErrNoClient] and those of [Client.Acquire]; the code to be guarded must then not run. release is never nil;
// calling it again does nothing.
func Expires(ctx context.Context, after time.Duration, o ...Option) (release func(), err error) {
	h, err := enter(ctx, after, o)
	if err != nil {
		return func() {}, err
	}
	return h.release, nil
}

// Do runs fn; if fn does not return within the time, the worker is reaped. It returns fn's error. The timer is released on
// every way out of fn, even a panic. If it cannot be acquired
// (errors as of [Expires]) fn is not run.
func Do(ctx context.Context, after time.Duration, fn func(context.Context) error, o ...Option) error {
	h, err := enter(ctx, after, o)
	if err != nil {
		return err
	}
	defer h.release()
	return fn(ctx)
}

// enter must be called by Expires and Do themselves: callSite counts on it.
func enter(ctx context.Context, after time.Duration, o []Option) (holding, error) {
	c, ok := FromContext(ctx)
	if !ok {
		return holding{}, ErrNoClient
	}
	t := gather(o)
	if !t.named {
		t.scope = callSite()
	}
	return c.hold(after, t)
}
