package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/backoff"
	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/permits"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/timers"
)

// roster is a worker's slots. It assigns places in them to the executions of batches: a slot has as
// many places as it may run calls at once. It is safe for concurrent use.
type roster struct {
	worker      string
	concurrency int
	permits     *permits.Permits
	observe     func(SlotEvent)

	waiting atomic.Int32 // batches without a place

	mu      sync.Mutex
	slots   []*slot
	changed chan struct{} // closed, and replaced, when a place may have become free
	gone    chan struct{} // closed when the last slot is out
	why     error         // why that was; set before gone is closed
}

func newRoster(worker string, o Options, p *permits.Permits, observe func(SlotEvent)) *roster {
	r := &roster{
		worker: worker, concurrency: o.Concurrency, permits: p, observe: observe,
		changed: make(chan struct{}), gone: make(chan struct{}),
	}
	for i := range o.Slots {
		r.slots = append(r.slots, &slot{roster: r, number: i, restarts: o.Restarts, changed: make(chan struct{}), tenants: map[*tenant]struct{}{}})
	}
	return r
}

// placeWait is how long a batch waits for its first place while others, which make several calls at once, have all of
// them. After that it is returned to the queue: another worker may have a place.
const placeWait = 2 * time.Second

// Take waits for a place.
func (r *roster) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	t, changed := r.try(o)
	if t != nil {
		return t, nil
	}
	r.waiting.Add(1)
	defer r.arrived()
	var late <-chan time.Time
	if r.concurrency > 1 {
		late = time.After(placeWait)
	}
	for {
		select {
		case <-changed:
		case <-late:
			return nil, calls.ErrNoSlot
		case <-r.gone:
			return nil, calls.ErrNoSlot
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if t, changed = r.try(o); t != nil {
			return t, nil
		}
	}
}

// arrived notes that a batch waits no more. What it has left free is for others.
func (r *roster) arrived() {
	if r.waiting.Add(-1) > 0 {
		return
	}
	for _, s := range r.slots {
		s.mu.Lock()
		s.lendFree()
		s.mu.Unlock()
	}
}

// try takes a place in the first of the emptiest slots, and prefers one that is ready.
func (r *roster) try(o calls.Occupant) (*tenant, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var best *slot
		most := 0
		for _, s := range r.slots {
			if room := s.room(); room > most {
				best, most = s, room
			}
		}
		if best == nil {
			return nil, r.changed
		}
		if t := best.admit(o); t != nil { // nil if another batch has just taken the place
			return t, nil
		}
	}
}

// admit gives the batch a place, if there is one still.
func (s *slot) admit(o calls.Occupant) *tenant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil || s.busy >= s.roster.concurrency {
		return nil
	}
	t := &tenant{slot: s, occupant: o, since: time.Now(), places: 1}
	s.tenants[t] = struct{}{}
	s.busy++
	return t
}

// wake wakes those who wait for a place.
func (r *roster) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// lost notes that a slot is out. Its permits are withdrawn. Several slots can go out at once: each of
// them then finds that none is left, and the first one counts.
func (r *roster) lost(why error) {
	r.permits.Withdraw(r.concurrency)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return
	}
	for _, s := range r.slots {
		if s.isOut() == nil {
			return
		}
	}
	r.why = fmt.Errorf("no slot is left: %w", why)
	close(r.gone)
}

// slot is one of a worker's positions for running calls.
type slot struct {
	roster   *roster
	number   int
	restarts int // that it may have in a row

	mu          sync.Mutex
	changed     chan struct{} // closed, and replaced, when a field below has changed
	incarnation int
	failed      int // incarnations that have ended in a row without an answered call
	program     *program
	resting     time.Time // until when no call should be made
	calls       int       // that its program has in hand
	suspects    int       // calls that must be alone with the program, or wait for that
	out         error     // why the slot runs no calls any more
	tenants     map[*tenant]struct{}
	busy        int       // places that they have
	waiters     []*waiter // for further places

	held atomic.Int64 // bytes of outcomes that are held back
}

