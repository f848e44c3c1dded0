package loops

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/ledger"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
)

const (
	// PartTime is about how long a part takes its results.
	PartTime = 10 * time.Second
	// BeatTime is about how often an execution says how far it has come.
	BeatTime = time.Second
	// doubted is how many periods may pass before the server knows more than a heartbeat says.
	doubted = 3
)

// Options are what a slot needs of the execution that runs it.
type Options struct {
	// Ref is the job's; Dir its store, nil if results are not kept.
	Ref ledger.Ref
	Dir store.Dir
	// Soon is closed when the execution should end.
	Soon <-chan struct{}
	// Entry returns what the execution has recorded so far. It is called while no tick is in hand.
	Entry func() ledger.Entry
	// Write gives the sink all results of what is recorded. It is called while no tick is in hand.
	Write func() error
}

// Slot is one execution of a loop's slot: the source of its ticks and the sink of their outcomes. Process asks for a tick only
// once the one before has its outcome: one goroutine at a time uses it, but for State.
//
// What a lost execution has done counts as far as its last heartbeat says: with an output up to its last part, without one
// up to the last tick. So State lags behind what has been run.
type Slot struct {
	ticks
	parts
	o     Options
	clock protocol.Clock
	from  protocol.ClockSlot // where the execution began
	// now is where it is. Its Stats count ticks that have begun, Skipped those before the tick in hand.
	now protocol.ClockSlot

	mu       sync.Mutex
	recorded protocol.ClockSlot // what cannot be lost, once a heartbeat has said so
	handed   int64              // ordinal after the last tick that has begun
	next     time.Time          // when the one after it is due
	rate     int64              // how many begin within a period of heartbeats
	repeated int64              // how many that have begun may have been run before
}

// New begins an execution of a slot, which is to run batch. The caller must close it.
func New(ctx context.Context, clock protocol.Clock, batch protocol.Batch, o Options) *Slot {
	s := &Slot{o: o, clock: clock, from: clock.ClockSlot}
	s.from.Next = batch.First
	s.now = s.from
	s.now.Stats.Lateness = append([]int64(nil), s.from.Stats.Lateness...)
	s.ticks = ticks{slot: s, batch: batch, began: batch.First, shape: records.Shape{Format: records.JSONL, MaxItem: maxTick}}
	s.parts = parts{slot: s, ctx: ctx, first: batch.First, head: s.from.Head, series: ledger.NewToken(), sweep: startSweep(ctx, o.Dir, s.from.Head)}
	s.recorded = s.from
	next := time.Now()
	if clock.Every > 0 {
		s.setBase()
		next = s.ticks.due()
	}
	s.recorded.Base = s.now.Base
	s.begun(batch.First, next, 0)
	return s
}

// maxTick is far more than the bytes of a tick as an item.
const maxTick = 1 << 10

// State is what an execution that is lost from now on has done. Any goroutine may call it.
func (s *Slot) State() protocol.ClockSlot {
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
func (s *Slot) Final() protocol.ClockSlot {
	s.settled(s.o.Entry())
	s.mu.Lock()
	defer s.mu.Unlock()
	return certain(s.recorded)
}

// Broken is what an execution has done that has failed, and does not begin another tick. Any goroutine may call it.
func (s *Slot) Broken() protocol.ClockSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.recorded
	state.Doubt = max(state.Doubt, s.handed)
	state.Stats.Repeated = s.repeated
	return certain(state)
}

// certain leaves out the doubt of a slot that has recorded all that may have been run.
func certain(state protocol.ClockSlot) protocol.ClockSlot {
	if state.Next >= state.Doubt {
		state.Doubt = 0
	}
	return state
}

// settled notes that what entry counts, all that the execution has recorded, cannot be lost any more.
func (s *Slot) settled(entry ledger.Entry) {
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

// pause lets what is recorded become what cannot be lost, if it is time, before the next tick.
func (s *Slot) pause() error {
	entry := s.o.Entry()
	if s.clock.Keep {
		if !s.parts.due(entry) {
			return nil
		}
		if err := s.o.Write(); err != nil {
			return err
		}
		if err := s.parts.cut(s.o.Entry()); err != nil {
			return err
		}
	}
	s.settled(entry)
	return nil
}

// Name is what people know the slot by.
func (s *Slot) Name() string { return fmt.Sprintf("loop %s, slot %d", s.o.Ref.Job, s.clock.Slot) }
