package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
		r.slots = append(r.slots, &slot{roster: r, number: i, restarts: o.Restarts, changed: make(chan struct{}), places: map[*place]struct{}{}})
	}
	return r
}

// Take waits for a place.
func (r *roster) Take(ctx context.Context, o calls.Occupant) (calls.Slot, error) {
	for {
		p, changed := r.try(o)
		if p != nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-r.gone:
			return nil, calls.ErrNoSlot
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try takes a place in the first of the emptiest slots, and prefers one that is ready.
func (r *roster) try(o calls.Occupant) (*place, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
	p := &place{slot: best, occupant: o, since: time.Now()}
	best.mu.Lock()
	best.places[p] = struct{}{}
	best.mu.Unlock()
	return p, nil
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
	places      map[*place]struct{}
}

// room says how good a choice the slot is for another batch, more is better; 0: it takes none.
func (s *slot) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil || len(s.places) >= s.roster.concurrency {
		return 0
	}
	free := 2 * (s.roster.concurrency - len(s.places))
	if s.program != nil {
		free++
	}
	return free
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

// place is an execution's place in a slot.
type place struct {
	slot     *slot
	occupant calls.Occupant
	since    time.Time
	left     sync.Once

	// Memory for the calls of a program, one after the other.
	call  pending
	frame []byte
	// suspect: the last call was one of several in hand when their program ended, and any of them may
	// have caused that. Only the goroutine that makes the calls uses it.
	suspect bool
}

// Describe returns the slot and its incarnation.
func (p *place) Describe() protocol.Place {
	s := p.slot
	s.mu.Lock()
	defer s.mu.Unlock()
	at := protocol.Place{Worker: s.roster.worker, Slot: s.number, Incarnation: s.incarnation, PID: ownPID}
	if s.program != nil {
		at.PID = s.program.pid()
	}
	return at
}

// Timers returns the timers that the slot's process holds.
func (p *place) Timers() []timers.Held {
	p.slot.mu.Lock()
	running := p.slot.program
	p.slot.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.client.Timers()
}

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

// Report returns when the batch should be reported.
func (p *place) Report(ctx context.Context) {
	if permits := p.slot.roster.permits; permits.Settle() {
		permits.Gather.Wait(ctx)
	}
}

// Leave gives the place up.
func (p *place) Leave() {
	p.left.Do(func() {
		p.slot.change(func() { delete(p.slot.places, p) })
		p.slot.roster.permits.Vacate()
	})
}
