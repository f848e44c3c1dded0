package job

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Names that every part of stint, and any other Temporal client, may rely on.
const (
	// WorkflowQueue is the task queue of workflow tasks, and of nothing else.
	WorkflowQueue = "stint"
	// WorkflowJob and WorkflowLeg are the registered names of the two workflow types.
	WorkflowJob = "Job"
	WorkflowLeg = "Leg"
	// ActivityProcess is the registered name of the activity that runs a batch.
	ActivityProcess = "Process"
	// ActivityLocate is the registered name of the local activity that finds out where batches run.
	ActivityLocate = "Locate"
	// SignalStop asks a job for a coordinated stop; its argument is a [Stop].
	SignalStop = "stop"
	// SignalRestarted tells a job or leg that the only process that could hold its running
	// activities has been replaced; its argument is ignored.
	SignalRestarted = "restarted"
	// UpdateSet changes settings of a running job; its argument and its result are [Settings].
	UpdateSet = "set"
	// QueryReport returns a job's [Report] as far as the job workflow itself knows it.
	QueryReport = "report"
	// QueryPending returns, from a job or a leg, what it has accepted and not committed: a list of
	// inputs of Commit. See [Client.Resume].
	QueryPending = "pending"
	// QueryProgress returns a leg's [Progress].
	QueryProgress = "progress"
)

// Memo fields that a job keeps for those who list it.
const (
	MemoPool   = "stint_pool"
	MemoState  = "stint_state"
	MemoOutput = "stint_output"
	// MemoStop lies in the memo of a leg (or of a job that runs its only leg itself) once a stop
	// has reached it; its value is a [StopNotice].
	MemoStop = "stint_stop"
	// MemoCron lies in the memo of a schedule: its cron expressions, a list.
	MemoCron = "stint_cron"
)

// Types of the application errors by which stint's activities and workflows fail.
// Those in [PermanentErrors] are never retried.
const (
	ErrorInvalid   = "InvalidSpec"      // the spec cannot be carried out as it stands
	ErrorInput     = "InputUnreadable"  // input missing, unreadable, or not in its format at all
	ErrorChanged   = "InputChanged"     // input is not what it was when it was planned
	ErrorOutput    = "OutputUnwritable" // output or store missing, full or read-only
	ErrorFenced    = "Overtaken"        // a newer run of the job owns the store
	ErrorBooks     = "BooksUnbalanced"  // the accepted ranges do not tile the planned items
	ErrorCorrupt   = "PartCorrupt"      // a part is not what was accepted
	ErrorOrphaned  = "Orphaned"         // the process that held the activity is known to be gone
	ErrorExhausted = "AttemptsExhausted"
	ErrorFailed    = "JobFailed"
	ErrorTooMany   = "TooManyFailed"  // more items failed than the job puts up with
	ErrorHopeless  = "NothingWorks"   // not one of the first items succeeded
	ErrorHook      = "HookFailed"     // an init hook failed
	ErrorNoHook    = "HookUnknown"    // the pool's worker has no hook of the name
	ErrorLeftovers = "StillRunning"   // a stop's grace period was over before everything had ended
	ErrorGone      = "WorkflowClosed" // Temporal ended the job: terminated, timed out or cancelled
)

// PermanentErrors lists the error types that no repetition can mend.
func PermanentErrors() []string {
	return []string{ErrorInvalid, ErrorInput, ErrorChanged, ErrorOutput, ErrorFenced, ErrorBooks, ErrorCorrupt, ErrorOrphaned, ErrorNoHook}
}

// PoolQueue is the task queue of a pool's batches: one batch a slot.
func PoolQueue(pool string) string { return WorkflowQueue + "." + pool }

// IOQueue is the task queue of a pool's Plan, Commit and Finish activities, outside the slots.
func IOQueue(pool string) string { return PoolQueue(pool) + ".io" }

// LegID is the workflow ID of a job's leg, counted from 1.
func LegID(job string, leg int) string { return fmt.Sprintf("%s/leg-%d", job, leg) }

// LegNumber is the inverse of [LegID]; ok is false where id is not a leg's.
func LegNumber(id string) (leg int, ok bool) {
	_, digits, found := strings.Cut(id, "/leg-")
	if !found {
		return 0, false
	}
	leg, err := strconv.Atoi(digits)
	return leg, err == nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// MaxName is the length limit of job and pool names, in bytes.
const MaxName = 200

// CheckName returns an error where name is not one for a job or pool; what says which of them. A
// job may also have a name as schedules give them (see [ScheduledName]).
func CheckName(what, name string) error {
	if schedule, _, ok := ScheduledName(name); ok && what == "job" && len(name) <= MaxName {
		return checkName(what, schedule, MaxName)
	}
	return checkName(what, name, MaxName)
}

func checkName(what, name string, limit int) error {
	if name == "" {
		return fmt.Errorf("%s name is empty: give one of lower-case letters, digits and dashes", what)
	}
	if len(name) > limit {
		return fmt.Errorf("%s name is %d bytes long: at most %d are allowed", what, len(name), limit)
	}
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%s name %q: use lower-case letters, digits and dashes, beginning with a letter or digit", what, name)
	}
	return nil
}
