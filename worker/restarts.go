package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
)

// replaced counts another incarnation. A free one does not count as a restart: stint itself ended the process, or a
// fault was being narrowed down. Options.Restarts bounds how many others are allowed in a row. It returns how long to
// wait before the next one, and false if the slot is out.
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
		s.set.observe(slotEvent{Kind: slotOut, Slot: s.number, Err: s.isOut()})
		s.set.lost(s.isOut())
	}
	return wait, s.isOut() == nil
}

// proven notes that the incarnation has answered an item: the slot has all its restarts again.
func (s *slot) proven() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = 0
}

const (
	firstRestartWait = time.Second
	maxRestartWait   = time.Minute
)

// restartWait returns how long the n-th restart in a row waits: the first not at all, each later one twice as long as
// the one before.
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

// keep replaces the slot's program whenever it ends.
func (h *host) keep(s *slot, p *program) {
	for {
		select {
		case <-p.ended:
		case <-h.closing:
			s.change(func() { s.program = nil })
			p.goodbye()
			return
		}
		if p = h.replace(s, p); p == nil {
			return
		}
		s.change(func() { s.program = p })
	}
}

// replace starts incarnations of the slot, after old, until one is ready. It returns nil if the slot
// is out or the worker ends.
func (h *host) replace(s *slot, old *program) *program {
	event := slotEvent{Kind: slotReplaced, Slot: s.number, PID: old.pid(), Incarnation: old.incarnation, Err: old.fate, Free: old.free}
	for {
		var ok bool
		event.Wait, ok = s.replaced(event.Err, event.Free)
		event.Incarnation++
		h.observe(event)
		if !ok || !backoff.Wait(event.Wait, h.closing) {
			return nil
		}
		p, err := h.launchAgain(s, event.Incarnation)
		switch {
		case err == nil:
			return p
		case errors.Is(err, errClosing):
			return nil
		}
		event.PID, event.Err, event.Free = 0, err, false
	}
}

// patience is how long a worker bears it that nothing can be begun in a slot.
type patience struct {
	// stay is how long calls wait in the slot. After that its batches go back to the queue, and it takes one at a time
	// to try again.
	stay time.Duration
	// limit is when the slot is out, and missing the same if it is not for want of resources and the worker has never
	// begun anything.
	limit, missing time.Duration
	// first and most are the waits between tries, which double.
	first, most time.Duration
}

var usualPatience = patience{stay: 10 * time.Second, limit: 5 * time.Minute, missing: 10 * time.Second, first: 100 * time.Millisecond, most: 10 * time.Second}

// limitOf is after which time a slot is out that cannot begin anything for this reason.
func (p patience) limitOf(why error, ever bool) time.Duration {
	if ever || lacksResources(why) {
		return p.limit
	}
	return p.missing
}

// lacksResources reports whether an error says that the system gives out no more of something.
func lacksResources(err error) bool {
	lacks := []error{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}
	return slices.ContainsFunc(lacks, func(lack error) bool { return errors.Is(err, lack) })
}

// shortage is why a slot cannot begin a process at present. The zero value: it can.
type shortage struct {
	why   error
	since time.Time
	tries int
	until time.Time // of the next try
}

// lasts reports whether batches should not wait for its end.
func (s *shortage) lasts(p patience) bool { return s.why != nil && time.Since(s.since) >= p.stay }

// isUnbegun reports whether an error says that something could not be begun.
func isUnbegun(err error) bool {
	_, ok := errors.AsType[*calls.UnbegunError](err)
	return ok
}

// unbegun notes that a process could not be begun in the slot, which is nobody's fault but the worker's. It returns how
// long to wait before another try, and false if the batch should not wait for that.
func (s *slot) unbegun(why error) (wait time.Duration, stay bool) {
	r, now, out := s.set, time.Now(), false
	s.change(func() {
		if s.short.why == nil || now.Sub(s.short.until) > r.patience.stay { // nobody has tried since then
			s.short = shortage{since: now}
		}
		s.short.why = why
		if !now.Before(s.short.until) { // of several calls that fail at once, one counts
			s.short.tries++
			s.short.until = now.Add(backoff.Delay(r.patience.first, s.short.tries, r.patience.most))
		}
		wait = time.Until(s.short.until)
		limit := r.patience.limitOf(why, r.lack.ever.Load())
		if lasted := now.Sub(s.short.since); s.out == nil && lasted >= limit {
			s.out = fmt.Errorf("slot %d is out, because nothing could be begun in it for %v: %w", s.number, lasted.Round(time.Second), why)
			out = true
		}
		stay = s.out == nil && !s.short.lasts(r.patience)
	})
	r.lack.say(r, slotEvent{Kind: slotShort, Slot: s.number, Err: why, Wait: wait})
	switch {
	case out:
		r.observe(slotEvent{Kind: slotOut, Slot: s.number, Err: s.isOut()})
		r.lost(s.isOut())
	case !stay:
		trap.After(wait, "looking for batches again", nil, r.permits.Wake)
	}
	return wait, stay
}

// begun notes that a process was begun in the slot.
func (s *slot) begun() {
	s.set.lack.ever.Store(true)
	s.mu.Lock()
	was := s.short
	s.mu.Unlock()
	if was.why == nil {
		return
	}
	s.change(func() { s.short = shortage{} })
	s.set.permits.Wake()
	s.set.lack.over(s.set, slotEvent{Kind: slotAble, Slot: s.number, Wait: time.Since(was.since).Round(time.Millisecond)})
}

// awaitResources waits after a call could not be begun in the slot. It returns false if the batch should give its items
// back.
func (s *slot) awaitResources(c *calls.Call, why error) bool {
	wait, stay := s.unbegun(why)
	return stay && backoff.Wait(wait, c.Soon())
}

// lack is what a worker's slots lack, together: so that a log is not flooded.
type lack struct {
	ever atomic.Bool // something has been begun

	mu   sync.Mutex
	said time.Time
	open bool // its end has not been said
}

// sayEvery is how often a worker says that it cannot begin anything.
const sayEvery = 30 * time.Second

func (l *lack) say(r *slotSet, e slotEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.said.IsZero() || now.Sub(l.said) >= sayEvery {
		l.said, l.open = now, true
		r.observe(e)
	}
}

func (l *lack) over(r *slotSet, e slotEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.open = false
		r.observe(e)
	}
}

// launchFirst starts the first program of a slot. While the system has no room for it, that is tried again until ctx
// ends.
func (h *host) launchFirst(ctx context.Context, s *slot) (*program, error) {
	for try := 1; ; try++ {
		p, err := h.launchReady(ctx, s, 0)
		if !isUnbegun(err) || !lacksResources(err) {
			return p, err
		}
		h.set.lack.say(h.set, slotEvent{Kind: slotShort, Slot: s.number, Err: err})
		if !backoff.Wait(backoff.Delay(h.set.patience.first, try, h.set.patience.most), ctx.Done()) {
			return nil, err
		}
	}
}

// launchAgain starts a further incarnation of a slot. While that cannot be begun it is tried again, which is no
// restart, until the slot is out or the worker ends.
func (h *host) launchAgain(s *slot, incarnation int) (*program, error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), h.options.Ready)
		p, err := h.launchReady(ctx, s, incarnation)
		cancel()
		if !isUnbegun(err) {
			return p, err
		}
		wait, _ := s.unbegun(err)
		if s.isOut() != nil || !backoff.Wait(wait, h.closing) {
			return nil, errClosing
		}
	}
}
