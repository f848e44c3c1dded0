package activities

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// minder looks after one execution of a batch from the side: it holds the timer of the call in
// hand, tells the batch when to end, and heartbeats for as long as it can vouch for it.
type minder struct {
	limits minderLimits
	// ending is set when the batch should finish the item or call in hand and return its rest.
	ending atomic.Bool
	// ended is closed when the batch must end at once.
	ended chan struct{}
	soon  chan struct{} // closed with ending
	// stopping is closed where that is because the job or the worker ends; notice is set before.
	stopping chan struct{}
	notice   job.StopNotice
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

	stopOnce func()
}

// callContext is the context of calls until one of them is cancelled, and holds their timers.
type callContext struct {
	context.Context
	cancel context.CancelCauseFunc
	client *timers.Client // nil where the worker has no watchdog
}

// overdue is a holding that was cancelled and has not ended.
type overdue struct {
	held  uint64
	cause error
}

// reaping is the watchdog's wish that the call which holds client be ended.
type reaping struct {
	expiry timers.Expiry
	client *timers.Client
}

// minderLimits are the times of a batch, as offsets from now where they are durations.
type minderLimits struct {
	call  time.Duration // one call; 0: no limit
	slice time.Duration // after which the batch returns its rest; 0: none
	grace time.Duration // of a stop, unless the stop says otherwise
	drain time.Duration // of a worker's end
	beat  time.Duration // between heartbeats; 0: none

	stopped  <-chan struct{}                       // the job's stop reaches the batch
	draining <-chan struct{}                       // the worker's
	notice   func() (job.StopNotice, bool)         // more about the stop
	request  func(context.Context, job.Stop) error // asks for one
	vouch    func()                                // heartbeats

	watchdog *timers.Watchdog // of timers that handlers hold; nil: they have none
	worker   string           // what the watchdog calls this batch

	never bool // calls go on although they should end: whoever cut them decides
}

// watchInterval is how often timers are looked at, and so how late an expiry may be noticed.
const watchInterval = 100 * time.Millisecond

// unvouched is how long a call that has been cancelled may take to return before it is abandoned,
// or, where it cannot be, its worker no longer vouches for the batch.
const unvouched = 5 * time.Second

// mind starts looking after a batch. The caller must call stop.
func mind(ctx context.Context, limits minderLimits) *minder {
	m := &minder{
		limits: limits, base: context.WithoutCancel(ctx),
		ended: make(chan struct{}), soon: make(chan struct{}), stopping: make(chan struct{}),
		overdue: make(chan overdue, 1), reaps: make(chan reaping), done: make(chan struct{}),
	}
	m.base = context.WithValue(m.base, minderKey{}, m)
	m.call.Store(m.newContext())
	quit := make(chan struct{})
	go func() {
		defer close(m.done)
		m.run(quit)
	}()
	m.stopOnce = func() { close(quit); <-m.done; m.cancel(nil) }
	return m
}

func (m *minder) stop() { m.stopOnce() }

func (m *minder) newContext() *callContext {
	ctx, cancel := context.WithCancelCause(m.base)
	c := &callContext{Context: ctx, cancel: cancel}
	if m.limits.watchdog != nil {
		c.client = m.limits.watchdog.Client(m.limits.worker, &callReaper{m, c})
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
	minder *minder
	of     *callContext
}

// Reap has the call in hand cancelled.
func (r *callReaper) Reap(ctx context.Context, e timers.Expiry) error {
	select {
	case r.minder.reaps <- reaping{e, r.of.client}:
		return nil
	case <-r.minder.done:
		return nil // the batch is over
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancel cancels every context that a call may hold.
func (m *minder) cancel(cause error) {
	for _, c := range append(m.replaced, m.call.Load()) {
		c.end(cause)
	}
	m.replaced = nil
}

func (m *minder) begin() (ctx context.Context, held uint64) {
	held = m.scope.Acquire()
	return m.call.Load(), held
}

// afterCall ends the timers that a call has left behind.
func (m *minder) afterCall() {
	if client := m.call.Load().client; client != nil && client.Held() > 0 {
		client.Clear()
	}
}

// wait sleeps for d; false when the batch is to end instead.
func (m *minder) wait(d time.Duration) bool {
	m.scope.Release()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-m.soon:
		return false
	}
}

func (m *minder) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func (m *minder) run(quit <-chan struct{}) {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	began := time.Now()
	lastBeat := began
	stopped, draining := m.limits.stopped, m.limits.draining
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
			stopped = nil
			notice := m.stopNotice()
			m.end(&notice)
			endIn(time.Until(notice.Deadline), errEnded)
		case <-draining:
			draining = nil
			m.end(&job.StopNotice{Deadline: time.Now().Add(m.limits.drain), Reason: "the worker ends"})
			endIn(m.limits.drain, errDrained)
		case r := <-m.reaps:
			m.reap(r)
		case <-hardEnd:
			close(m.ended)
			m.cancel(cause)
			hardEnd = nil
		case now := <-ticks.C:
			if m.limits.slice > 0 && now.Sub(began) >= m.limits.slice {
				m.end(nil)
			}
			if m.expire(now) && m.watched() && m.limits.beat > 0 && now.Sub(lastBeat) >= m.limits.beat {
				lastBeat = now
				m.limits.vouch()
			}
		}
	}
}

// stopNotice tells how long the batch may go on after a stop, and why it was stopped.
func (m *minder) stopNotice() job.StopNotice {
	if m.limits.notice != nil {
		if notice, ok := m.limits.notice(); ok {
			return notice
		}
	}
	return job.StopNotice{Deadline: time.Now().Add(m.limits.grace)}
}

// end has the batch end soon, because of a stop where there is a notice of one.
func (m *minder) end(notice *job.StopNotice) {
	if !m.limits.never && m.ending.CompareAndSwap(false, true) {
		close(m.soon)
	}
	if notice != nil && m.notice.Deadline.IsZero() {
		m.notice = *notice
		close(m.stopping)
	}
}

// watched reports whether the timers of the call are looked after, and none of them is due.
func (m *minder) watched() bool {
	client := m.call.Load().client
	return client == nil || m.limits.watchdog.Healthy() && !client.Condemned()
}

// expire cancels the call in hand once its time is over, and has it abandoned when it does not obey.
// It reports whether the batch can still be vouched for.
func (m *minder) expire(now time.Time) bool {
	held, age := m.scope.Watch(now)
	limit := m.limits.call
	if limit > 0 && age >= limit && held != m.cancelled && !m.over() {
		m.cut(held, now, &timers.ExpiredError{Scope: "the call", After: limit, Over: age - limit})
	}
	if held == 0 || held != m.cancelled || now.Sub(m.cancelledAt) < unvouched {
		return true
	}
	select {
	case m.overdue <- overdue{held, m.cause}:
	default: // it has been told
	}
	return false
}

// reap cancels the call that holds the reaped timers, if it is in hand still.
func (m *minder) reap(r reaping) {
	current := m.call.Load()
	if held := m.scope.Held(); current.client == r.client && held != m.cancelled && !m.over() {
		m.cut(held, time.Now(), &timers.ExpiredError{Scope: r.expiry.Scope, After: r.expiry.After, Over: r.expiry.Overdue})
	}
}

// cut cancels the call of that holding. Whoever begins from here on gets a new context. If the call
// is in hand still, it and nobody else holds one of those before.
func (m *minder) cut(held uint64, now time.Time, cause error) {
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
