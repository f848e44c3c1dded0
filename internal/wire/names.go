package wire

import (
	"fmt"
	"strings"
	"time"
)

// Names that every part of stint, and any other Temporal client, may rely on.
const (
	// WorkflowQueue is the task queue of workflow tasks, and of nothing else. All names of queues are those of the first
	// version of the logic: see [AtLogic].
	WorkflowQueue = "stint"
	// WorkflowJob and WorkflowLeg are the registered names of the two workflow types.
	WorkflowJob = "Job"
	WorkflowLeg = "Leg"
	// SignalRestarted informs a job or leg that the only process that could hold its running
	// activities has been replaced; its argument is ignored.
	SignalRestarted = "restarted"
	// SignalCameBack informs a job or leg that a worker has one of its executions alive which the server has given up;
	// its argument is a [CameBack].
	SignalCameBack = "came back"
	// SignalBegun informs a job or leg that an execution has begun its last request; its argument is a [Begun].
	SignalBegun = "begun"
	// SignalPause pauses a job, or has it go on; its argument is a [Pause], which may be left out. Any Temporal client
	// may send it.
	SignalPause = "pause"
	// UpdateSet changes settings of a running job; its argument and its result are [Settings].
	UpdateSet = "set"
	// QueryReport returns a job's [Report] as far as the job workflow itself knows it. Its argument, which may be left
	// out, is a list of activity IDs: the answer says which of these executions are in flight.
	QueryReport = "report"
	// QueryPending returns, from a job or a leg, what it has accepted and not committed: a list of inputs of Commit.
	// See [Client.Resume]. A leg of a feed answers with a piece of the compressed list, from an offset on, its
	// argument.
	QueryPending = "pending"
	// QueryProgress returns a leg's [Progress]. Its argument is that of QueryReport.
	QueryProgress = "progress"
)

// Memo fields that a job keeps for those who list it.
const (
	MemoPool   = "stint_pool"
	MemoState  = "stint_state"
	MemoOutput = "stint_output"
	// MemoPools lies in the memo of a pipeline's job: the pools of all stages, a list.
	MemoPools = "stint_pools"
	// MemoProgress is how far the job had come when the memo was last written, a [job.Counted]: seldom, because that is
	// an event and an action.
	MemoProgress = "stint_progress"
	// MemoSource lies in the memo of a loop's job: where its items come from.
	MemoSource = "stint_source"
	// MemoStop lies in the memo of a leg (or of a job that runs its only leg itself) once a stop
	// has reached it; its value is a [StopNotice].
	MemoStop = "stint_stop"
	// MemoPaused lies in the memo of a job while it is paused: since when.
	MemoPaused = "stint_paused"
	// MemoWithdrawn lies in the memo of a leg (or of a job that runs its only leg itself) once a pause has taken batches
	// back from workers: an execution that is cancelled without a stop in the memo only returns its rest. It stays.
	MemoWithdrawn = "stint_withdrawn"
	// MemoCron lies in the memo of the jobs of a schedule: its cron expressions, a list.
	MemoCron = "stint_cron"
)

// Search attributes of jobs, if the server has them; its list, and that of the web UI, then filters and sorts by them.
// A job says in its input whether it has them, since a server refuses those that it does not know.
const (
	SearchPool    = "StintPool"    // keyword
	SearchState   = "StintState"   // keyword: the job's state, which says more than that of its workflow
	SearchPercent = "StintPercent" // int: how much was done when the job noted it last
	SearchFailed  = "StintFailed"  // int: failed items, then
)

// PoolQueue returns the task queue of a pool's batches: one batch a slot.
func PoolQueue(pool string) string { return WorkflowQueue + "." + pool }

// PoolOfQueue returns the pool whose batches are on a task queue; "" if it is none of these queues.
func PoolOfQueue(queue string) string {
	queue, _, _ = strings.Cut(queue, logicMark)
	queue, _, _ = strings.Cut(queue, versionMark)
	pool, ok := strings.CutPrefix(queue, WorkflowQueue+".")
	if !ok || strings.Contains(pool, ".") {
		return ""
	}
	return pool
}

