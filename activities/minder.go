package activities

import (
	"context"
	"errors"
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

	scope timers.Scope
	call  atomic.Pointer[callContext]
	base  context.Context // parent of call contexts; carries values, is never cancelled

	// Of the goroutine that minds only.
	replaced []*callContext // contexts that a call may still hold
	expired  uint64         // the holding of scope that has been dealt with

	stopOnce func()
}

type callContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// errEnded is the cause with which a call is cancelled when its worker must end at once.
var errEnded = errors.New("the worker must end: the grace period of a stop is over")

// minderLimits are the times of a batch, as offsets from now where they are durations.
type minderLimits struct {
	call  time.Duration // one call; 0: no limit
	slice time.Duration // after which the batch returns its rest; 0: none
	grace time.Duration // of a stop, unless the stop says otherwise
	drain time.Duration // of a worker's end
	beat  time.Duration // between heartbeats; 0: none

	stopped  <-chan struct{}               // the job's stop reaches the batch
	draining <-chan struct{}               // the worker's
	notice   func() (job.StopNotice, bool) // more about the stop
	vouch    func()                        // heartbeats
}

// watchInterval is how often timers are looked at, and so how late an expiry may be noticed.
const watchInterval = 100 * time.Millisecond

// unvouched is how long a call that has been cancelled may take to return before its worker no
// longer vouches for the batch.
const unvouched = 5 * time.Second

// mind starts looking after a batch. The caller must call stop.
func mind(ctx context.Context, limits minderLimits) *minder {
	m := &minder{limits: limits, ended: make(chan struct{}), soon: make(chan struct{}), base: context.WithoutCancel(ctx)}
	m.call.Store(m.newContext())
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		m.run(quit)
	}()
	m.stopOnce = func() { close(quit); <-done; m.cancel(nil) }
	return m
}

func (m *minder) stop() { m.stopOnce() }

func (m *minder) newContext() *callContext {
	ctx, cancel := context.WithCancelCause(m.base)
	return &callContext{ctx, cancel}
}

// cancel cancels every context that a call may hold.
func (m *minder) cancel(cause error) {
	for _, c := range append(m.replaced, m.call.Load()) {
		c.cancel(cause)
	}
	m.replaced = nil
}

func (m *minder) begin() context.Context {
	m.scope.Acquire()
	return m.call.Load()
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
	endIn := func(d time.Duration) { // of a stop's end and a drain's, the earlier one counts
		if at := time.Now().Add(d); !m.over() && (deadline.IsZero() || at.Before(deadline)) {
			deadline, hardEnd = at, time.After(d)
		}
	}
	for {
		select {
		case <-quit:
			return
		case <-stopped:
			stopped = nil
			m.end()
			endIn(m.stopGrace())
		case <-draining:
			draining = nil
			m.end()
			endIn(m.limits.drain)
		case <-hardEnd:
			close(m.ended)
			m.cancel(errEnded)
			hardEnd = nil
		case now := <-ticks.C:
			if m.limits.slice > 0 && now.Sub(began) >= m.limits.slice {
				m.end()
			}
			if m.expire(now) && m.limits.beat > 0 && now.Sub(lastBeat) >= m.limits.beat {
				lastBeat = now
				m.limits.vouch()
			}
		}
	}
}

// stopGrace is how long the batch may go on after a stop.
func (m *minder) stopGrace() time.Duration {
	if m.limits.notice != nil {
		if notice, ok := m.limits.notice(); ok {
			return time.Until(notice.Deadline)
		}
	}
	return m.limits.grace
}

func (m *minder) end() {
	if m.ending.CompareAndSwap(false, true) {
		close(m.soon)
	}
}

// expire cancels the call in hand once its time is over. It reports whether the batch can still
// be vouched for.
func (m *minder) expire(now time.Time) bool {
	held, age := m.scope.Watch(now)
	limit := m.limits.call
	if limit == 0 || age < limit {
		return true
	}
	if held != m.expired && !m.over() {
		// Whoever begins from here on gets the new context. If the overdue call is in hand still,
		// it and nobody else holds one of those before.
		m.replaced = append(m.replaced, m.call.Swap(m.newContext()))
		if m.scope.Holds(held) {
			m.expired = held
			for _, c := range m.replaced {
				c.cancel(&timers.ExpiredError{Scope: "the call", After: limit, Over: age - limit})
			}
			m.replaced = nil
		}
	}
	return age < limit+unvouched
}
