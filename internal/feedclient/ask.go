package feedclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/trap"
)

const (
	// attemptLimit is how long an attempt lasts, beyond what the feed may wait. An attempt that has had no answer by then
	// is repeated; the server knows it by its ID. It is also the time between two looks for a worker.
	attemptLimit = 3 * time.Second
	// unservedAfter is how many looks in a row must find no worker before callers get an error.
	unservedAfter = 2
	backoffFirst  = 50 * time.Millisecond
	backoffMost   = 2 * time.Second
)

// asking is one request that is repeated until its outcome is known.
type asking struct {
	wait time.Duration // that the feed may take over it
	try  func(context.Context) error
	// unserved is called when no worker is there to answer. If it returns true, the request is given up.
	unserved func() bool
	// needless reports whether nobody cares for the outcome any more. It may be nil.
	needless func() bool
}

// ask repeats a request, with its ID and at its leg, until its outcome is known, or the context ends. The error is then the
// context's cause, [ErrUnserved], or what the last attempt has ended with.
func (c *Client) ask(ctx context.Context, a asking) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.watch(ctx, a, cancel)()
	for tries := 1; ; tries++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		limited, cancel := context.WithTimeout(ctx, a.wait+attemptLimit)
		err := a.try(limited)
		late := limited.Err() != nil
		cancel()
		if known(err) {
			return err
		}
		if ctx.Err() == nil && a.needless != nil && a.needless() {
			return err
		}
		if !late {
			_ = pause(ctx, tries)
		}
	}
}

// watch looks, while a request has no answer, whether a worker is there to give one. It returns how to end that.
func (c *Client) watch(ctx context.Context, a asking, cancel context.CancelCauseFunc) func() {
	look := func() {
		for alone := 0; ctx.Err() == nil; backoff.Wait(attemptLimit, ctx.Done()) {
			if alone++; !c.unservedNow(ctx) {
				alone = 0
			}
			if alone >= unservedAfter && a.unserved() {
				cancel(ErrUnserved)
			}
		}
	}
	timer := trap.After(attemptLimit, "looking whether a feed is served", c.shut, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spawn(look)
	})
	return func() { timer.Stop() }
}

// unservedNow reports whether it is certain that no worker serves the feed's pool.
func (c *Client) unservedNow(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	served, err := c.legs.Served(ctx)
	return err == nil && !served
}

// pause waits before the next of several tries: between half of a time that doubles, and all of it.
func pause(ctx context.Context, tries int) error {
	d := backoffFirst << min(tries-1, 10)
	d = min(d, backoffMost)
	backoff.Wait(d/2+rand.N(d/2), ctx.Done()) //nolint:gosec // not a secret
	return ctx.Err()
}

// either returns a context that ends with ctx, or when the client is released.
func (c *Client) either(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.ctx.Err() != nil {
		cancel(context.Cause(c.ctx))
	}
	stop := trap.OnDone(c.ctx, "releasing a feed's client", c.shut, func() { cancel(context.Cause(c.ctx)) })
	return ctx, func() { stop(); cancel(errors.New("done")) }
}