// room says how good a choice the slot is for another batch, more is better; 0: it takes none.
func (s *slot) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil || s.busy >= s.roster.concurrency {
		return 0
	}
	free := 2 * (s.roster.concurrency - s.busy)
	if s.program != nil {
		free++
	}
	return free
}

// describe returns the slot and its incarnation.
func (s *slot) describe() protocol.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := protocol.Place{Worker: s.roster.worker, Slot: s.number, Incarnation: s.incarnation, PID: ownPID}
	if s.program != nil {
		at.PID = s.program.pid()
	}
	return at
}

func (s *slot) isOut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

// change applies fn and wakes those who wait for a change of the slot.
func (s *slot) change(fn func()) {
	s.mu.Lock()
	fn()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.roster.wake()
}

// replaced counts another incarnation. A free one does not count in the budget: stint itself ended the
// process, or a fault was being narrowed down. The budget bounds how many others are allowed in a row.
// It returns how long to wait before the next one, and false if the slot is out.
func (s *slot) replaced(why error, free bool) (wait time.Duration, ok bool) {
	out := false
	s.change(func() {
		s.program = nil
		s.incarnation++
		if free || s.out != nil {
			return
		}
		s.failed++
		if s.failed > s.restarts {
			s.out = fmt.Errorf("slot %d is out after %d restarts in a row: %w", s.number, s.restarts, why)
			out = true
		}
		wait = restartWait(s.failed)
	})
	if out {
		s.roster.observe(SlotEvent{Kind: SlotOut, Slot: s.number, Err: s.isOut()})
		s.roster.lost(s.isOut())
	}
	return wait, s.isOut() == nil
}

// proven notes that the incarnation has answered an item: the slot has its full budget of restarts again.
func (s *slot) proven() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = 0
}

const (
	firstRestartWait = time.Second
	maxRestartWait   = time.Minute
)

// restartWait is how long the n-th restart in a row waits: the first one not at all, the others for
// twice as long each time.
func restartWait(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return backoff.Delay(firstRestartWait, n-1, maxRestartWait)
}

// rest pauses the slot's calls for a while.
func (s *slot) rest(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting = time.Now().Add(d)
}

// ready waits until the slot's program may be called. A suspect is alone with it: no other call is
// made until release. It returns nil if the batch should end first.
func (s *slot) ready(soon <-chan struct{}, suspect bool) (p *program, err error) {
	if suspect {
		s.mu.Lock()
		s.suspects++
		s.mu.Unlock()
		defer func() {
			if p == nil {
				s.change(func() { s.suspects-- })
			}
		}()
	}
	for {
		s.mu.Lock()
		p, out, changed, rest := s.program, s.out, s.changed, time.Until(s.resting)
		if p != nil && p.over() {
			p = nil // the slot is about to notice it
		}
		if suspect && s.calls > 0 || !suspect && s.suspects > 0 {
			p = nil // release wakes it
		}
		if p != nil && out == nil && rest <= 0 {
			s.calls++
			s.mu.Unlock()
			return p, nil
		}
		s.mu.Unlock()
		if out != nil {
			return nil, calls.ErrNoSlot
		}
		var rested <-chan time.Time
		if p != nil {
			rested = time.After(rest)
		}
		select {
		case <-changed:
		case <-rested:
		case <-soon:
			return nil, nil
		}
	}
}

// release notes the end of a call that ready has allowed.
func (s *slot) release(suspect bool) {
	s.mu.Lock()
	s.calls--
	awaited := s.suspects > 0
	s.mu.Unlock()
	if awaited {
		s.change(func() {
			if suspect {
				s.suspects--
			}
		})
	}
}

// tenant is an execution in a slot. Its fields are guarded by the slot's lock.
type tenant struct {
	slot     *slot
	occupant calls.Occupant
	since    time.Time

	places int  // that it has
	given  bool // the first one is in use
	left   bool
}

// Describe returns the slot and its incarnation.
func (t *tenant) Describe() protocol.Place { return t.slot.describe() }

// Timers returns the timers that the slot's process holds.
func (t *tenant) Timers() []timers.Held {
	t.slot.mu.Lock()
	running := t.slot.program
	t.slot.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.client.Timers()
}

