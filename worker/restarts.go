package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/backoff"
)

// replaced counts another incarnation. A free one does not count as a restart: stint itself ended the process, or a fault was
// being narrowed down. Options.Restarts bounds how many others are allowed in a row.
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
		s.roster.observe(slotEvent{Kind: slotOut, Slot: s.number, Err: s.isOut()})
		s.roster.lost(s.isOut())
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

// restartWait is how long the n-th restart in a row waits: the first not at all, each later one twice as long as the one before.
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
		if !ok || !h.sleep(event.Wait) {
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

// sleep waits. It returns false if the host closes meanwhile.
func (h *host) sleep(d time.Duration) bool {
	return backoff.Wait(d, h.closing)
}
