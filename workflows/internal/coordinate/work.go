package coordinate

import (
	"io/fs"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Work is the part that differs between kinds of jobs: where their batches come from, and what happens to their
// results. Everything else is the coordinator's. A work belongs to one run of a job, and is used by its
// workflow only.
type Work interface {
	// Begin has the work deal with the updates and signals that only its kind of job has, and returns what else is
	// special to that. It is called once, before all others.
	Begin(c *Coordinator) (Traits, error)
	// NeedsSpeed reports whether the next assignment is cut by the handler's speed, so that it is worth
	// waiting for the first batches to show it.
	NeedsSpeed(spec job.Spec) bool
	// Next finds the next assignment. It blocks, and ctx has the options of an activity. After an error or a
	// cancellation it can be called again, as if it had not been called.
	Next(ctx workflow.Context, t Snapshot) (Assignment, error)
	// Take gives an assignment that next has found to a leg that runs already, and returns false if none has use for
	// it. It does not block.
	Take(p Assignment) bool
	// Open gives an assignment to a new leg. It does not block.
	Open(p Assignment)
	// Renew prepares the job's next run: next must return soon.
	Renew()
	// Window is the automatic window, by what is known of the pool.
	Window(v pool.View) int
	// Salvage records what an earlier run of the job had accepted, and returns the manifests that name it. It blocks.
	Salvage(ctx workflow.Context, in wire.Salvaged) (manifests []string, err error)
	// Finish publishes what the manifests account for, and completes the report with it. It blocks, can be
	// cancelled, and can be repeated in a later run. ctx has the options of an activity.
	Finish(ctx workflow.Context, t Snapshot, r *job.Report) error
	// CompleteReport completes the report of a job that has not completed.
	CompleteReport(r *job.Report)
}

// Traits are what only some kinds of jobs have. The zero value has nothing of it. No function blocks, but for
// listFailures.
type Traits struct {
	// BoundsFailures: the job fails if too many of its items do.
	BoundsFailures bool
	// CountsAlone: items that fail alone in their calls can show that nothing works.
	CountsAlone bool
	// LegsOverlap: several legs are open at once, even if they share limits or a budget.
	LegsOverlap bool
	// InsistsOnInit: the init hooks run to their end even if a stop comes before it.
	InsistsOnInit bool
	// Receive takes the signals that have arrived which only this kind of job has.
	Receive func()
	// Resized has batches that are made from now on have so many items; 0: automatic. Open legs keep those that they
	// have.
	Resized func(items int64)
	// Progressed is called whenever something may have happened.
	Progressed func()
	// Ended takes what a leg has done that has ended.
	Ended func(l *OpenLeg, r wire.LegResult)
	// Carry returns the open legs that the job's next run continues with; false: they must end first. Nil: all must.
	Carry func(legs []*OpenLeg) ([]wire.CarriedLeg, bool)
	// Outcomes are the counts that decide whether too many items fail, and those of this run's items alone, as far as
	// they are known. Nil: those of all items.
	Outcomes func() (ok, failed int64, fresh wire.Counts)
	// Counted says in messages which items outcomes counts. Nil: all.
	Counted func() string
	// ListFailures writes the errors file of a job that has failed, and returns where that is. It blocks. ctx has
	// the options of an activity. Nil: there is none.
	ListFailures func(ctx workflow.Context, t Snapshot) (wire.FailuresResult, error)
}

// filled has functions in place of those that are nil.
func (t Traits) filled(c *Coordinator) Traits {
	if t.Receive == nil {
		t.Receive = func() {}
	}
	if t.Resized == nil {
		t.Resized = func(int64) {}
	}
	if t.Progressed == nil {
		t.Progressed = func() {}
	}
	if t.Ended == nil {
		t.Ended = func(*OpenLeg, wire.LegResult) {}
	}
	if t.Carry == nil {
		t.Carry = func(legs []*OpenLeg) ([]wire.CarriedLeg, bool) { return nil, len(legs) == 0 }
	}
	if t.Outcomes == nil {
		t.Outcomes = c.outcomes
	}
	if t.Counted == nil {
		t.Counted = func() string { return "" }
	}
	if t.ListFailures == nil {
		t.ListFailures = func(workflow.Context, Snapshot) (wire.FailuresResult, error) { return wire.FailuresResult{}, nil }
	}
	return t
}

// ErrRenew ends the search for an assignment because the job continues as new.
var ErrRenew = temporal.NewCanceledError("the job continues as new")

// Snapshot are what a job stands at when it asks its work for something.
type Snapshot struct {
	Ref      wire.Ref
	Spec     job.Spec
	Resume   []string // heads of the manifests of earlier runs: what they account for is done
	Heads    []string // heads of the manifests of all that is done
	Planned  int64    // items that are to be accounted for
	Portions int      // found before
	Earlier  []string // runs that this one takes the place of
	Sizing   wire.Sizing
}

// Assignment is what one leg gets to do.
type Assignment struct {
	Page    []byte      // see LegInput.Page
	Tasks   []wire.Task // see dispatch.State
	Batches int64
	Items   int64

	Planned int64 // items of the job up to the end of this assignment
	Last    bool
	Noticed job.Noticed // of the inputs
	Waiting bool        // it has what has come of an input that is still being written

	// Only the first assignment has these.
	Sources string      // key of the source table
	Perm    fs.FileMode // see [wire.Ref]
	LeftOut int         // see [job.Report]
	Old     int         // files that were left out: OldFiles of [job.Report]
	Reuse   *wire.ReuseOffer
	Bytes   int64           // of all input; 0: not known
	Resumed job.Totals      // of what earlier runs have done
	Worker  wire.PoolWorker // that has found it
	Version string          // of that worker's handler

	// Standing: the leg that gets the assignment has no end of its own. It waits for no place, and no other leg's end
	// makes room for it.
	Standing bool
	MostLegs int // are open at once, at most, with the one that gets the assignment

	// Of a feed.
	Discarded  int64           // of what earlier runs have done
	Heads      []string        // of manifests, instead of those of earlier runs; nil: those stay
	FirstError *job.FirstError // of what earlier runs have lost
}