// PinnedQueue returns the task queue of those of a pool's batches that only workers with a version of the handler run;
// "" is no version.
func PinnedQueue(pool, version string) string {
	if version == "" {
		return PoolQueue(pool)
	}
	return PoolQueue(pool) + versionMark + version
}

// versionMark separates the name of a pool's task queue from a version of its handler. No name of a pool has one.
const versionMark = "#"

// IOQueue returns the task queue of a pool's Plan, Commit and Finish activities, outside the slots.
func IOQueue(pool string) string { return PoolQueue(pool) + ".io" }

// LegID returns the workflow ID of a job's leg, counted from 1.
func LegID(job string, leg int) string { return fmt.Sprintf("%s%d", LegsPrefix(job), leg) }

// LegsPrefix returns what the workflow IDs of a job's legs begin with.
func LegsPrefix(job string) string { return job + "/leg-" }

// StopNotice is what a running batch finds in its workflow's memo once a stop has reached it.
type StopNotice struct {
	Deadline time.Time `json:"deadline"` // when the grace period ends
	Reason   string    `json:"reason,omitempty"`
	// Withdrawn: there is no stop. A pause has taken the batch back: it returns its rest after the calls in hand.
	Withdrawn bool `json:"-"`
}

// Pause is the argument of SignalPause.
type Pause struct {
	Over bool `json:"over,omitempty"` // the job goes on
}

// Signals between a job and its legs.
const (
	SignalHalt     = "stop the leg"        // job → leg: a stop; argument StopNotice
	SignalGrant    = "places to leg"       // job → leg: more places in the window, or fewer; argument int
	SignalPlaces   = "places from leg"     // leg → job: places that it has no batches for; argument PlacesBack
	SignalStop     = "stop"                // any Temporal client → job: a coordinated stop; argument job.Stop
	SignalFail     = "leg failed"          // leg → job: an error has ended the leg; argument job.Error
	SignalLimits   = "limits of leg"       // job → leg: the rate it may work at, and when to report counts; argument LegLimits
	SignalSlow     = "slow down"           // leg → job: a handler has asked to slow down; argument SlowDownRequest
	SignalCounts   = "progress of leg"     // leg → job: how many of its items have failed; argument Counts
	SignalPool     = "workers seen by leg" // leg → job: what has become known of the pool; argument PoolReport
	SignalKept     = "leg has committed"   // leg → job: what a leg that continues as new has committed; argument KeptResult
	SignalDisowned = "disowned"            // job → leg that an earlier run of the job has started: the leg's own job has ended; argument the job's run
	SignalRetire   = "retire"              // job → leg of a loop: it ends once its slot's execution has
)

// Signals of a feed.
const (
	SignalOpen      = "open"      // leg → its successor: it takes items from now on; argument FeedOpening
	SignalSuccessor = "successor" // job → leg: the leg that follows stands by; argument its number
	SignalSealed    = "sealed"    // leg → job: it takes no more items, its successor does; argument SealedNotice
	SignalFreed     = "freed"     // leg → job: what a sealed leg has freed since then; argument FreedNotice
	SignalAllFreed  = "all-freed" // job → open leg: what all sealed legs have freed, and items of earlier runs; argument Freed
	SignalSession   = "session"   // leg → job → other legs: a reset has begun a session; argument its number
	SignalResize    = "resize"    // job → leg: how many items a batch gets from now on; argument FeedResize
	SignalClose     = "close"     // job → leg: the feed is closed
	SignalEnded     = "ended"     // leg → job: all that it has accepted is done and committed; argument KeptResult
	SignalStalled   = "stalled"   // leg → job: nothing has finished for 30 s, or something has again; argument StalledNotice
	SignalAlive     = "alive"     // leg → job: nothing; it fails if the job has ended, and another run of it disowns the leg
)
