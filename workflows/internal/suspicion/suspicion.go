// Package suspicion narrows a batch whose workers keep dying down to the item that kills them, by
// halving. It is pure arithmetic over the ordinals of one batch.
//
// The first items of the batch run alone, half of the suspected ones at a time. If they survive, they
// have their outcomes, and the suspects are among the others; if their worker dies, only they are
// suspected. So a bad item among n costs log2(n) + 2 deaths after the attempts of the batch. If the last
// heartbeat says which items were in hand, these are the first suspects.
//
// Only what happens while an item runs alone condemns it: two deaths of workers, or three ends of whole processes,
// which people restart, too. The two have their own counts. Errors and rests say nothing of an item.
package suspicion

import (
	"fmt"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
)

// Suspicion decides what is done about a [wire.Suspicion].
type Suspicion wire.Suspicion

// Of returns a suspicion as what decides about it: both are one object.
func Of(s *wire.Suspicion) *Suspicion { return (*Suspicion)(s) }

const (
	// SingleTries is how many workers may die of an item that runs alone, until it is condemned.
	SingleTries = 2
	// EndedTries is how many processes may end with an item that runs alone, until it is condemned: a person may have
	// ended them.
	EndedTries = 3
	// VerdictTries is how many workers may die at least before it is given up to record what is condemned.
	VerdictTries = 3
)

// Suspected reports whether there is a suspicion.
func (s *Suspicion) Suspected() bool { return s.Suspects > 0 || s.Ahead > 0 }

// Alone reports whether nothing else should run beside the batch.
func (s *Suspicion) Alone() bool { return s.Suspects == 1 && s.Ahead == 0 && !s.Condemned }

// Take returns how many items the next execution does; 0: all.
func (s *Suspicion) Take() int64 {
	switch {
	case s.Ahead > 0:
		return s.Ahead
	case s.Suspects > 1:
		return s.Suspects / 2
	}
	return s.Suspects
}

// Describe says, for people, what the next execution does about it.
func (s *Suspicion) Describe() string {
	switch {
	case s.Condemned:
		return "recording the item that its workers died of"
	case s.Alone():
		return "trying its first item alone"
	}
	return fmt.Sprintf("trying its first %s items alone", text.Thousands(s.Take()))
}

// Begin starts to suspect a batch. hint is what the last heartbeat said; nil if nothing.
func (s *Suspicion) Begin(batch wire.Batch, hint *wire.Hint) {
	s.Suspects = batch.Count
	if hint == nil || hint.First < batch.First || hint.Count < 1 || hint.First+hint.Count > batch.End() {
		return
	}
	s.Ahead, s.InHand, s.Hinted = hint.First-batch.First, hint.Count, true
	s.Suspects = s.InHand
}

// Died narrows the suspicion after an execution that its worker did not survive.
func (s *Suspicion) Died() {
	switch {
	case s.Condemned:
		s.Unwritten++
	case s.Alone():
		s.Single++
		s.Condemned = s.Single >= SingleTries
	default:
		s.narrow()
	}
}

// ProcessEnded narrows the suspicion after an execution whose whole process has ended, which another one has replaced.
func (s *Suspicion) ProcessEnded() {
	switch {
	case s.Condemned: // it was not even called
	case s.Alone():
		s.Ended++
		s.Condemned = s.Ended >= EndedTries
	default:
		s.narrow()
	}
}

// narrow leaves those suspects that were in hand.
func (s *Suspicion) narrow() {
	took := s.Take()
	if s.Ahead > 0 {
		s.Ahead, s.Hinted = 0, false // the hint was wrong
	}
	s.Suspects = took
}

// Survived narrows the suspicion after the first done items have got outcomes; left are without one. An execution that
// has done none says nothing.
func (s *Suspicion) Survived(done, left int64) {
	if done == 0 {
		return
	}
	s.Single, s.Ended, s.Deaths = 0, 0, 0
	switch {
	case s.Condemned:
		*s = Suspicion{}
		return
	case s.Ahead > done:
		s.Ahead -= done
		return
	case s.Ahead > 0:
		s.Suspects, s.Ahead = s.InHand-(done-s.Ahead), 0
	default:
		s.Suspects -= done
	}
	if s.Suspects > 0 {
		return
	}
	if s.Hinted {
		*s = Suspicion{Suspects: left}
		return
	}
	*s = Suspicion{} // the trouble has passed
}
