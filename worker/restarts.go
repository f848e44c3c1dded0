package worker

import (
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
		s.roster.observe(SlotEvent{Kind: SlotOut, Slot: s.number, Err: s.isOut()})
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
