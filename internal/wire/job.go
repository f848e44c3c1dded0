package wire

import (
	"encoding/json"
	"time"

	"github.com/stint-run/stint/internal/base/samples"
	"github.com/stint-run/stint/job"
)

// StartInput is what a job's workflow is started with.
type StartInput struct {
	Spec job.Spec `json:"spec"`
	// Resume lists the heads of the manifest chain of earlier runs: items that have an outcome there
	// are not run again.
	Resume []string `json:"resume,omitempty"`
	// Scheduled: a schedule has started the job. Its name is the workflow's own ID, and its
	// locations may have placeholders (see [Spec.Ticked]).
	Scheduled bool `json:"scheduled,omitempty"`
	// Salvage lists what an earlier run, which Temporal has ended, had accepted and not committed: it
	// is committed first.
	Salvage []json.RawMessage `json:"salvage,omitempty"`
	// Redrive, if it is set, makes only the failed items of a completed job run again. Resume then
	// lists what earlier attempts at that have done.
	Redrive *job.Redrive `json:"redrive,omitempty"`
	// Loop is where the slots of an earlier run of a loop ended; the others begin with tick 0.
	Loop []job.LoopSlot `json:"loop,omitempty"`
	// Accepted is how many items the earlier runs of a feed have accepted, according to their reports.
	Accepted int64 `json:"accepted,omitempty"`
	// Spent is what the earlier runs have used of services that are paid for, according to their reports, and Lost what
	// they have used for nothing.
	Spent job.Usage `json:"spent,omitzero"`
	Lost  job.Usage `json:"lost,omitzero"`
	// Versions are those of handlers that have done batches of the earlier runs, according to their reports.
	Versions []job.WorkerShare `json:"versions,omitempty"`
	// Life is that of the earlier runs, according to their reports.
	Life samples.Packed `json:"life,omitempty"`
	// Earlier lists runs of the job whose data in the store is not needed once this one has completed, but for what its
	// manifests name.
	Earlier []string `json:"earlier,omitempty"`
	// Root is the first of the runs that this one continues (see [Ref].Root); empty: it continues none.
	Root string `json:"root,omitempty"`
	// Searchable: the server has the search attributes of jobs.
	Searchable bool `json:"searchable,omitempty"`
	// Version is the wire.LogicVersion of the program that starts the job.
	Version int `json:"version,omitempty"`
}

// Earlier counts the items that earlier runs have left. They take a part of the capacity until they are done, of which
// the leg that takes items hears from the job.
type Earlier struct {
	Items int64 `json:"items"`
	Done  int64 `json:"done"`  // by legs that have ended
	Freed int64 `json:"freed"` // of Done, those that feedState.Freed has
}

// CarriedLeg is an open leg of a feed, as the job's next run continues with it.
type CarriedLeg struct {
	Number   int       `json:"number"`
	Reported Counts    `json:"reported,omitzero"`
	Places   int       `json:"places,omitempty"`
	Dry      bool      `json:"dry,omitempty"`
	Told     int       `json:"told,omitempty"` // how often it was sent limits
	Budget   Budget    `json:"budget,omitzero"`
	Freed    Freed     `json:"freed,omitzero"`
	Sofar    LegResult `json:"sofar"`
}

// JobInput starts a job, or continues it in a new run.
type JobInput struct {
	StartInput
	State *JobState `json:"state,omitempty"` // nil at the start
}

// JobState is all that a job carries from one of its runs to the next.
type JobState struct {
	Ref      Ref          `json:"ref"`
	Work     WorkState    `json:"work"`
	Portions int          `json:"portions"`           // found so far
	LastLeg  int          `json:"last_leg,omitempty"` // the number of the leg that was opened last
	Batches  int64        `json:"batches"`            // found so far
	Heads    []string     `json:"heads"`              // manifests that no other names
	Speed    Speed        `json:"speed"`              // of the handler, as the leg that ended last has shown
	Pool     PoolView     `json:"pool,omitzero"`
	Report   job.Report   `json:"report"`
	Fresh    Counts       `json:"fresh,omitzero"` // of what earlier runs have not done
	Slowed   Slowed       `json:"slowed,omitzero"`
	Carried  []CarriedLeg `json:"carried,omitempty"` // legs that are open
	// Held: the legs are paused. They stay so when the job ends.
	Held bool `json:"held,omitempty"`
	// Listed is what those who list jobs see of the progress.
	Listed job.Counted `json:"listed,omitzero"`
}

// Salvaged is what an earlier run, or a leg of it, had accepted: itself or, if that may be large, the leg that is to be
// asked.
type Salvaged struct {
	CommitFeedInput
	SalvageFeedInput
	Gone bool `json:"gone,omitempty"` // the leg's history was, when the job was resumed
}

// WorkState is what a work carries from one run of a job to the next.
type WorkState struct {
	Cursor Cursor         `json:"cursor"` // of jobs that read inputs in order: where the next page begins
	Feed   *FeedWorkState `json:"feed,omitempty"`
	Loop   *LoopWorkState `json:"loop,omitempty"`
}

// LegInput is what one leg has to run.
type LegInput struct {
	Ref  Ref      `json:"ref"`
	Spec job.Spec `json:"spec"`
	LegState
	// Page holds new batches (see [DecodePage]), beside those of State.
	Page     []byte    `json:"page,omitempty"`
	Base     int64     `json:"base"`               // batches planned before these
	Previous []string  `json:"previous,omitempty"` // manifests that this leg's manifest names
	Sofar    LegResult `json:"so_far"`             // of the leg's earlier runs
	Version  int       `json:"version,omitempty"`  // see wire.LogicVersion
}

// LegResult is what a leg has done.
type LegResult struct {
	LegOutcomes
	Manifests []string `json:"manifests"` // heads of the chain after this leg
	// Left is how many items the leg did not get to, because of a stop or of Error.
	Left int64 `json:"left,omitempty"`
	// Of a leg of a feed: how many items the feed had accepted at its end, and how many resets have discarded in it.
	Accepted  int64 `json:"accepted,omitempty"`
	Discarded int64 `json:"discarded,omitempty"`
	// Of a leg of a loop: where its slots stand.
	Loop []job.LoopSlot `json:"loop,omitempty"`
	// Counted are the outcomes of a feed's last session in it.
	Counted Counts `json:"counted,omitzero"`
	// Freed is the capacity of a feed that it has freed since it was sealed.
	Freed Freed `json:"freed,omitzero"`
	// Unsaved: something that a leg of a feed has come to is in its history only.
	Unsaved bool `json:"unsaved,omitempty"`
}

// LoopLegInput is the slot of a loop that one leg has to run.
type LoopLegInput struct {
	Ref  Ref      `json:"ref"`
	Spec job.Spec `json:"spec"`
	LegState
	Slot    job.LoopSlot `json:"slot"`              // where it stands
	Sofar   LegOutcomes  `json:"so_far,omitzero"`   // of the leg's earlier runs
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
	Version  string   `json:"version,omitempty"` // of its handler
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
