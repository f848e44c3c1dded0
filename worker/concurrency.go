package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/company"
	"github.com/stint-run/stint/internal/run/tuning"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
)

// placeWait is how long a batch waits for its first place while others have all of them: it has come from another task
// queue than the one that has got the place, or others make several calls at once. After that it is returned to the
// queue: another worker may have a place.
const placeWait = 2 * time.Second

// execution is an execution in a slot.
type execution struct {
	slot     *slot
	occupant calls.Occupant
	since    time.Time
	ready    chan struct{} // closed when it has its first place
	yielding chan struct{} // closed when it should return its rest
	left     atomic.Int64  // items for which no call has been begun

	// Guarded by the slot's lock.
	places int  // that it has
	given  bool // the first one is in use
	yields bool // yielding is closed
	gone   bool
}

// admit takes a batch into the slot. It gets a free place, or else the next one, before batches that have places
// already.
func (s *slot) admit(o calls.Occupant) *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil || s.set.concurrency() == 1 && s.busy > 0 {
		return nil
	}
	t := &execution{slot: s, occupant: o, since: time.Now(), ready: make(chan struct{}), yielding: make(chan struct{})}
	t.left.Store(o.Items)
	s.executions[t] = struct{}{}
	s.occupied(len(s.executions) == 1, 1)
	s.queue = append(s.queue, t)
	s.lendFree()
	return t
}

// occupied reports to the tuner, if there is one and so is true, that slots, 1 or -1, have got a first batch or lost
// the last one. The lock is held.
func (s *slot) occupied(so bool, slots int) {
	if so && s.set.tuner != nil {
		s.set.tuner.Occupied(slots)
	}
}

// awaitPlace waits for the first place.
func (t *execution) awaitPlace(ctx context.Context) (calls.Slot, error) {
	select {
	case <-t.ready:
		return t, nil
	default:
	}
	late := time.NewTimer(placeWait)
	defer late.Stop()
	select {
	case <-t.ready:
		return t, nil
	case <-late.C:
	case <-ctx.Done():
	}
	t.Leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, calls.ErrNoSlot
}

// Describe returns the slot and its incarnation.
func (t *execution) Describe() wire.SlotRef { return t.slot.describe() }

// Timers returns the timers that the slot's process holds.
func (t *execution) Timers() []watchdog.Held {
	t.slot.mu.Lock()
	running := t.slot.program
	t.slot.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.client.Timers()
}

// Place waits for another place in the slot. A place that is given up goes to waiting batches, in their order, before
// the worker asks for another batch: so batches in hand end soon, and no slot gets more of them than it can use.
func (t *execution) Place(enough <-chan struct{}) calls.Place {
	s := t.slot
	s.mu.Lock()
	if !t.given {
		t.given = true
		s.mu.Unlock()
		return &callPlace{slot: s, execution: t}
	}
	w := &waiter{execution: t, lent: make(chan struct{})}
	if !t.gone {
		s.waiters = append(s.waiters, w)
		s.lendFree()
	}
	s.mu.Unlock()
	select {
	case <-w.lent:
		return &callPlace{slot: s, execution: t}
	case <-enough:
	}
	t.change(func() int {
		i := slices.Index(s.waiters, w)
		if i < 0 {
			return 1 // it came too late, or never, if the execution is gone
		}
		s.waiters = slices.Delete(s.waiters, i, i+1)
		return 0
	})
	return nil
}

// waiter is a execution that can use another place.
type waiter struct {
	execution *execution
	lent      chan struct{} // closed when it has it
}

// lendFree gives free places to waiting batches. The lock is held.
func (s *slot) lendFree() {
	for s.out == nil && s.busy < s.set.concurrency() {
		var t *execution
		switch {
		case len(s.queue) > 0:
			t, s.queue = s.queue[0], s.queue[1:]
			close(t.ready)
		case len(s.waiters) > 0:
			w := s.waiters[0]
			t, s.waiters = w.execution, s.waiters[1:]
			close(w.lent)
		default:
			return
		}
		s.busy++
		t.places++
	}
}

// Crowded reports whether a batch waits for its first place in the slot, or the slot has more places in use than it
// should.
func (t *execution) Crowded() bool {
	s := t.slot
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return true
	}
	if s.busy-s.leaving <= s.set.concurrency() {
		return false
	}
	s.leaving++ // others need not leave for the same reason
	return true
}

// Left notes for how many items no call has been begun.
func (t *execution) Left(items int64) {
	if before := t.left.Swap(items); before > 0 && items == 0 {
		t.slot.set.permits.Wake() // the slot may want another batch
	}
}

