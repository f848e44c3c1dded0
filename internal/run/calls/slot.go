package calls

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/wire"
)

// Slots assigns executions of Process to the slots of a worker. A Slots is safe for concurrent use.
type Slots interface {
	// Take waits for a place in a slot. It fails with ErrNoSlot if the worker has no slot left, or no place in
	// due time.
	Take(ctx context.Context, o Occupant) (Slot, error)
}

// Slot is a slot of a worker, as an execution uses it that has one place in it, or more: each is for one call at a
// time. It is safe for concurrent use.
type Slot interface {
	// Describe returns the slot's description, for reports.
	Describe() wire.SlotRef
	// Timers returns the timers that the slot's process holds, the earliest deadline first.
	Timers() []watchdog.Held
	// Place returns the next place: the first one at once, each further one when the slot can make one call more
	// at once, but none once the last one has been left. It returns nil when enough is closed before.
	Place(enough <-chan struct{}) Place
	// Crowded reports whether another execution waits for its first place in the slot, or the slot should make fewer
	// calls at once: the caller should then give one of its places up, unless it is its last.
	Crowded() bool
	// Left says for how many items of the execution no call has been begun.
	Left(items int64)
	// Yield is closed when the execution should return its rest after the calls in hand, because one of a higher priority
	// waits for a slot; nil: it never should.
	Yield() <-chan struct{}
	// Hold adds to the bytes of outcomes that the execution holds back, or takes some away. It returns how many
	// all executions in the slot hold back.
	Hold(bytes int64) (all int64)
	// Leave gives up the execution's places, once no calls are left to be made. It is idempotent.
	Leave()
	// Report returns when a batch that has left, and whose results are durable, should be reported, or when
	// ctx is done: batches that finish shortly after each other are reported together.
	Report(ctx context.Context)
}

// Place is where one goroutine makes calls of an execution, one after the other.
type Place interface {
	// Describe returns the slot's description, for reports.
	Describe() wire.SlotRef
	// Replace reports that the call in hand was abandoned: what runs it is replaced. It returns false if
	// this has happened too often in a row: the slot is then out. A free replacement does not count,
	// because the call had to end for a reason that is not its own, such as a stop.
	Replace(free bool) bool
	// Answered reports that an item has been answered: what follows is not in a row with what was before.
	Answered()
	// Leave gives the place up. It is idempotent.
	Leave()
}

// Occupant is what a slot is taken for.
type Occupant struct {
	Job   string `json:"job"`
	Batch string `json:"batch"` // as people read it: "items 12,000–12,999"
	Items int64  `json:"items"` // for which calls are to be made
	// Priority is that of the job: 1 goes before 2.
	Priority int `json:"priority,omitempty"`
	// Alone: no other batch should be in a slot of the worker meanwhile.
	Alone bool `json:"alone,omitempty"`
}

// ErrNoSlot says that the worker has lost all its slots. Its batches go to other workers.
var ErrNoSlot = errors.New("the worker has no slot left")

// AnySlot is for workers that do not distinguish slots. Each execution makes up to Concurrency calls at once: 0 is 1.
type AnySlot struct{ Concurrency int }

// Take gives the execution a slot of its own.
func (s AnySlot) Take(context.Context, Occupant) (Slot, error) {
	return &ownSlot{places: make(chan struct{}, max(1, s.Concurrency))}, nil
}

// ownSlot is a slot of one execution.
type ownSlot struct {
	places chan struct{} // has an element for each place that is taken
	held   atomic.Int64

	mu   sync.Mutex
	used int  // places
	gone bool // the last one has been given up
}

func (*ownSlot) Describe() wire.SlotRef         { return wire.SlotRef{} }
func (*ownSlot) Timers() []watchdog.Held        { return nil }
func (*ownSlot) Left(int64)                     {}
func (*ownSlot) Crowded() bool                  { return false }
func (*ownSlot) Yield() <-chan struct{}         { return nil }
func (s *ownSlot) Hold(bytes int64) (all int64) { return s.held.Add(bytes) }
func (*ownSlot) Leave()                         {}
func (*ownSlot) Report(context.Context)         {}

func (s *ownSlot) Place(enough <-chan struct{}) Place {
	select {
	case s.places <- struct{}{}:
		return s.place(enough)
	default:
	}
	select {
	case s.places <- struct{}{}:
		return s.place(enough)
	case <-enough:
		return nil
	}
}

// place gives a place to an execution, unless that has given up its last one.
func (s *ownSlot) place(enough <-chan struct{}) Place {
	s.mu.Lock()
	gone := s.gone
	s.used++
	s.mu.Unlock()
	if gone {
		<-enough
		return nil
	}
	return &AnyPlace{slot: s}
}

// AnyPlace is a place for calls of which nobody needs to know where they run.
type AnyPlace struct {
	slot *ownSlot // nil: it is in none
	left sync.Once
}

func (*AnyPlace) Describe() wire.SlotRef { return wire.SlotRef{} }
func (*AnyPlace) Replace(bool) bool      { return true }
func (*AnyPlace) Answered()              {}

func (p *AnyPlace) Leave() {
	p.left.Do(func() {
		if s := p.slot; s != nil {
			s.mu.Lock()
			s.used--
			s.gone = s.used == 0
			s.mu.Unlock()
			<-s.places
		}
	})
}
