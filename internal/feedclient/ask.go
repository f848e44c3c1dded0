package feedclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/wire"
)

const (
	// attemptLimit is how long an attempt lasts, beyond what the feed may wait. An attempt that has had no answer by
	// then is repeated; the server knows it by its ID. It is also the time between two looks for a worker.
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

// ask repeats a request, with its ID and at its leg, until its outcome is known, or the context ends. The error is then
// the context's cause, [ErrUnserved], or what the last attempt has ended with.
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

// seekAfter looks for the successor of a leg that takes no more items, the number of which may be known (0: it is not).
// The lock is held.
func (c *Client) seekAfter(l *leg, number int) {
	if c.open != l {
		return // that has been found already
	}
	c.open = nil
	c.seek(l, number)
}

// seek finds the leg that takes items, which is not the stale one. The lock is held.
func (c *Client) seek(stale *leg, number int) {
	if c.seeking {
		return
	}
	c.seeking = true
	c.spawn(func() {
		found, err := c.locate(c.ctx, stale, number)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seeking = false
		switch {
		case c.released:
		case err != nil:
			c.failQueued(callersError(err))
		default:
			c.open = c.legOf(found)
		}
		c.pump()
	})
}

// callersError returns what callers get if there is no leg to send to.
func callersError(err error) error {
	if ended, ok := errors.AsType[*EndedError](err); ok {
		return ended.Err
	}
	return err
}

// locate returns the leg that takes items, which is not the stale one unless that is not known to have ended. It
// repeats until that is known, or the context ends. Errors: *EndedError, *FatalError, ErrUnserved, the context's cause.
func (c *Client) locate(ctx context.Context, stale *leg, number int) (Leg, error) {
	checked, alone := time.Now(), 0
	for tries := 1; ; tries++ {
		limited, cancel := context.WithTimeout(ctx, attemptLimit)
		found, err := c.look(limited, number)
		cancel()
		switch {
		case err == nil && (stale == nil || found != stale.Leg || tries > staleTries && !c.hasEnded(stale)):
			return found, nil
		case errors.As(err, new(*EndedError)), errors.As(err, new(*FatalError)):
			return Leg{}, err
		case errors.Is(err, ErrGone) && tries >= staleTries:
			number = 0 // the number is of no use: a job that has been started anew begins with another
		}
		if time.Since(checked) > attemptLimit {
			checked = time.Now()
			if alone++; !c.unservedNow(ctx) {
				alone = 0
			}
			if alone >= unservedAfter {
				return Leg{}, ErrUnserved
			}
		}
		if pause(ctx, tries) != nil {
			return Leg{}, context.Cause(ctx)
		}
	}
}

// staleTries is how often a look-up may return what is known to be out of date: the next leg stands by before the job
// names it.
const staleTries = 3

func (c *Client) look(ctx context.Context, number int) (Leg, error) {
	if number > 0 {
		return c.legs.Find(ctx, number)
	}
	return c.legs.Open(ctx)
}

func (c *Client) hasEnded(l *leg) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.gone
}

// gone takes note that a leg's run has ended. The lock is held.
func (c *Client) gone(l *leg) {
	l.gone = true
	c.seekAfter(l, 0)
}

// over takes note that a leg has ended its work before all its items had been done, for the reason that it gives. The
// lock is held.
func (c *Client) over(l *leg, reason string) {
	l.over = reason
	if c.open == l {
		c.open = nil
	}
}

// wake wakes those that wait for results of a leg that has ended, once no answer is under way that may bring them. The
// lock is held.
func (c *Client) wake(l *leg) {
	if !l.gone && l.over == "" || len(l.under) > 0 || len(l.waiters) == 0 {
		return
	}
	lists := make([]*List, 0, len(l.waiters))
	for item, w := range l.waiters {
		delete(l.waiters, item)
		lists = append(lists, w)
	}
	if l.gone {
		c.orphan(l.Leg, lists)
		return
	}
	reason := l.over
	l.over = ""
	c.spawn(func() {
		err := c.legs.Ended(c.ctx, reason)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, w := range lists {
			w.fail(err)
		}
	})
}

// orphan ends lists whose leg has ended without giving them a result: with the feed's own end if it has ended;
// otherwise their outcome is in its output. The lock is held.
func (c *Client) orphan(l Leg, lists []*List) {
	stale := &leg{Leg: l, gone: true}
	c.spawn(func() {
		_, err := c.locate(c.ctx, stale, 0)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, w := range lists {
			if w.phase == settled {
				continue
			}
			if err != nil {
				w.fail(callersError(err))
				continue
			}
			if w.phase == sent {
				w.phase = taken
				close(w.accepted)
			}
			w.finish(wire.ItemResult{Item: w.item, Session: w.session, Stored: true})
		}
	})
}