// Hold adds to the bytes of outcomes that are held back.
func (t *execution) Hold(bytes int64) (all int64) { return t.slot.held.Add(bytes) }

// Report returns when the batch should be reported.
func (t *execution) Report(ctx context.Context) {
	if permits := t.slot.set.permits; permits.Settle() {
		permits.Gather.Wait(ctx)
	}
}

// Leave gives all places up.
func (t *execution) Leave() { t.change(func() int { return max(1, t.places) }) }

// change gives up as many places as fn returns. The slot's lock is held while fn runs. With the last place the
// execution is gone: its calls are done, and it gets none again.
func (t *execution) change(fn func() int) {
	last := false
	t.slot.change(func() {
		n := fn()
		if t.gone || n == 0 {
			return
		}
		s := t.slot
		if t.places > 0 {
			s.busy -= n
			s.leaving = max(0, s.leaving-n)
			t.places -= n
		}
		if last = t.places == 0; last {
			t.gone = true
			delete(s.executions, t)
			s.occupied(len(s.executions) == 0, -1)
			s.queue = slices.DeleteFunc(s.queue, func(other *execution) bool { return other == t })
			s.waiters = slices.DeleteFunc(s.waiters, func(w *waiter) bool { return w.execution == t })
		}
		s.lendFree()
	})
	if last {
		t.slot.set.letIn(t.occupant)
		t.slot.set.permits.Vacate()
	} else {
		t.slot.set.permits.Wake()
	}
}

// place is where one call of an execution is made at a time.
type callPlace struct {
	slot      *slot
	execution *execution
	left      sync.Once

	// Memory for the calls of a program, one after the other.
	call  pending
	frame []byte
	// The items of the last call that was in hand when its program died, and with which others they are tried again:
	// nil if they have been. Only the goroutine that makes the calls uses it.
	group       *company.Group
	first, last int64
}

// Describe returns the slot and its incarnation.
func (p *callPlace) Describe() wire.SlotRef { return p.slot.describe() }

// Replace counts a Go handler's call that was left behind.
func (p *callPlace) Replace(free bool) bool {
	s := p.slot
	_, ok := s.replaced(errLeftBehind, free)
	s.set.observe(slotEvent{Kind: callLeft, Slot: s.number, Incarnation: p.Describe().Incarnation, Err: errLeftBehind, Free: free})
	return ok
}

var errLeftBehind = errors.New("its calls did not return after they had been cancelled")

// Answered notes that an item has been answered.
func (p *callPlace) Answered() { p.slot.proven() }

// Leave gives the place up.
func (p *callPlace) Leave() {
	p.left.Do(func() { p.execution.change(func() int { return 1 }) })
}

// concurrency returns how many calls a slot makes at once, at present.
func (r *slotSet) concurrency() int {
	if r.tuner != nil {
		return r.tuner.Limit()
	}
	return r.fixed
}

// most returns the most calls that a slot ever makes at once.
func (r *slotSet) most() int {
	if r.tuner != nil {
		return r.tuner.Most()
	}
	return r.fixed
}

// capacity returns the worker's slots and calls at once; with a tuner, the calls that it expects to make soon, and the
// present ones.
func (r *slotSet) capacity() wire.Capacity {
	c := wire.Capacity{Slots: len(r.slots), Concurrency: r.fixed}
	if r.tuner != nil {
		c.Concurrency, c.Found = r.tuner.Expected(), r.tuner.Limit()
	}
	return c
}

// observed returns the observer of the slots' calls: o, and the tuner if there is one.
func (r *slotSet) observed(o calls.Observer) calls.Observer {
	if r.tuner == nil {
		return o
	}
	return &tuned{o, r}
}

// tuned passes what calls show on to a tuner.
type tuned struct {
	calls.Observer
	set *slotSet
}

func (o *tuned) CallBegan(job string) {
	o.set.tuner.Began()
	o.Observer.CallBegan(job)
}

func (o *tuned) CallEnded(s calls.CallStats) {
	o.Observer.CallEnded(s)
	if o.set.tuner.Ended(tuning.Call{Took: s.Took, Items: s.Items, Failed: s.Failed, SlowDown: s.SlowDown}) {
		o.set.retuned()
	}
}

// retuned gives out the places of a new limit.
func (r *slotSet) retuned() {
	for _, s := range r.slots {
		s.change(s.lendFree)
	}
	r.permits.Wake()
}
