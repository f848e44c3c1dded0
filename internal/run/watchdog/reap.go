package watchdog

import (
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/stint-run/stint/timers"
)

// Reaper ends a worker. It belongs to one client, whose watchdog calls it from a separate goroutine,
// never twice at the same time.
type Reaper interface {
	// Reap ends the worker, and returns nil once it has ended, or if it had ended before. With an
	// error the worker is still condemned, and Reap is called again in the next round unless the
	// timer was released meanwhile; so Reap must be repeatable. A panic counts as reaped.
	//
	// ctx is cancelled after 10 s, and when the watchdog stops. Reap must not do anything to the
	// worker after that, and should return.
	Reap(ctx context.Context, e Expiry) error
}

// ReaperFunc is a function as a [Reaper].
type ReaperFunc func(ctx context.Context, e Expiry) error

// Reap calls the function.
func (f ReaperFunc) Reap(ctx context.Context, e Expiry) error { return f(ctx, e) }

// Expiry describes to a reaper the timer that has expired; of several, the one with the earliest
// deadline.
type Expiry struct {
	Worker  string
	Scope   string
	After   time.Duration  // what the timer was acquired for
	Overdue time.Duration  // since its deadline
	Signal  syscall.Signal // the signal to end the worker with; 0: the reaper chooses
}

// Err returns the expiry as an error, an *[timers.ExpiredError]: what the work of the worker has failed with.
func (e Expiry) Err() error {
	return &timers.ExpiredError{Scope: e.Scope, After: e.After, Over: e.Overdue}
}

const reapLimit = 10 * time.Second

// look handles a client with expired timers in a round. Report-only timers end, the others condemn the worker.
func (c *Client) look(now time.Duration, r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.running) > 0 && c.running[0].deadline <= now {
		t := heap.Pop(&c.running).(*timer)
		if t.reportOnly {
			c.emit(EventExpired, t.expiryAt(c, now), true, nil)
			c.forget(t)
			continue
		}
		c.expiries++
		t.expiry = c.expiries
		c.expired = append(c.expired, t)
	}
	c.plan()
	if len(c.expired) == 0 || c.reaping {
		return
	}
	c.reaping = true
	a := &attempt{client: c, run: r, expiries: c.expiries}
	r.reaping.Go(a.do)
}

// attempt is one attempt to reap a condemned worker.
type attempt struct {
	client   *Client
	run      *run
	expiries uint64 // of the client, when it began
}

func (a *attempt) do() {
	defer func() {
		a.client.mu.Lock()
		defer a.client.mu.Unlock()
		a.client.reaping = false
	}()
	a.settle()
	if e, ok := a.condemned(); ok {
		a.reap(e)
	}
}

// condemned looks again, after the settling, whether one of the timers that led to this attempt is still held, and
// returns its expiry. A timer that was released, or acquired again, has been removed from the expired ones; one that
// expired meanwhile has not been settled.
func (a *attempt) condemned() (Expiry, bool) {
	c := a.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.run.ctx.Err() != nil || len(c.expired) == 0 || c.expired[0].expiry > a.expiries {
		return Expiry{}, false
	}
	now := c.watchdog.now()
	for _, t := range c.expired {
		if !t.reported && t.expiry <= a.expiries {
			t.reported = true
			c.emit(EventExpired, t.expiryAt(c, now), false, nil)
		}
	}
	return c.expired[0].expiryAt(c, now), true
}

func (a *attempt) reap(e Expiry) {
	c := a.client
	ctx, cancel := context.WithTimeout(a.run.ctx, reapLimit)
	defer cancel()
	began := c.watchdog.now()
	kind, err := EventReaperPanicked, error(nil)
	defer func() {
		if p := recover(); kind == EventReaperPanicked {
			err = panicked("reaping", p)
		}
		if kind != EventReapFailed {
			c.end(true)
		}
		e.Overdue += c.watchdog.now() - began
		c.emit(kind, e, false, err)
	}()
	err = c.reaper.Reap(ctx, e)
	kind = EventReaped
	if err != nil {
		kind = EventReapFailed
	}
}

func panicked(doing string, p any) error {
	if p == nil {
		return fmt.Errorf("%s: it has ended its goroutine", doing)
	}
	return fmt.Errorf("%s: panic: %v\n%s", doing, p, debug.Stack())
}

func (c *Client) emit(kind EventKind, e Expiry, reportOnly bool, err error) {
	c.watchdog.events.put(Event{
		Kind: kind, Worker: e.Worker, Scope: e.Scope, After: e.After, Overdue: e.Overdue, ReportOnly: reportOnly, Err: err,
	})
}

func (t *timer) expiryAt(c *Client, now time.Duration) Expiry {
	return Expiry{Worker: c.worker, Scope: t.scope, After: t.after, Overdue: now - t.deadline, Signal: t.signal}
}

// Settler is implemented by a Reaper whose worker sends its requests from another process.
type Settler interface {
	// Settle returns once all requests that the worker had sent when Settle was called have been applied, so that a
	// release that was sent in time saves the worker, however long it was on its way. It is called before the worker is
	// reaped. After 1 s ctx is cancelled, and the watchdog does not wait any longer: a Settle that hangs must not save
	// a worker that hangs. If the last call of Settle has not returned, it is not called again.
	Settle(ctx context.Context)
}

const settleLimit = time.Second

// settle waits until what the worker has sent so far is applied.
func (a *attempt) settle() {
	c := a.client
	s, ok := c.reaper.(Settler)
	if !ok || !c.beginSettling() {
		return
	}
	ctx, cancel := context.WithTimeout(a.run.ctx, settleLimit)
	settled := make(chan struct{})
	a.run.reaping.Go(func() {
		defer cancel()
		defer close(settled)
		returned := false
		defer func() {
			c.mu.Lock()
			c.settling = false
			c.mu.Unlock()
			if p := recover(); !returned {
				c.emit(EventReaperPanicked, Expiry{Worker: c.worker}, false, panicked("settling", p))
			}
		}()
		s.Settle(ctx)
		returned = true
	})
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

func (c *Client) beginSettling() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := !c.settling
	c.settling = true
	return began
}
