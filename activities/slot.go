package activities

import (
	"context"
	"errors"

	"github.com/stint-run/stint/job"
)

// Slots gives executions of Process their places. A Slots is safe for concurrent use.
type Slots interface {
	// Take waits for a place in a slot. It fails with ErrNoSlot where the worker has no slot left.
	Take(ctx context.Context, o Occupant) (Slot, error)
}

// Slot is an execution's place in a slot of its worker.
type Slot interface {
	// Describe tells, for reports, where this is.
	Describe() job.Place
	// Replace tells that the call in hand was abandoned: what runs it is replaced. False means that
	// this has happened too often in a row, and that the slot is out.
	Replace() bool
	// Answered tells that a call, or an item of one, has been answered since: what follows is not in a
	// row with what was before.
	Answered()
	// Leave gives the place up, once no calls are left to be made. It is idempotent.
	Leave()
}

// Occupant is what a slot is taken for.
type Occupant struct {
	Job   string `json:"job"`
	Batch string `json:"batch"` // as people read it: "items 12,000–12,999"
}

// ErrNoSlot says that the worker has lost all its slots. Its batches go to other workers.
var ErrNoSlot = errors.New("the worker has no slot left")

// anySlot is for workers that do not tell slots apart.
type anySlot struct{}

func (anySlot) Take(context.Context, Occupant) (Slot, error) { return anySlot{}, nil }
func (anySlot) Describe() job.Place                          { return job.Place{} }
func (anySlot) Replace() bool                                { return true }
func (anySlot) Answered()                                    {}
func (anySlot) Leave()                                       {}
