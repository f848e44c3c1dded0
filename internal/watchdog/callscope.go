package watchdog

import (
	"sync/atomic"
	"time"
)

// Scope is one timer that is acquired and released over and over by a single goroutine, millions
// of times if need be, and watched by another. Acquiring it costs one atomic addition and does not read a clock: the watcher
// counts a scope's time from when it first saw the holding, so a scope expires between its limit and its limit plus one
// watching interval. The zero value is
// released.
type Scope struct {
	seq atomic.Uint64 // odd while acquired

	// The watcher's own notes.
	seen      uint64
	seenSince time.Time
}

// Acquire starts the scope's countdown anew and returns the number of this holding.
func (s *Scope) Acquire() (held uint64) {
	if s.seq.Load()%2 == 0 {
		return s.seq.Add(1)
	}
	return s.seq.Add(2)
}

// Release ends the countdown. Releasing what is not held does nothing.
func (s *Scope) Release() {
	if s.seq.Load()%2 == 1 {
		s.seq.Add(1)
	}
}

// End releases the scope if it is still in the given holding, and reports whether it was: if two goroutines end the same holding, one succeeds.
func (s *Scope) End(held uint64) bool { return held%2 == 1 && s.seq.CompareAndSwap(held, held+1) }

// Watch returns how long the scope has been held at now, as far as its watcher has seen (0 when it
// is released or newly acquired), and a number that identifies this holding. Only one
// goroutine may watch a scope.
func (s *Scope) Watch(now time.Time) (held uint64, age time.Duration) {
	held = s.seq.Load()
	if held != s.seen {
		s.seen, s.seenSince = held, now
		return held, 0
	}
	if held%2 == 0 {
		return held, 0
	}
	return held, now.Sub(s.seenSince)
}

// Held returns the number of the present holding; it is even if the scope is released.
func (s *Scope) Held() uint64 { return s.seq.Load() }

// Holds reports whether the scope is still in the holding that Watch has returned.
func (s *Scope) Holds(held uint64) bool { return s.seq.Load() == held }