// Place waits for another place in the slot. A place that is given up goes to those who wait, in their order, before
// the worker asks for another batch: those in hand end soon, and no slot gets more of them than it can use.
func (t *tenant) Place(enough <-chan struct{}) calls.Place {
	s := t.slot
	s.mu.Lock()
	switch {
	case !t.given:
		t.given = true
		s.mu.Unlock()
		return &place{slot: s, tenant: t}
	case s.busy < s.roster.concurrency && !t.left && s.out == nil && !t.Crowded():
		s.lend(t)
		s.mu.Unlock()
		return &place{slot: s, tenant: t}
	}
	w := &waiter{tenant: t, lent: make(chan struct{})}
	s.waiters = append(s.waiters, w)
	s.mu.Unlock()
	select {
	case <-w.lent:
		return &place{slot: s, tenant: t}
	case <-enough:
	}
	s.change(func() {
		if i := slices.Index(s.waiters, w); i >= 0 {
			s.waiters = slices.Delete(s.waiters, i, i+1)
		} else {
			t.give(1) // it came too late
		}
	})
	return nil
}

// waiter is a tenant that can use another place.
type waiter struct {
	tenant *tenant
	lent   chan struct{} // closed when it has it
}

// lend gives the tenant another place. The lock is held.
func (s *slot) lend(t *tenant) {
	s.busy++
	t.places++
	s.roster.permits.Further()
}

// lendFree gives free places to those who wait. The lock is held.
func (s *slot) lendFree() {
	for len(s.waiters) > 0 && s.busy < s.roster.concurrency && s.out == nil && s.roster.waiting.Load() == 0 {
		w := s.waiters[0]
		s.waiters = s.waiters[1:]
		s.lend(w.tenant)
		close(w.lent)
	}
}

// Crowded reports whether a batch waits for a place.
func (t *tenant) Crowded() bool { return t.slot.roster.waiting.Load() > 0 }

// Hold adds to the bytes of outcomes that are held back.
func (t *tenant) Hold(bytes int64) (all int64) { return t.slot.held.Add(bytes) }

// Report returns when the batch should be reported.
func (t *tenant) Report(ctx context.Context) {
	if permits := t.slot.roster.permits; permits.Settle() {
		permits.Gather.Wait(ctx)
	}
}

// Leave gives all places up.
func (t *tenant) Leave() {
	t.slot.change(func() { t.give(t.places) })
}

// give gives up so many places. The slot's lock is held.
func (t *tenant) give(n int) {
	if t.left || n == 0 {
		return
	}
	s := t.slot
	s.busy -= n
	t.places -= n
	last := t.places == 0
	if last {
		t.left = true // its calls are done: it gets no place again
		delete(s.tenants, t)
		s.waiters = slices.DeleteFunc(s.waiters, func(w *waiter) bool { return w.tenant == t })
	}
	s.lendFree()
	if last {
		s.roster.permits.Return(n - 1)
		s.roster.permits.Vacate()
	} else {
		s.roster.permits.Return(n)
	}
}

// place is where one call of an execution is made at a time.
type place struct {
	slot   *slot
	tenant *tenant
	left   sync.Once

	// Memory for the calls of a program, one after the other.
	call  pending
	frame []byte
	// suspect: the last call was one of several in hand when their program ended, and any of them may
	// have caused that. Only the goroutine that makes the calls uses it.
	suspect bool
}

// Describe returns the slot and its incarnation.
func (p *place) Describe() protocol.Place { return p.slot.describe() }

// Replace counts a Go handler's call that was left behind.
func (p *place) Replace(free bool) bool {
	s := p.slot
	_, ok := s.replaced(errLeftBehind, free)
	s.roster.observe(SlotEvent{Kind: CallLeft, Slot: s.number, Incarnation: p.Describe().Incarnation, Err: errLeftBehind, Free: free})
	return ok
}

var errLeftBehind = errors.New("its calls did not return after they had been cancelled")

// Answered notes that an item has been answered.
func (p *place) Answered() { p.slot.proven() }

// Leave gives the place up.
func (p *place) Leave() {
	p.left.Do(func() { p.slot.change(func() { p.tenant.give(1) }) })
}
