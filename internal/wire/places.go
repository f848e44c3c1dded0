package wire

import (
	"time"

	"github.com/stint-run/stint/job"
)

// Place says where a batch runs.
type Place struct {
	Worker      string `json:"worker,omitempty"`
	Slot        int    `json:"slot"`
	PID         int    `json:"pid,omitempty"`         // of the slot's process, or of the worker
	Process     string `json:"process,omitempty"`     // of the worker, as procs.Own names it
	Incarnation int    `json:"incarnation,omitempty"` // of the slot's process
	Concurrency int    `json:"concurrency,omitempty"` // calls that the slot makes at once, at present
}

// Hint is what an execution of a batch reports with its heartbeats.
type Hint struct {
	First int64  `json:"first"` // ordinal of the first item in hand
	Count int64  `json:"count"`
	Batch string `json:"batch,omitempty"` // as people read it: "items 12,000–12,999"
	Place
	// Timers are those that the slot's process, or the batch's handler, holds: the MaxHinted earliest ones.
	Timers []HeldTimer `json:"timers,omitempty"`
	// Clock is where the slot of a loop stands; nil: the batch is no loop's.
	Clock *job.LoopSlot `json:"clock,omitempty"`
	// News is how much is answered of this batch, and of the others of the job that the same worker runs: at most MaxNews.
	News []Answered `json:"news,omitempty"`
}

// MaxNews is the most batches in a Hint's News.
const MaxNews = 64

// Answered is how much of a batch that runs has been answered. If the execution is lost it is done again.
type Answered struct {
	Activity string `json:"a"`           // ID of the execution, unique in its job
	Items    int64  `json:"n"`           // with an outcome
	Failed   int64  `json:"f,omitempty"` // of these
	Bytes    int64  `json:"b,omitempty"` // of the input that these take, about
}

// MaxHinted is the most timers in a Hint.
const MaxHinted = 4

// HeldTimer is a timer that is held.
type HeldTimer struct {
	Scope    string    `json:"scope"`
	Deadline time.Time `json:"deadline"`
}

// CameBack is what a worker reports of an execution that it had alive when it learned that the server had given it up: the server or the
// connection was away for too long, or the worker was frozen. The execution ends, and nobody has died.
type CameBack struct {
	Activity string        `json:"activity"`        // its ID
	Clock    *job.LoopSlot `json:"clock,omitempty"` // of a slot of a loop: Doubt is the ordinal after the last tick that it has begun
}

// ActivityPlace says where an activity runs.
type ActivityPlace struct {
	Activity string `json:"activity"` // its ID
	Place
	Clock *job.LoopSlot `json:"clock,omitempty"` // as in its last Hint
}
