package calls

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/timers"
)

// Lane is where the calls of a batch are made one after the other. A batch that makes several calls at once has
// as many lanes. Each call has its own timer and its own context: one that is cut off ends alone. One goroutine
// may use a Lane, besides its [Watch].
type Lane struct {
	watch *Watch
	scope watchdog.Scope
	call  atomic.Pointer[callContext]
	// overdue gets the holding of scope that has not obeyed its cancellation in time.
	overdue chan overdue
	doubted atomic.Uint64 // the holding of scope that may not end: the batch must not heartbeat
	slowed  atomic.Int64  // for how long the call in hand has asked to slow down; 0: it has not
	braked  atomic.Bool   // and the job does

	mu   sync.Mutex
	in   *Goroutine
	lent *attempt // that has the goroutine

	// The watch's own notes.
	replaced    []*callContext // contexts that a call may still hold
	cancelled   uint64         // the holding of scope that has been cancelled
	cancelledAt time.Time
	cause       error // for which it was
	closed      bool
}

// callContext is the context of calls until one of them is cancelled, and holds their timers.
type callContext struct {
	context.Context
	cancel context.CancelCauseFunc
	client *watchdog.Client // nil if the worker has no watchdog
}

// overdue is a holding that was cancelled and has not ended.
type overdue struct {
	held  uint64
	cause error
}

// reaping is the watchdog's request to end the call which holds client.
type reaping struct {
	lane   *Lane
	expiry watchdog.Expiry
	client *watchdog.Client
}

// Lane opens a lane. The caller must close it.
func (m *Watch) Lane() *Lane {
	l := &Lane{watch: m, overdue: make(chan overdue, 1)}
	l.call.Store(l.newContext())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lanes = append(m.lanes, l)
	if m.over() { // those that were there have been cancelled, or are about to be
		l.cancel(m.endCause)
	}
	return l
}

// In says which goroutine makes the calls from now on, if a [Caller] with CarryOn makes them.
func (l *Lane) In(g *Goroutine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in = g
}

// Close ends the timers of the lane's calls.
func (l *Lane) Close() {
	m := l.watch
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.lanes, l); i >= 0 {
		m.lanes = slices.Delete(m.lanes, i, i+1)
	}
	l.closed = true
	l.cancel(nil)
}

func (l *Lane) newContext() *callContext {
	limits := &l.watch.limits
	ctx, cancel := context.WithCancelCause(l.watch.base)
	c := &callContext{Context: ctx, cancel: cancel}
	if limits.Watchdog != nil {
		c.client = limits.Watchdog.Client(limits.Worker, &callReaper{l, c})
		c.Context = timers.NewContext(ctx, c.client)
	}
	return c
}

// end ends the context's calls, whose timers end with them.
func (c *callContext) end(cause error) {
	c.cancel(cause)
	if c.client != nil {
		c.client.Close()
	}
}

// callReaper ends the calls of a context of which a timer has expired.
type callReaper struct {
	lane *Lane
	of   *callContext
}

// Reap has the call in hand cancelled.
func (r *callReaper) Reap(ctx context.Context, e watchdog.Expiry) error {
	select {
	case r.lane.watch.reaps <- reaping{r.lane, e, r.of.client}:
		return nil
	case <-r.lane.watch.done:
		return nil // the batch is over
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancel cancels every context that a call may hold.
func (l *Lane) cancel(cause error) {
	for _, c := range append(l.replaced, l.call.Load()) {
		c.end(cause)
	}
	l.replaced = nil
}

// wait sleeps for d; false when the batch is to end instead.
func (l *Lane) wait(d time.Duration) bool {
	l.scope.Release()
	return l.watch.Wait(d)
}

// condemned reports whether a timer of the call is due.
func (l *Lane) condemned() bool {
	client := l.call.Load().client
	return client != nil && client.Condemned()
}

// inDoubt reports whether the call in hand is one that Call.Doubt is about.
func (l *Lane) inDoubt() bool {
	held := l.doubted.Load()
	return held != 0 && l.scope.Holds(held)
}

// Goroutines run lanes. While somebody uses them, those of lanes that have ended are kept for others: their stacks have
// grown to what a handler needs, which is most of what a new one costs. The zero value is ready. It is safe for
// concurrent use.
type Goroutines struct {
	mu    sync.Mutex
	users int
	idle  []*Goroutine
}

// Goroutine is one of [Goroutines].
type Goroutine struct {
	name []byte
	work chan task // closed at its end
}

// task is what a goroutine is to do.
type task struct {
	name   string
	fn     func(*Goroutine)
	failed func(error)
}

// Use keeps goroutines until the returned function is called, which is idempotent.
func (g *Goroutines) Use() (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.users--; g.users > 0 {
			return
		}
		for _, one := range g.idle {
			close(one.work)
		}
		g.idle = nil
	})
}

// Go runs fn in a goroutine, which it may end. If fn panics, failed is called there with a *trap.DefectError, which
// names what fn does.
func (g *Goroutines) Go(name string, fn func(*Goroutine), failed func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := task{name, fn, failed}
	if last := len(g.idle) - 1; last >= 0 {
		g.idle[last].work <- t // there is room
		g.idle[last] = nil
		g.idle = g.idle[:last]
		return
	}
	one := &Goroutine{work: make(chan task, 1)}
	one.work <- t
	go func() {
		one.name = goroutineName()
		for t := range one.work {
			if err := trap.Run(t.name, func() { t.fn(one) }); err != nil {
				t.failed(err)
			}
			if !g.keep(one) {
				return
			}
		}
	}()
}

// keep keeps a goroutine that has nothing to do, if it is still used.
func (g *Goroutines) keep(one *Goroutine) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == 0 {
		return false
	}
	g.idle = append(g.idle, one)
	return true
}
