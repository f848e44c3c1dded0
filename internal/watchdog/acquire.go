package watchdog

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/timers"
)

// Acquire holds a timer for the scope, which expires after that time unless it is released before; with after ≤ 0 it expires at
// once. If the scope is held already, its timer is replaced, with deadline and options, even by a later or an earlier one. This
// also saves a timer that has expired, unless the reaping has begun.
//
// Acquire waits only for the answer of another process ([NewRemote]), and for at most a second.
// Errors: *[timers.AwayError] if the watchdog is away, *[timers.ScopeError] if name or options are wrong or the
// client holds too many timers, *[timers.ClosedError] if the worker is gone. After an error nothing has changed, unless the other process has not answered.
func (c *Client) Acquire(scope string, after time.Duration, o ...timers.Option) error {
	var t timers.Timer
	for _, option := range o {
		option.Apply(&t)
	}
	t.Scope, t.Named = scope, true
	_, _, err := c.Hold(after, t)
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

// Release ends the timer, unless it has ended or was replaced.
func (t *timer) Release(number uint64) {
	c := t.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && t.holding == number {
		c.drop(t)
	}
}

// Hold is that of [timers.Guard].
func (c *Client) Hold(after time.Duration, hold timers.Timer) (timers.Holding, uint64, error) {
	if c.remote != nil {
		return c.remote.hold(c, after, hold)
	}
	if err := c.watchdog.options.check(hold); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, &timers.ClosedError{Worker: c.worker, Reaped: c.reaped}
	}
	now := c.watchdog.now()
	if late, away := c.watchdog.away(now); away {
		return nil, 0, &timers.AwayError{Worker: c.worker, Scope: hold.Scope, Late: late}
	}
	t, err := c.timer(hold)
	if err != nil {
		return nil, 0, err
	}
	c.holdings++
	*t = timer{
		client: c, scope: hold.Scope, named: hold.Named, signal: hold.Signal, reportOnly: hold.ReportOnly || c.reaper == nil,
		after: after, deadline: deadline(now, after), holding: c.holdings,
	}
	heap.Push(&c.running, t)
	c.plan()
	return t, c.holdings, nil
}

// timer returns the timer of a named scope that is held, or else a new one. It does not run.
func (c *Client) timer(hold timers.Timer) (*timer, error) {
	if hold.Named {
		if t := c.named[hold.Scope]; t != nil {
			c.take(t)
			return t, nil
		}
	}
	if most := c.watchdog.options.MaxTimers; len(c.running)+len(c.expired) >= most {
		return nil, &timers.ScopeError{Scope: hold.Scope, Reason: fmt.Sprintf("%d timers are held already, which is the limit", most)}
	}
	var t *timer
	if last := len(c.spare) - 1; last >= 0 {
		t, c.spare = c.spare[last], c.spare[:last]
	} else {
		t = &timer{client: c}
	}
	if hold.Named {
		c.named[hold.Scope] = t
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
	*t = timer{client: c}
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, t)
	}
}

// maxSpare is how many released timers are kept for use.
const maxSpare = 64
