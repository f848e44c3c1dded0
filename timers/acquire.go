package timers

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// Acquire holds a timer for the scope, which expires after that time unless it is released before; with after ≤ 0 it expires at
// once. If the scope is held already, its timer is replaced, with deadline and options, even by a later or an earlier one. This
// also saves a timer that has expired, unless the reaping has begun.
//
// Acquire waits only for the answer of another process ([NewRemote]), and for at most a second.
// Errors: *[AwayError] if the watchdog is away, *[ScopeError] if name or options are wrong or the
// client holds too many timers, *[ClosedError] if the worker is gone. After an error nothing has changed, unless the other process has not answered.
func (c *Client) Acquire(scope string, after time.Duration, o ...Option) error {
	t := gather(o)
	t.scope, t.named = scope, true
	_, err := c.hold(after, t)
	return err
}

// Release ends the scope's timer. Releasing what is not held does nothing.
func (c *Client) Release(scope string) {
	if c.remote != nil {
		c.remote.release(scope, 0)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.named[scope]; t != nil {
		c.drop(t)
	}
}

// holding is one timer while it is held.
type holding struct {
	client *Client
	timer  *timer
	number uint64
	scope  string // of a timer that another process holds
}

// release ends the timer, unless it has ended or was replaced.
func (h holding) release() {
	if h.client.remote != nil {
		h.client.remote.release(h.scope, h.number)
		return
	}
	h.client.mu.Lock()
	defer h.client.mu.Unlock()
	if !h.client.closed && h.timer.holding == h.number {
		h.client.drop(h.timer)
	}
}

func (c *Client) hold(after time.Duration, terms terms) (holding, error) {
	if c.remote != nil {
		return c.remote.hold(c, after, terms)
	}
	if err := c.watchdog.options.check(terms); err != nil {
		return holding{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return holding{}, &ClosedError{Worker: c.worker, Reaped: c.reaped}
	}
	now := c.watchdog.now()
	if late, away := c.watchdog.away(now); away {
		return holding{}, &AwayError{Worker: c.worker, Scope: terms.scope, Late: late}
	}
	t, err := c.timer(terms)
	if err != nil {
		return holding{}, err
	}
	c.holdings++
	*t = timer{
		scope: terms.scope, named: terms.named, signal: terms.signal, reportOnly: terms.reportOnly || c.reaper == nil,
		after: after, deadline: deadline(now, after), holding: c.holdings,
	}
	heap.Push(&c.running, t)
	c.plan()
	return holding{client: c, timer: t, number: c.holdings}, nil
}

// timer returns the timer of a named scope that is held, or else a new one. It does not run.
func (c *Client) timer(terms terms) (*timer, error) {
	if terms.named {
		if t := c.named[terms.scope]; t != nil {
			c.take(t)
			return t, nil
		}
	}
	if most := c.watchdog.options.MaxTimers; len(c.running)+len(c.expired) >= most {
		return nil, &ScopeError{Scope: terms.scope, Reason: fmt.Sprintf("%d timers are held already, which is the limit", most)}
	}
	var t *timer
	if last := len(c.spare) - 1; last >= 0 {
		t, c.spare = c.spare[last], c.spare[:last]
	} else {
		t = new(timer)
	}
	if terms.named {
		c.named[terms.scope] = t
	}
	return t, nil
}

// take removes a held timer from those that run or have expired.
func (c *Client) take(t *timer) {
	if t.index >= 0 {
		heap.Remove(&c.running, t.index)
		return
	}
	i := slices.Index(c.expired, t)
	c.expired = slices.Delete(c.expired, i, i+1)
}

// drop ends a held timer.
func (c *Client) drop(t *timer) {
	c.take(t)
	c.forget(t)
	c.plan()
}

// forget clears a timer that has been taken.
func (c *Client) forget(t *timer) {
	if t.named {
		delete(c.named, t.scope)
	}
	*t = timer{}
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, t)
	}
}

// maxSpare is how many released timers are kept for use.
const maxSpare = 64
