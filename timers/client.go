package timers

import (
	"container/heap"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Client holds the timers of one worker; make it with [Watchdog.Client], or, in a worker that is a
// separate process, with [NewRemote]. It is safe for concurrent use. Scopes of
// different clients are independent.
type Client struct {
	watchdog *Watchdog
	worker   string
	reaper   Reaper
	remote   *remote // set if another process holds the timers; nothing below is then used

	// next is when a round has to look at this client, so that rounds need no lock for the others.
	next atomic.Int64
	// index is its place among the watchdog's clients, under the watchdog's lock; -1: none.
	index int

	mu       sync.Mutex
	named    map[string]*timer
	running  running
	expired  []*timer // held still, in the order in which they were noticed; none is report only
	spare    []*timer
	holdings uint64 // ever
	expiries uint64 // ever
	reaping  bool   // settling, too
	settling bool
	closed   bool
	reaped   bool
}

// maxSpare is how many released timers are kept for use.
const maxSpare = 64

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

// Clear releases all timers that the client holds.
func (c *Client) Clear() {
	if c.remote != nil {
		c.remote.clear()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.running) > 0 {
		c.drop(c.running[0])
	}
	for len(c.expired) > 0 {
		c.drop(c.expired[0])
	}
}

// Held is how many timers the client holds, expired ones too.
func (c *Client) Held() int {
	if c.remote != nil {
		return c.remote.count()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running) + len(c.expired)
}

// Condemned reports whether the worker will be reaped: a round has found an expired timer, and it has not been released since.
func (c *Client) Condemned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.expired) > 0
}

// Close records that the worker has ended: all its timers end, and no more can be acquired. It does not
// wait for a reaping that is under way, and may be called from it. It is idempotent. A client that
// is not needed any more must be closed, unless its worker was reaped.
func (c *Client) Close() {
	if c.remote != nil {
		c.remote.close()
		return
	}
	c.end(false)
}

func (c *Client) end(reaped bool) {
	c.mu.Lock()
	c.closed = true
	c.reaped = c.reaped || reaped
	c.named, c.running, c.expired, c.spare = nil, nil, nil, nil
	c.plan()
	c.mu.Unlock()
	c.watchdog.remove(c)
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

// plan notes when a round has to look at the client next.
func (c *Client) plan() {
	next := never
	switch {
	case len(c.expired) > 0:
		next = 0
	case len(c.running) > 0:
		next = c.running[0].deadline
	}
	if c.next.Load() != int64(next) {
		c.next.Store(int64(next))
	}
}
