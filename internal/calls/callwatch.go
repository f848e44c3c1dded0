package calls

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/trap"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// Watch looks after one execution of a batch from the side: it holds the timer of the call in
// hand, says when the batch should end, and heartbeats for as long as it can vouch for it.
type Watch struct {
	limits WatchLimits
	// ending is set when the batch should finish the item or call in hand and return its rest.
	Ending atomic.Bool
	// ended is closed when the batch must end at once.
	ended chan struct{}
	Soon  chan struct{} // closed with ending
	// stopping is closed if that is because the job or the worker ends; notice is set before.
	stopping chan struct{}
	notice   protocol.StopNotice
	// overdue gets the holding of scope that has not obeyed its cancellation in time.
	overdue chan overdue

	scope timers.Scope
	call  atomic.Pointer[callContext]
	base  context.Context // parent of call contexts; carries values, is never cancelled
	reaps chan reaping
	// slowed is the delay that the handler has asked for.
	slowed atomic.Int64
	done   chan struct{} // closed when nothing is minded any more

	// Of the goroutine that minds only.
	replaced    []*callContext // contexts that a call may still hold
	cancelled   uint64         // the holding of scope that has been cancelled
	cancelledAt time.Time
	cause       error // for which it was
	endCause    error // for which all calls have ended, once ended is closed

	stopOnce func()
	failure  atomic.Pointer[error] // why nobody looks after the batch any more
	doubted  atomic.Uint64         // the holding of scope that is not vouched for

	mu     sync.Mutex
	forced []job.ForcedEnd
}

// callContext is the context of calls until one of them is cancelled, and holds their timers.
type callContext struct {
	context.Context
	cancel context.CancelCauseFunc
	client *timers.Client // nil if the worker has no watchdog
}

// overdue is a holding that was cancelled and has not ended.
type overdue struct {
	held  uint64
	cause error
}

// reaping is the watchdog's request to end the call which holds client.
type reaping struct {
	expiry timers.Expiry
	client *timers.Client
}

// WatchLimits are the times of a batch; durations count from now.
type WatchLimits struct {
	Call  time.Duration // one call; 0: no limit
	Slice time.Duration // after which the batch returns its rest; 0: none
	Grace time.Duration // of a stop, unless the stop says otherwise
	Drain time.Duration // of a worker's end
	Beat  time.Duration // between heartbeats; 0: none

	Stopped  <-chan struct{}                                   // the job's stop reaches the batch
	Draining <-chan struct{}                                   // the worker's
	Notice   func(context.Context) (protocol.StopNotice, bool) // more about the stop
	Request  func(context.Context, job.Stop) error             // asks for one
	Vouch    func(held []timers.Held)                          // heartbeats; held is what Timers returns

	Watchdog *timers.Watchdog // of timers that handlers hold; nil: they have none
	Worker   string           // what the watchdog calls this batch

	never bool // calls continue although they should end: whoever cut them decides
}

// watchInterval is how often timers are looked at, and so how late an expiry may be noticed.
const watchInterval = 100 * time.Millisecond

// unvouched is how long a call that has been cancelled may take to return before it is abandoned,
// or, if it cannot be, its worker no longer vouches for the batch.
const unvouched = 5 * time.Second

// StartWatch starts looking after a batch. The caller must call stop.
func StartWatch(ctx context.Context, limits WatchLimits) *Watch {
	m := &Watch{
		limits: limits, base: context.WithoutCancel(ctx),
		ended: make(chan struct{}), Soon: make(chan struct{}), stopping: make(chan struct{}),
		overdue: make(chan overdue, 1), reaps: make(chan reaping), done: make(chan struct{}),
	}
	m.base = context.WithValue(m.base, watchKey{}, m)
	m.call.Store(m.newContext())
	quit := make(chan struct{})
	go func() {
		defer close(m.done)
		if err := trap.Run("looking after a batch", func() { m.run(quit) }); err != nil {
			m.fail(err)
		}
	}()
	m.stopOnce = func() { close(quit); <-m.done; m.cancel(nil) }
	return m
}

func (m *Watch) Stop() { m.stopOnce() }

// fail ends the batch at once, because nobody looks after it any more.
func (m *Watch) fail(err error) {
	m.failure.Store(&err)
	m.end(nil)
	if !m.over() {
		close(m.ended)
	}
	m.cancel(err)
}

