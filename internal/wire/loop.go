package wire

import (
	"time"

	"github.com/stint-run/stint/job"
)

// LoopLegInput is the slot of a loop that one leg has to run.
type LoopLegInput struct {
	Ref  Ref      `json:"ref"`
	Spec job.Spec `json:"spec"`
	LegState
	Slot    job.LoopSlot `json:"slot"`              // where it stands
	Sofar   Outcomes     `json:"so_far,omitzero"`   // of the leg's earlier runs
	Version int          `json:"version,omitempty"` // see wire.LogicVersion
}

// LoopWorkState is what a loop carries from one run of its job to the next.
type LoopWorkState struct {
	Planned bool           `json:"planned"`
	Slots   []job.LoopSlot `json:"slots"` // where they stand, by number
}

// PlanLoopInput asks for the beginning of a loop.
type PlanLoopInput struct {
	Ref  Ref      `json:"ref"`
	Spec job.Spec `json:"spec"`
}

// PlanLoopResult says who has begun it, and what that worker runs at once.
type PlanLoopResult struct {
	Worker   string   `json:"worker,omitempty"`
	Capacity Capacity `json:"capacity,omitzero"`
}

// Tick is the item that a handler gets.
type Tick struct {
	Slot int       `json:"slot"` // of the loop, from 0
	Tick int64     `json:"tick"` // of the slot, from 0
	Due  time.Time `json:"due"`  // back to back: when it began
}

// A loop is a job whose items are the ticks of a clock. Each of its slots is one long activity, which is replaced about
// every hour. Ticks are no events: how far a slot has come rides in heartbeats, and in the activity's result.

// WorkflowLoopLeg is the registered name of the workflow type of a loop's legs. Each runs one slot.
const WorkflowLoopLeg = "LoopLeg"

// Endless is the ordinal after the last item of a batch that has no end.
const Endless = 1 << 60

// Clock is what one execution of a loop's slot is given.
type Clock struct {
	job.LoopSlot
	// Every is the interval; 0: back to back.
	Every time.Duration `json:"e,omitempty"`
	// Skip: ticks that were due before the slot was free for them are left out. Otherwise they are made up.
	Skip bool `json:"m,omitempty"`
	// Keep: results are written to the store.
	Keep bool `json:"o,omitempty"`
}
