package calls

import (
	"context"
	"errors"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/timers"
)

// Slots gives executions of Process their places. A Slots is safe for concurrent use.
type Slots interface {
	// Take waits for a place in a slot. It fails with ErrNoSlot if the worker has no slot left.
	Take(ctx context.Context, o Occupant) (Slot, error)
}

// Slot is an execution's place in a slot of its worker.
type Slot interface {
	// Describe returns the slot's description, for reports.
	Describe() protocol.Place
	// Timers returns the timers that the slot's process holds, the earliest deadline first.
	Timers() []timers.Held
	// Replace reports that the call in hand was abandoned: what runs it is replaced. It returns false if
	// this has happened too often in a row: the slot is then out. A free replacement does not count,
	// because the call had to end for a reason that is not its own, such as a stop.
	Replace(free bool) bool
	// Answered reports that an item has been answered: what follows is not in a row with what was before.
	Answered()
	// Leave gives the place up, once no calls are left to be made. It is idempotent.
	Leave()
	// Report returns when a batch that has left, and whose results are durable, should be reported, or when
	// ctx is done: batches that finish shortly after each other are reported together.
	Report(ctx context.Context)
}

// Occupant is what a slot is taken for.
type Occupant struct {
	Job   string `json:"job"`
	Batch string `json:"batch"` // as people read it: "items 12,000–12,999"
}

// ErrNoSlot says that the worker has lost all its slots. Its batches go to other workers.
var ErrNoSlot = errors.New("the worker has no slot left")

// AnySlot is for workers that do not distinguish slots.
type AnySlot struct{}

func (AnySlot) Take(context.Context, Occupant) (Slot, error) { return AnySlot{}, nil }
func (AnySlot) Describe() protocol.Place                     { return protocol.Place{} }
func (AnySlot) Timers() []timers.Held                        { return nil }
func (AnySlot) Replace(bool) bool                            { return true }
func (AnySlot) Answered()                                    {}
func (AnySlot) Leave()                                       {}
func (AnySlot) Report(context.Context)                       {}
