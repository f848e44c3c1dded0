package watchdog

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Client holds the timers of one worker; make it with [Watchdog.Client]. It is safe for concurrent use. Scopes of
// different clients are independent.
type Client struct {
	watchdog *Watchdog
	worker   string
	reaper   Reaper

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

// Clear releases all timers that the client holds.
func (c *Client) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.running) > 0 {
		c.drop(c.running[0])
	}
	for len(c.expired) > 0 {
		c.drop(c.expired[0])
	}
}

// Held returns how many timers the client holds, expired ones too.
func (c *Client) Held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running) + len(c.expired)
}

// Condemned reports whether the worker will be reaped: a round has found an expired timer, and it has not been released
// since.
func (c *Client) Condemned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.expired) > 0
}

// Close records that the worker has ended: all its timers end, and no more can be acquired. It does not
// wait for a reaping that is under way, and may be called from it. It is idempotent. A client that
// is not needed any more must be closed, unless its worker was reaped.
func (c *Client) Close() {
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

// Held is a timer that is held.
type Held struct {
	Worker   string        `json:"worker"` // as the client's was named
	Scope    string        `json:"scope"`
	After    time.Duration `json:"after"` // nanoseconds
	Deadline time.Time     `json:"deadline"`
}

// Timers returns the timers that the client holds, expired ones too, the earliest deadline first.
func (c *Client) Timers() []Held {
	now, wall := c.watchdog.now(), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var held []Held
	for _, t := range slices.Concat(c.expired, c.running) {
		held = append(held, Held{Worker: c.worker, Scope: t.scope, After: t.after, Deadline: wall.Add(t.deadline - now)})
	}
	sortHeld(held)
	return held
}

// Timers returns the timers of all clients, expired ones too, the earliest deadline first.
func (w *Watchdog) Timers() []Held {
	w.mu.Lock()
	clients := slices.Clone(w.clients)
	w.mu.Unlock()
	var held []Held
	for _, c := range clients {
		held = append(held, c.Timers()...)
	}
	sortHeld(held)
	return held
}

func sortHeld(held []Held) {
	slices.SortStableFunc(held, func(a, b Held) int {
		return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Scope, b.Scope))
	})
}
