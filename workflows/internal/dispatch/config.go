package dispatch

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/stagewindow"
	"go.temporal.io/sdk/workflow"
)

// Config is what a leg gives its dispatcher. What makes one kind of leg differ from another is in Supply, Recorder
// and Process.
type Config struct {
	Spec     job.Spec
	State    wire.LegState
	Sofar    wire.Outcomes // of the leg's earlier runs
	Supply   Supply
	Recorder Recorder
	// Process starts one execution of a batch, and returns the future of its activities.ProcessResult. ctx has the
	// options of the activity, which Process may change, and is cancelled by a stop; in is complete but for what the
	// kind of leg adds: where the items come from, and where their outcomes go. It does not block.
	Process func(ctx workflow.Context, in wire.ProcessInput) workflow.Future
	Link    Link
	// Recover returns what an execution has done that is lost, has failed or still runs when a stop's time is over, as if it had returned that: a
	// result with a rest. The hint is its last heartbeat, or the detail of its error. It returns false if the hint does not say. Nil: an execution
	// has done all or nothing.
	Recover func(hint wire.Hint) (wire.ProcessResult, bool)
	// Doubt takes in that a stop has now left an execution behind of which nothing is known. Nil if Recover is.
	Doubt func(began, now time.Time)
	// CameBack takes in where an execution stood that the server had given up and whose worker has it alive. runs: the next one has begun. Nil if
	// Recover is.
	CameBack func(at job.LoopSlot, runs bool)
	// Tally are the outcomes that the job's rules count; nil: all of the leg.
	Tally func() wire.Counts
	// Gate decides which tasks of a pipeline may start, and has Supply ask it. Nil: all may.
	Gate *stagewindow.Gate
	// Queued is how many tasks Supply has for each stage of a pipeline. Nil: there are no stages.
	Queued func() map[string]int
	// MaxEvents is the length of history at which the dispatcher begins nothing more; 0: [MaxEvents].
	MaxEvents int
}

// Supply is where a dispatcher takes new batches from. It belongs to one dispatcher and is used by its
// workflow only. Batches that come back (repetitions, rests) stay with the dispatcher. If it gets new
// batches, or ends, while Run waits, Wake has to be called.
type Supply interface {
	// Next takes out the next batch, with a Number that no other batch of the job has. It returns false if there is
	// none now that may start.
	Next() (wire.Task, bool)
	// Waiting returns how many batches wait now.
	Waiting() int
	// Ended reports that Next returns no more batches, now or later.
	Ended() bool
}

// drain takes out all batches, as tasks.
func drain(s Supply) []wire.Task {
	var left []wire.Task
	for {
		t, ok := s.Next()
		if !ok {
			return left
		}
		left = append(left, t)
	}
}

// Recorder takes the results that a dispatcher accepts. It is used by one workflow only.
type Recorder interface {
	// Accept takes what one execution of a task has done: its Entry has at least one item. It does not block.
	Accept(t wire.Task, r wire.ProcessResult)
}

// Link is how a leg reaches its job. No method blocks.
type Link interface {
	// Failed reports the error that ends the leg, while the leg still drains.
	Failed(err *job.Error)
	// SlowDown reports a handler's request to slow down.
	SlowDown(r wire.SlowDownRequest)
	// Counted reports how many items have failed.
	Counted(c wire.Counts)
	// Heard reports what has become known of the pool.
	Heard(n wire.PoolNews)
	// BatchEnded is called after every end of an execution.
	BatchEnded()
	// HandBack gives places to the job. The future fails if that has ended.
	HandBack(places int) workflow.Future
}
