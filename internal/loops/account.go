package loops

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// State is what an execution that is lost from now on has done. Any goroutine may call it.
func (s *Slot) State() job.LoopSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.recorded
	doubt := s.doubt(time.Now())
	state.Doubt = max(state.Doubt, doubt)
	state.Stats.Repeated = s.repeated
	state.Unsure = max(0, min(doubt, s.from.Doubt)-s.handed)
	return state
}

// Final is what the execution has done, once the sink has committed it.
func (s *Slot) Final() job.LoopSlot {
	s.settled(s.o.Entry())
	s.mu.Lock()
	defer s.mu.Unlock()
	return certain(s.recorded)
}

// Broken is what an execution has done that has failed, and does not begin another tick. Any goroutine may call it.
func (s *Slot) Broken() job.LoopSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.recorded
	state.Doubt = max(state.Doubt, s.handed)
	state.Stats.Repeated = s.repeated
	return certain(state)
}

// certain leaves out the doubt of a slot that has recorded all that may have been run.
func certain(state job.LoopSlot) job.LoopSlot {
	if state.Next >= state.Doubt {
		state.Doubt = 0
	}
	return state
}

// settled notes that what entry counts, all that the execution has recorded, cannot be lost any more.
func (s *Slot) settled(entry wire.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.now
	r.Next = s.from.Next + entry.Count
	r.Head = s.parts.head
	r.Stats.OK = s.from.Stats.OK + entry.OK
	r.Stats.Failed = s.from.Stats.Failed + entry.Failed
	r.Stats.Dropped = s.from.Stats.Dropped + entry.Dropped
	r.Stats.Lateness = append([]int64(nil), s.now.Stats.Lateness...)
	s.recorded = r
}

// begun notes how many ticks have begun, when the next one is due, and how many begin within a period of heartbeats.
func (s *Slot) begun(ticks int64, next time.Time, pace int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed, s.next, s.rate, s.repeated = ticks, next, pace, s.now.Stats.Repeated
}

// doubt is the ordinal up to which ticks may have begun before another heartbeat says more. The next one may leave a period
// later, and reach the server a period after that; the third is for a machine that is busy.
func (s *Slot) doubt(now time.Time) int64 {
	ahead := doubted*s.rate + 1 // as fast as they have begun
	if every := s.clock.Every; every > 0 {
		due := int64(0)
		if late := now.Add(doubted * BeatTime).Sub(s.next); late >= 0 {
			due = int64(late/every) + 1
		}
		if s.next.After(now) { // on time, so none begins before it is due
			ahead = due
		}
		ahead = min(max(ahead, int64(doubted*BeatTime/every)+1), due)
	}
	return s.handed + ahead
}
