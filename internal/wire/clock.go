package wire

import (
	"time"

	"github.com/stint-run/stint/job"
)

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
