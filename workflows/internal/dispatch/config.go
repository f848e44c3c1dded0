package dispatch

import (
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/stagewindow"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// Config is what a leg gives its dispatcher. What makes one kind of leg differ from another is in Supply, Recorder
// and Process.
type Config struct {
	Spec     job.Spec
	State    State
	Sofar    Outcomes // of the leg's earlier runs
	Supply   Supply
	Recorder Recorder
	// Process starts one execution of a batch, and returns the future of its activities.ProcessResult. ctx has the
	// options of the activity, which Process may change, and is cancelled by a stop; in is complete but for what the
	// kind of leg adds: where the items come from, and where their outcomes go. It does not block.
	Process func(ctx workflow.Context, in activities.ProcessInput) workflow.Future
	Link    Link
	// Recover returns what an execution has done that is lost, has failed or still runs when a stop's time is over, as if it had returned that: a
	// result with a rest. The hint is its last heartbeat, or the detail of its error. It returns false if the hint does not say. Nil: an execution
	// has done all or nothing.
	Recover func(hint wire.Hint) (activities.ProcessResult, bool)
	// Doubt takes in that a stop has now left an execution behind of which nothing is known. Nil if Recover is.
	Doubt func(began, now time.Time)
	// CameBack takes in where an execution stood that the server had given up and whose worker has it alive. runs: the next one has begun. Nil if
	// Recover is.
	CameBack func(at job.LoopSlot, runs bool)
	// Tally are the outcomes that the job's rules count; nil: all of the leg.
	Tally func() Counts
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
	Next() (Task, bool)
	// Waiting returns how many batches wait now.
	Waiting() int
	// Ended reports that Next returns no more batches, now or later.
	Ended() bool
}

// drain takes out all batches, as tasks.
func drain(s Supply) []Task {
	var left []Task
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
	Accept(t Task, r activities.ProcessResult)
}

// Link is how a leg reaches its job. No method blocks.
type Link interface {
	// Failed reports the error that ends the leg, while the leg still drains.
	Failed(err *job.Error)
	// SlowDown reports a handler's request to slow down.
	SlowDown(r SlowDownRequest)
	// Counted reports how many items have failed.
	Counted(c Counts)
	// Heard reports what has become known of the pool.
	Heard(n PoolNews)
	// BatchEnded is called after every end of an execution.
	BatchEnded()
	// HandBack gives places to the job. The future fails if that has ended.
	HandBack(places int) workflow.Future
}

// State is what a dispatcher begins with, at the leg's start or after continue-as-new.
type State struct {
	// Number is the leg's, from 1; 0 is the leg that runs inside the job.
	Number int `json:"number"`
	// Tasks are batches that an earlier run of the leg, or the leg inside the job, has left.
	Tasks  []Task `json:"tasks,omitempty"`
	Window int    `json:"window"`         // places in the window to begin with
	Last   bool   `json:"last,omitempty"` // no leg comes after it
	Limits Limits `json:"limits,omitzero"`
	// SlowDowns is how many requests to slow down the job has heard of from this leg.
	SlowDowns int `json:"slow_downs,omitempty"`
	// Known is how many calls the workers that the job knows of make at once, News how often it has heard of others
	// from this leg.
	Known int64 `json:"known,omitempty"`
	News  int   `json:"news,omitempty"`
	// SpeedAwaited: the job waits for what the first batches show of the handler's speed.
	SpeedAwaited bool `json:"speed_awaited,omitempty"`
}

// Outcomes are the results of a leg's batches.
type Outcomes struct {
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Error is what has ended the leg early.
	Error      *job.Error      `json:"error,omitempty"`
	Stragglers []job.Straggler `json:"stragglers,omitempty"`
	// StragglersOmitted counts those beyond job.MaxStragglers.
	StragglersOmitted int `json:"stragglers_omitted,omitempty"`
	ForcedEnds
	Speed   throttle.Speed    `json:"speed"` // of the handler
	Workers []job.WorkerShare `json:"workers,omitempty"`
	Pool    pool.Workers      `json:"pool,omitempty"`   // what is known of these workers
	Outage  *job.Outage       `json:"outage,omitempty"` // that batches wait out
	// Stages are those of a pipeline, without what waits and runs.
	Stages []job.StageReport `json:"stages,omitempty"`
}
