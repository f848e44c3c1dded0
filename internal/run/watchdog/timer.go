package watchdog

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-run/stint/timers"
)

// timer is one holding of a scope. Released ones are used again by their client.
type timer struct {
	client     *Client
	scope      string
	named      bool // it is found by its scope
	after      time.Duration
	signal     syscall.Signal
	reportOnly bool

	// holding identifies this holding among all of the client; 0: none.
	holding  uint64
	deadline time.Duration // on the watchdog's clock
	index    int           // among those that run; -1: it has expired
	expiry   uint64        // how many of the client's timers expired up to this one
	reported bool          // its expiry has been reported
}

// never is later than any deadline.
const never = time.Duration(math.MaxInt64)

// deadline returns when a timer that is acquired now expires.
func deadline(now, after time.Duration) time.Duration {
	after = max(after, 0)
	if after >= never-now {
		return never - 1
	}
	return now + after
}

// running is a heap of timers, the one that expires first on top.
type running []*timer

var _ heap.Interface = (*running)(nil)

func (r running) Len() int { return len(r) }

func (r running) Less(i, j int) bool {
	if r[i].deadline != r[j].deadline {
		return r[i].deadline < r[j].deadline
	}
	return r[i].holding < r[j].holding
}

func (r running) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

// Push takes a timer.
func (r *running) Push(x any) {
	t := x.(*timer)
	t.index = len(*r)
	*r = append(*r, t)
}

// Pop gives the last timer.
func (r *running) Pop() any {
	last := len(*r) - 1
	t := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	t.index = -1
	return t
}

// Acquire holds a timer for the scope, which expires after that time unless it is released before; with after ≤ 0 it
// expires at once. If the scope is held already, its timer is replaced, with deadline and options, even by a later or
// an earlier one. This also saves a timer that has expired, unless the reaping has begun.
//
// Errors: *[timers.AwayError] if the watchdog is away, *[timers.ScopeError] if name or options are wrong or the
// client holds too many timers, *[timers.ClosedError] if the worker is gone. After an error nothing has changed.
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

// Scope is one timer that is acquired and released over and over by a single goroutine, millions of times if need be,
// and watched by another. Acquiring it costs one atomic addition and does not read a clock: the watcher counts a
// scope's time from when it first saw the holding, so a scope expires between its limit and its limit plus one watching
// interval. The zero value is released.
type Scope struct {
	seq atomic.Uint64 // odd while acquired

	// The watcher's own notes.
	seen      uint64
	seenSince time.Time
}

// Acquire starts the scope's countdown anew and returns the number of this holding.
func (s *Scope) Acquire() (held uint64) {
	if s.seq.Load()%2 == 0 {
		return s.seq.Add(1)
	}
	return s.seq.Add(2)
}

// Release ends the countdown. Releasing what is not held does nothing.
func (s *Scope) Release() {
	if s.seq.Load()%2 == 1 {
		s.seq.Add(1)
	}
}

// End releases the scope if it is still in the given holding, and reports whether it was: if two goroutines end the
// same holding, one succeeds.
func (s *Scope) End(held uint64) bool { return held%2 == 1 && s.seq.CompareAndSwap(held, held+1) }

// Watch returns how long the scope has been held at now, as far as its watcher has seen (0 when it
// is released or newly acquired), and a number that identifies this holding. Only one
// goroutine may watch a scope.
func (s *Scope) Watch(now time.Time) (held uint64, age time.Duration) {
	held = s.seq.Load()
	if held != s.seen {
		s.seen, s.seenSince = held, now
		return held, 0
	}
	if held%2 == 0 {
		return held, 0
	}
	return held, now.Sub(s.seenSince)
}

// Held returns the number of the present holding; it is even if the scope is released.
func (s *Scope) Held() uint64 { return s.seq.Load() }

// Holds reports whether the scope is still in the holding that Watch has returned.
func (s *Scope) Holds(held uint64) bool { return s.seq.Load() == held }