// Failure returns why nobody looks after the batch any more; nil while somebody does.
func (m *Watch) Failure() error {
	if err := m.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *Watch) newContext() *callContext {
	ctx, cancel := context.WithCancelCause(m.base)
	c := &callContext{Context: ctx, cancel: cancel}
	if m.limits.Watchdog != nil {
		c.client = m.limits.Watchdog.Client(m.limits.Worker, &callReaper{m, c})
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
	watch *Watch
	of    *callContext
}

// Reap has the call in hand cancelled.
func (r *callReaper) Reap(ctx context.Context, e timers.Expiry) error {
	select {
	case r.watch.reaps <- reaping{e, r.of.client}:
		return nil
	case <-r.watch.done:
		return nil // the batch is over
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancel cancels every context that a call may hold.
func (m *Watch) cancel(cause error) {
	for _, c := range append(m.replaced, m.call.Load()) {
		c.end(cause)
	}
	m.replaced = nil
}

func (m *Watch) begin() (ctx context.Context, held uint64) {
	held = m.scope.Acquire()
	return m.call.Load(), held
}

// afterCall ends the timers that a call has left behind.
func (m *Watch) afterCall() {
	if client := m.call.Load().client; client != nil && client.Held() > 0 {
		client.Clear()
	}
}

// wait sleeps for d; false when the batch is to end instead.
func (m *Watch) wait(d time.Duration) bool {
	m.scope.Release()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-m.Soon:
		return false
	}
}

func (m *Watch) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func (m *Watch) run(quit <-chan struct{}) {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	began := time.Now()
	lastBeat := began
	stopped, draining := m.limits.Stopped, m.limits.Draining
	lookUps, cancel := context.WithCancel(m.base)
	defer cancel()
	var found <-chan foundStop
	var hardEnd <-chan time.Time
	var deadline time.Time
	var cause error
	endIn := func(d time.Duration, why error) { // of a stop's end and a drain's, the earlier one counts
		if at := time.Now().Add(d); !m.limits.never && !m.over() && (deadline.IsZero() || at.Before(deadline)) {
			deadline, hardEnd, cause = at, time.After(d), why
		}
	}
	for {
		select {
		case <-quit:
			return
		case <-stopped:
			stopped, found = nil, m.lookUp(lookUps, time.Now())
			m.end(nil) // whatever the notice says
		case stop := <-found:
			found = nil
			if stop.err != nil {
				m.fail(stop.err)
				return
			}
			m.end(&stop.StopNotice)
			endIn(time.Until(stop.Deadline), ErrEnded)
		case <-draining:
			draining = nil
			m.end(&protocol.StopNotice{Deadline: time.Now().Add(m.limits.Drain), Reason: "the worker ends"})
			endIn(m.limits.Drain, errDrained)
		case r := <-m.reaps:
			m.reap(r)
		case <-hardEnd:
			m.endCause = cause
			close(m.ended)
			m.cancel(cause)
			hardEnd = nil
		case now := <-ticks.C:
			if m.limits.Slice > 0 && now.Sub(began) >= m.limits.Slice {
				m.end(nil)
			}
			if m.expire(now) && m.watched() && !m.inDoubt() && m.limits.Beat > 0 && now.Sub(lastBeat) >= m.limits.Beat {
				lastBeat = now
				m.limits.Vouch(m.Timers())
			}
		}
	}
}

// Forced returns the processes that were ended because they had not finished within a stop's grace.
func (m *Watch) Forced() []job.ForcedEnd {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forced
}

// Timers returns the timers that the handler holds for the calls in hand, the earliest deadline first.
func (m *Watch) Timers() []timers.Held {
	if client := m.call.Load().client; client != nil {
		return client.Timers()
	}
	return nil
}

// foundStop is what is known of a stop.
type foundStop struct {
	protocol.StopNotice
	err error // a defect
}

// lookUp finds out how long the batch may continue after a stop at that time, and why it was stopped. It asks a server, which
// may take long: meanwhile the batch is looked after.
func (m *Watch) lookUp(ctx context.Context, at time.Time) <-chan foundStop {
	found := make(chan foundStop, 1) // it may come when nobody waits any more
	go func() {
		stop := foundStop{StopNotice: protocol.StopNotice{Deadline: at.Add(m.limits.Grace)}}
		stop.err = trap.Run("looking up a stop", func() {
			if m.limits.Notice == nil {
				return
			}
			if notice, ok := m.limits.Notice(ctx); ok {
				stop.StopNotice = notice
			}
		})
		found <- stop
	}()
	return found
}

// end has the batch end soon, because of a stop if there is a notice of one.
func (m *Watch) end(notice *protocol.StopNotice) {
	if !m.limits.never && m.Ending.CompareAndSwap(false, true) {
		close(m.Soon)
	}
	if notice != nil && m.notice.Deadline.IsZero() {
		m.notice = *notice
		close(m.stopping)
	}
}

// watched reports whether the timers of the call are looked after, and none of them is due.
func (m *Watch) watched() bool {
	client := m.call.Load().client
	return client == nil || m.limits.Watchdog.Healthy() && !client.Condemned()
}

// inDoubt reports whether the call in hand is one that Call.Doubt is about.
func (m *Watch) inDoubt() bool {
	held := m.doubted.Load()
	return held != 0 && m.scope.Holds(held)
}

// expire cancels the call in hand once its time is over. A call that has been cancelled, for that or
// because the worker must end at once, and does not return in time is abandoned. expire reports whether
// the batch can still be vouched for.
func (m *Watch) expire(now time.Time) bool {
	held, age := m.scope.Watch(now)
	limit := m.limits.Call
	switch {
	case held == 0 || held == m.cancelled:
	case m.over(): // its context has ended with all others
		m.cancelled, m.cancelledAt, m.cause = held, now, m.endCause
	case limit > 0 && age >= limit:
		m.cut(held, now, &timers.ExpiredError{Scope: "the call", After: limit, Over: age - limit})
	}
	if held == 0 || held != m.cancelled || now.Sub(m.cancelledAt) < unvouched {
		return true
	}
	select {
	case m.overdue <- overdue{held, m.cause}:
	default: // it knows
	}
	return false
}

// reap cancels the call that holds the reaped timers, if it is in hand still.
func (m *Watch) reap(r reaping) {
	current := m.call.Load()
	if held := m.scope.Held(); current.client == r.client && held != m.cancelled && !m.over() {
		m.cut(held, time.Now(), &timers.ExpiredError{Scope: r.expiry.Scope, After: r.expiry.After, Over: r.expiry.Overdue})
	}
}

// cut cancels the call of that holding. Whoever begins from here on gets a new context. If the call
// is in hand still, it and nobody else holds one of those before.
func (m *Watch) cut(held uint64, now time.Time, cause error) {
	m.replaced = append(m.replaced, m.call.Swap(m.newContext()))
	if !m.scope.Holds(held) {
		return
	}
	m.cancelled, m.cancelledAt, m.cause = held, now, cause
	for _, c := range m.replaced {
		c.end(cause)
	}
	m.replaced = nil
}
