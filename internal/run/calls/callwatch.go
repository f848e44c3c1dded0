package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
)

// Watch looks after one execution of a batch from the side: it holds the timers of the calls in
// hand, says when the batch should end, and heartbeats for as long as it can guarantee that all of them progress or
// end. Calls are made in its lanes.
type Watch struct {
	limits WatchLimits
	// ending is set when the batch should finish the item or call in hand and return its rest.
	Ending atomic.Bool
	// ended is closed when the batch must end at once.
	ended chan struct{}
	Soon  chan struct{} // closed with ending
	// stopping is closed if that is because the job or the worker ends. notice says why, and by when: the server has been
	// asked for that before, as a pause cancels batches, too.
	stopping chan struct{}
	notice   wire.StopNotice
	base     context.Context // parent of call contexts; carries values, is never cancelled
	reaps    chan reaping
	began    time.Time
	// slowed is when the delay ends that the handler has asked for, after began; 0: it has not.
	slowed atomic.Int64
	done   chan struct{} // closed when nothing is minded any more

	endCause error // for which all calls have ended; set before ended is closed
	stopOnce func()
	failure  atomic.Pointer[error] // why nobody looks after the batch any more
	unbegun  atomic.Pointer[UnbegunError]
	withheld atomic.Pointer[time.Time] // when the batch last had no heartbeat because of itself; nil: never

	mu     sync.Mutex
	lanes  []*Lane
	forced []job.ForcedEnd
}

// WatchLimits are the times of a batch; durations count from now.
type WatchLimits struct {
	Call  time.Duration // one call; 0: no limit
	Slice time.Duration // after which the batch returns its rest; 0: none
	Grace time.Duration // of a stop, unless the stop says otherwise
	Drain time.Duration // of a worker's end
	Beat  time.Duration // between heartbeats; 0: none

	Stopped  <-chan struct{}                               // the job's stop reaches the batch, or its pause
	Draining <-chan struct{}                               // the worker's
	Yield    <-chan struct{}                               // the batch returns its rest for one of a higher priority
	Notice   func(context.Context) (wire.StopNotice, bool) // more about the stop, or that it is none
	Request  func(context.Context, job.Stop) error         // asks for one
	Vouch    func(held []watchdog.Held)                    // heartbeats; held is what Timers returns
	Left     func(LeftCall)                                // a call was left behind

	Allowance *Allowance         // of the batch; nil: nothing is counted or limited
	Watchdog  *watchdog.Watchdog // of timers that handlers hold; nil: they have none
	Worker    string             // what the watchdog calls this batch

	never bool // calls continue although they should end: whoever cut them decides
}

// watchInterval is how often timers are looked at, and so how late an expiry may be noticed.
const watchInterval = 100 * time.Millisecond

// stopLooks is how often a batch that a pause has taken back looks for a stop: it is not cancelled once more.
const stopLooks = 2 * time.Second

// unvouched is how long a call that has been cancelled may take to return before it is abandoned. If it
// cannot be, the batch's heartbeats end.
const unvouched = 5 * time.Second

