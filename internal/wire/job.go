package wire

import (
	"encoding/json"

	"github.com/stint-run/stint/job"
)

// Input is what a job's workflow is started with.
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
	// Earlier lists runs of the job whose data in the store is not needed once this one has completed, but for what its manifests name.
	Earlier []string `json:"earlier,omitempty"`
	// Searchable: the server has the search attributes of jobs.
	Searchable bool `json:"searchable,omitempty"`
	// Version is the wire.LogicVersion of the program that starts the job.
	Version int `json:"version,omitempty"`
}