// StartWatch starts looking after a batch. The caller must call stop.
func StartWatch(ctx context.Context, limits WatchLimits) *Watch {
	m := &Watch{
		limits: limits, base: context.WithoutCancel(ctx), began: time.Now(),
		ended: make(chan struct{}), Soon: make(chan struct{}), stopping: make(chan struct{}),
		reaps: make(chan reaping), done: make(chan struct{}),
	}
	m.base = context.WithValue(m.base, watchKey{}, m)
	if limits.Allowance != nil {
		limits.Allowance.full = m.EndSoon
	}
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
	m.EndSoon()
	if !m.over() {
		m.endCause = err
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

// eachLane calls fn for every lane that is open.
func (m *Watch) eachLane(fn func(*Lane)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lanes {
		fn(l)
	}
}

// cancel cancels every context that a call may hold.
func (m *Watch) cancel(cause error) { m.eachLane(func(l *Lane) { l.cancel(cause) }) }

// Wait sleeps for d. It returns false when the batch should end instead.
func (m *Watch) Wait(d time.Duration) bool {
	return backoff.Wait(d, m.Soon)
}

func (m *Watch) over() bool { return Closed(m.ended) }

// Closed reports whether a channel that carries nothing has been closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
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
	stopped, draining, yield := m.limits.Stopped, m.limits.Draining, m.limits.Yield
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
			stopped, found = nil, m.lookUp(lookUps, m.limits.Grace, 0)
			m.EndSoon()
		case <-yield:
			yield = nil
			m.EndSoon()
		case stop := <-found:
			found = nil
			if stop.err != nil {
				m.fail(stop.err)
				return
			}
			if stop.Withdrawn {
				found = m.lookUp(lookUps, 0, stopLooks)
				continue
			}
			m.announce(stop.StopNotice)
			endIn(time.Until(stop.Deadline), ErrEnded)
		case <-draining:
			draining = nil
			m.announce(wire.StopNotice{Deadline: time.Now().Add(m.limits.Drain), Reason: "the worker ends"})
			endIn(m.limits.Drain, errDrained)
		case r := <-m.reaps:
			r.lane.reap(r)
		case <-hardEnd:
			m.endCause = cause
			close(m.ended)
			m.cancel(cause)
			hardEnd = nil
		case now := <-ticks.C:
			if m.limits.Slice > 0 && now.Sub(began) >= m.limits.Slice {
				m.EndSoon()
			}
			switch {
			case !m.fine(now):
				m.withheld.Store(&now)
			case m.limits.Beat > 0 && now.Sub(lastBeat) >= m.limits.Beat:
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

// foundStop is what is known of a stop.
type foundStop struct {
	wire.StopNotice
	err error // a defect
}

// lookUp finds out how long the batch may continue after a stop at this time, and why it was stopped. It asks a server,
// which may take long: meanwhile the batch is looked after. If nothing is found it is a stop with the grace, or, of one
// that looks again after a time, a pause still.
func (m *Watch) lookUp(ctx context.Context, grace, again time.Duration) <-chan foundStop {
	found := make(chan foundStop, 1) // it may come when nobody waits any more
	at := time.Now()
	go func() {
		stop := foundStop{StopNotice: wire.StopNotice{Deadline: at.Add(grace), Withdrawn: again > 0}}
		stop.err = trap.Run("looking up a stop", func() {
			if m.limits.Notice == nil || !backoff.Wait(again, ctx.Done()) {
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

// EndSoon has the batch end once the calls in hand have ended.
func (m *Watch) EndSoon() {
	if !m.limits.never && m.Ending.CompareAndSwap(false, true) {
		close(m.Soon)
	}
}

// announce has the batch end soon because the job or the worker ends. The notice says why, and by when; the first one
// counts.
func (m *Watch) announce(notice wire.StopNotice) {
	m.EndSoon()
	if !Closed(m.stopping) {
		m.notice = notice
		close(m.stopping)
	}
}

func (l *Lane) begin() (ctx context.Context, held uint64) {
	held = l.scope.Acquire()
	return l.call.Load(), held
}

// afterCall ends the timers that a call has left behind.
func (l *Lane) afterCall() {
	l.scope.Release()
	if client := l.call.Load().client; client != nil && client.Held() > 0 {
		client.Clear()
	}
}

// expire cancels the call in hand once its time is over. A call that has been cancelled, for that or
// because the worker must end at once, and does not return in time is abandoned. expire reports whether
// the batch may still heartbeat.
func (l *Lane) expire(now time.Time) bool {
	held, age := l.scope.Watch(now)
	limit := l.watch.limits.Call
	switch {
	case held%2 == 0 || held == l.cancelled:
	case l.watch.over(): // its context has ended with all others
		l.cancelled, l.cancelledAt, l.cause = held, now, l.watch.endCause
	case limit > 0 && age >= limit:
		l.cut(held, now, &timers.ExpiredError{Scope: "the call", After: limit, Over: age - limit})
	}
	if held == 0 || held != l.cancelled || now.Sub(l.cancelledAt) < unvouched {
		return true
	}
	if l.leave(held, l.cause) {
		return false
	}
	select {
	case l.overdue <- overdue{held, l.cause}:
	default: // it knows
	}
	return false
}

// reap cancels the call that holds the reaped timers, if it is in hand still.
func (l *Lane) reap(r reaping) {
	l.watch.mu.Lock()
	defer l.watch.mu.Unlock()
	current := l.call.Load()
	if held := l.scope.Held(); !l.closed && current.client == r.client && held != l.cancelled && !l.watch.over() {
		l.cut(held, time.Now(), &timers.ExpiredError{Scope: r.expiry.Scope, After: r.expiry.After, Over: r.expiry.Overdue})
	}
}

// cut cancels the call of that holding. Whoever begins from here on gets a new context. If the call
// is in hand still, it and nobody else holds one of those before.
func (l *Lane) cut(held uint64, now time.Time, cause error) {
	l.replaced = append(l.replaced, l.call.Swap(l.newContext()))
	if !l.scope.Holds(held) {
		return
	}
	l.cancelled, l.cancelledAt, l.cause = held, now, cause
	for _, c := range l.replaced {
		c.end(cause)
	}
	l.replaced = nil
}

// fine looks at the calls of all lanes, and reports whether the batch may heartbeat.
func (m *Watch) fine(now time.Time) bool {
	fine := m.limits.Watchdog == nil || m.limits.Watchdog.Healthy()
	m.eachLane(func(l *Lane) {
		if !l.expire(now) || l.condemned() || l.inDoubt() {
			fine = false
		}
	})
	return fine
}

// Alive reports whether the batch was fine within the last d: it was not the batch that had no heartbeats sent.
func (m *Watch) Alive(d time.Duration) bool {
	withheld := m.withheld.Load()
	return withheld == nil || time.Since(*withheld) > d
}

// Timers returns the timers that the handler holds for the calls in hand, the earliest deadline first.
func (m *Watch) Timers() []watchdog.Held {
	var held []watchdog.Held
	m.eachLane(func(l *Lane) {
		if client := l.call.Load().client; client != nil {
			held = append(held, client.Timers()...)
		}
	})
	slices.SortStableFunc(held, func(a, b watchdog.Held) int { return a.Deadline.Compare(b.Deadline) })
	return held
}

// Stopping is closed if the batch should end because the job or the worker does.
func (m *Watch) Stopping() <-chan struct{} { return m.stopping }

// Over is closed if the batch must end at once.
func (m *Watch) Over() <-chan struct{} { return m.ended }

// watchKey is under which a handler's context holds its watch.
type watchKey struct{}

func watchOf(ctx context.Context) *Watch {
	m, _ := ctx.Value(watchKey{}).(*Watch)
	return m
}

// Stopping returns a channel that is closed when the call of which ctx is the context should end
// because the job or the worker does; nil if ctx is not a call's.
func Stopping(ctx context.Context) <-chan struct{} {
	if m := watchOf(ctx); m != nil {
		return m.stopping
	}
	return nil
}

// StopNotice returns why the call should end, and when it will be ended; false while it need not.
func StopNotice(ctx context.Context) (wire.StopNotice, bool) {
	m := watchOf(ctx)
	if m == nil || !Closed(m.stopping) {
		return wire.StopNotice{}, false
	}
	return m.notice, true
}

// ErrNoCall says that a context is not that of a handler's call.
var ErrNoCall = errors.New("the context is not that of a call: pass on the one that the handler was given")

// RequestStop asks for the stop of the job whose call ctx is the context of.
func RequestStop(ctx context.Context, stop job.Stop) error {
	m := watchOf(ctx)
	if m == nil || m.limits.Request == nil {
		return ErrNoCall
	}
	return m.limits.Request(context.WithoutCancel(ctx), stop)
}

// ErrEnded is the cause with which a call is cancelled when its worker must end at once.
var ErrEnded = errors.New("the worker must end: the grace period of a stop is over")

// errDrained is that cause if the worker itself is about to be gone.
var errDrained = fmt.Errorf("the drain limit is over: %w", ErrEnded)

// Drained reports whether the cause of a call's cancellation is that its worker is about to be gone: what
// does not end soon then is too late.
func Drained(cause error) bool { return errors.Is(cause, errDrained) }
