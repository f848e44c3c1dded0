package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/job"
)

// Activity is the registered name of an activity that is given an In and returns an Out.
type Activity[In, Out any] string

// The activities. [ActivityProcess] runs a batch, on the queue of its pool; [ActivityLocate] is a local activity that
// finds out where batches run; the others are on the io queue. What they do is in package activities.
const (
	ActivityProcess       Activity[ProcessInput, ProcessResult]         = "Process"
	ActivityLocate        Activity[LocateInput, LocateResult]           = "Locate"
	ActivityPlan          Activity[PlanInput, PlanResult]               = "Plan"
	ActivityPlanRedrive   Activity[PlanRedriveInput, PlanResult]        = "PlanRedrive"
	ActivityPlanFeed      Activity[PlanFeedInput, PlanFeedResult]       = "PlanFeed"
	ActivityPlanLoop      Activity[PlanLoopInput, PlanLoopResult]       = "PlanLoop"
	ActivityCommit        Activity[CommitInput, CommitResult]           = "Commit"
	ActivityCommitFeed    Activity[CommitFeedInput, CommitResult]       = "CommitFeed"
	ActivitySalvageFeed   Activity[SalvageFeedInput, SalvageFeedResult] = "SalvageFeed"
	ActivityFinish        Activity[FinishInput, FinishResult]           = "Finish"
	ActivityFinishRedrive Activity[FinishRedriveInput, FinishResult]    = "FinishRedrive"
	ActivityWriteReport   Activity[ReportInput, any]                    = "WriteReport"
	ActivityWriteFailures Activity[FailuresInput, FailuresResult]       = "WriteFailures"
	ActivityServed        Activity[ServedInput, ServedResult]           = "Served"
	ActivityHook          Activity[HookInput, any]                      = "Hook"
)

// ServedInput asks which pools nobody serves.
type ServedInput struct {
	Pools []string `json:"pools"`
	// Known are those of which that is known. Served returns once it is otherwise.
	Known []string `json:"known,omitempty"`
}

// ServedResult is which pools nobody serves.
type ServedResult struct {
	Unserved []string `json:"unserved,omitempty"`
}

// The moments of a job at which hooks run.
const (
	HookInit     = "init"
	HookShutdown = "shutdown"
	HookCleanup  = "cleanup"
)

// HookInput asks for one of the pool's hooks.
type HookInput struct {
	Ref   Ref    `json:"ref"`
	Pool  string `json:"pool"`  // the job's
	Stage string `json:"stage"` // one of job.Stage…
	Name  string `json:"name"`
	// Key is the same whenever this hook is repeated, and no other's: what has been done under it
	// need not be done again.
	Key    string    `json:"key"`
	State  job.State `json:"state"`
	Reason string    `json:"reason,omitempty"` // of a stop
}

// LocateInput names a workflow, a job or a leg, that has given batches out.
type LocateInput struct {
	Workflow string `json:"workflow"`
	Run      string `json:"run"`
	// Processes are those of workers, as their places name them, that may have ended.
	Processes []string `json:"processes,omitempty"`
	// Silent are activities that have expired without a heartbeat: the server knows who took them.
	Silent []string `json:"silent,omitempty"`
}

// LocateResult says where they run.
type LocateResult struct {
	Places []ActivitySlot `json:"places,omitempty"`
	// Ended are those of the processes, and of the places', that are known to have ended: what they had started ends
	// with them.
	Ended []string `json:"ended,omitempty"`
}

// CommitInput names the executions that count.
type CommitInput struct {
	Ref      Ref      `json:"ref"`
	Leg      int      `json:"leg"`
	Previous []string `json:"previous,omitempty"`
	Entries  []Entry  `json:"entries"`
	// Between are the batches that a stop has left between two stages of a pipeline.
	Between []Batch `json:"between,omitempty"`
}

// CommitResult names the manifest that has been written.
type CommitResult struct {
	Manifest string `json:"manifest"`
}

// ReportInput is a job's final report and where it goes.
type ReportInput struct {
	Location string     `json:"location"` // path or bucket URL of a file
	Report   job.Report `json:"report"`
	// Ref is the run that is reported. The file gets the rights of its inputs, because the report quotes an item.
	// Without a store, as before the job has one, nobody is asked whether a newer run has begun.
	Ref Ref `json:"ref"`
}

// FailuresInput asks for the errors file of a job that has failed.
type FailuresInput struct {
	Ref       Ref      `json:"ref"`
	Spec      job.Spec `json:"spec"`
	Manifests []string `json:"manifests"` // heads of the chain
}

// FailuresResult says where the errors file is, and what it has.
type FailuresResult struct {
	Location string             `json:"location,omitempty"` // empty: there are no records
	Failures []job.FailureGroup `json:"failures,omitempty"`
}

// FinishInput asks for a job's output.
type FinishInput struct {
	Ref       Ref      `json:"ref"`
	Spec      job.Spec `json:"spec"`
	Manifests []string `json:"manifests"` // heads of the chain
	Planned   int64    `json:"planned"`   // items that must be accounted for
	// Earlier are the runs that this one takes the place of: see [Publication].
	Earlier []string `json:"earlier,omitempty"`
}

// FinishResult says where the output is.
type FinishResult struct {
	Output job.Output `json:"output"`
	Books  Books      `json:"books"`
	// Gone is how many items of the earlier run whose results were used no item has matched.
	Gone int64 `json:"gone,omitempty"`
	// Failures are the groups of the error records.
	Failures []job.FailureGroup `json:"failures,omitempty"`
	// Manifests are those of the published state, if these are others than Finish was given: of a redrive that is merged,
	// or of a job whose items have outcomes of equal ones.
	Manifests []string `json:"manifests,omitempty"`
	// Only after a redrive: how many items it has run again, and the first of the errors that remain.
	Redriven   int64           `json:"redriven,omitempty"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
}

// FinishRedriveInput is the result of a redrive, to be merged into the output of the completed job.
type FinishRedriveInput struct {
	FinishInput
	Redrive job.Redrive `json:"redrive"`
}

// PlanRedriveInput asks for one page of batches of a redrive.
type PlanRedriveInput struct {
	PlanInput
	Redrive job.Redrive `json:"redrive"`
}

// ProcessInput is one batch to run.
type ProcessInput struct {
	Ref   Ref        `json:"ref"`
	Batch Batch      `json:"batch"`
	Calls CallLimits `json:"calls"`
	// Trials are what items of the batch have behind them, as an earlier execution has left it: see Trials in package
	// calls.
	Trials []byte `json:"trials,omitempty"`

	Grace time.Duration `json:"grace"`           // of a stop that does not set its own
	Slice time.Duration `json:"slice,omitempty"` // after which the batch returns its rest; 0: never
	// Take is how many of the batch's items are done; the others are its rest. 0: all.
	Take int64 `json:"take,omitempty"`
	// Alone: these are one item that workers may have died of. No other batch, of other jobs neither, should run in the
	// worker meanwhile.
	Alone bool `json:"alone,omitempty"`
	// Hopeless is how many items may fail alone in their calls, before one has succeeded, until the batch returns its
	// rest, for the job to decide whether anything works; 0: any number.
	Hopeless int64 `json:"hopeless,omitempty"`
	// OnError is the job's: see [job.Spec].
	OnError string `json:"on_error,omitempty"`
	// Pace is the most items begun in a time; 0: no limit.
	Pace job.Rate `json:"pace,omitempty"`
	// Share is how much the execution may use of what else limits its job; nil: nothing does.
	Share *Share `json:"share,omitempty"`
	// Flatten and KeepDrops are about the job's results: see [job.Spec].Flatten, and Dropped.
	Flatten   bool `json:"flatten,omitempty"`
	KeepDrops bool `json:"keep_drops,omitempty"`
	// Verdict, if it is set, is what all items fail with: the handler is not called.
	Verdict *Verdict `json:"verdict,omitempty"`

	// Items are those of a feed's batch, values in JSON: as many as Batch.Count. Batch has First and Count only then,
	// and so has its rest. Empty: the batch is a range of one of the job's sources.
	Items Items `json:"items,omitempty"`
	// Stored: outcomes are not returned inline, however small they are: they are in a part.
	Stored bool `json:"stored,omitempty"`
	// Inline is how many bytes of what later steps of a pipeline read are returned inline, at most; what has more is in
	// the store. 0: all is.
	Inline int `json:"inline,omitempty"`
	// Format is that of Items, jsonl or text; MaxItem is the job's.
	Format  string `json:"format,omitempty"`
	MaxItem int64  `json:"max_item,omitempty"`

	// Stage is the stage of a pipeline that the execution belongs to. Nil: the job has no stages.
	Stage *Stage `json:"stage,omitempty"`

	// Clock makes the batch a slot of a loop: its items are ticks, its source is the slot's number, and it has no end.
	// Nil: it is none.
	Clock *Clock `json:"clock,omitempty"`
}

// Share is how much an execution may use of its job's budget, and of its limits of requests and tokens.
type Share struct {
	Cost   job.Money `json:"c,omitempty"` // most that its calls may cost; 0: any amount
	Tokens int64     `json:"t,omitempty"` // most tokens that they may use; 0: any number
	// Each is what an item has used so far, on average; zero: that is not known.
	Each      job.Usage `json:"e,omitzero"`
	Requests  job.Rate  `json:"r,omitempty"`  // most requests begun in a time; 0: no limit
	TokenRate job.Rate  `json:"tr,omitempty"` // most tokens used in a time; 0: no limit
	By        string    `json:"by,omitempty"` // field of items for whose values these two hold; "": for all items together
	// First is when the first request may be begun, from the start of the execution.
	First NextTurn `json:"f,omitzero"`
}

// Todo returns how many are to be done.
func (in *ProcessInput) Todo() int64 {
	if in.Take > 0 {
		return min(in.Take, in.Batch.Count)
	}
	return in.Batch.Count
}

// Valid returns an error if the input cannot be carried out: its numbers size what an execution holds.
func (in *ProcessInput) Valid() error {
	switch {
	case in.Take < 0, in.Hopeless < 0, in.MaxItem < 0, in.Slice < 0, in.Grace < 0:
		return errors.New("the number of items to take, to fail or of bytes of an item, or a time, is below 0")
	case in.Batch.From != nil && (in.Stage == nil || in.Stage.Read == nil):
		return errors.New("it has been through a step, and no stage says what to read of that")
	case in.Clock != nil && (in.Clock.Every < 0 || in.Clock.Slot < 0 || in.Clock.Slot >= limits.MaxSlots || in.Clock.Next < 0 || in.Clock.Skipped < 0):
		return fmt.Errorf("slot %d of a loop, from tick %d on, every %v", in.Clock.Slot, in.Clock.Next, in.Clock.Every)
	case in.Share != nil && in.Share.First.Keys.Valid() != nil:
		return in.Share.First.Keys.Valid()
	}
	return in.Batch.Valid()
}

// StageName names the stage that the execution belongs to; it is empty if the job has none.
func (in *ProcessInput) StageName() string {
	if in.Stage == nil {
		return ""
	}
	return in.Stage.Name
}

// PassesOn reports whether the results are for another step of a pipeline.
func (in *ProcessInput) PassesOn() bool { return in.Stage != nil && !in.Stage.Last }

// Gathers reports whether the results are the items themselves.
func (in *ProcessInput) Gathers() bool { return in.Stage != nil && in.Stage.Gather }

// Flattens reports whether each result is a list of results.
func (in *ProcessInput) Flattens() bool { return in.Flatten && !in.PassesOn() }

// Verdict is why items are recorded as failed without being tried again: every worker that had them
// in hand has died.
type Verdict struct {
	Kind     string    `json:"kind"` // one of job.Kind…
	Error    job.Error `json:"error"`
	Attempts int       `json:"attempts"`
}

// ProcessResult is an execution's answer. Only when the workflow has accepted it does its part count.
type ProcessResult struct {
	// Entry is what has been done: the first items of the batch, perhaps none.
	Entry Entry `json:"entry"`
	// Inline holds the outcomes of a feed's batch, if they are few: the entry then names no part, and has the sizes and
	// checksums that one would have. Nil: they are in the part.
	Inline *Inline `json:"inline,omitempty"`
	// Rest is what has not been done: the other items of the batch; nil if there are none.
	Rest *Batch `json:"rest,omitempty"`
	// Trials are what items of the rest have behind them, for its execution.
	Trials     []byte          `json:"trials,omitempty"`
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Started is when the worker took the batch from the pool's queue, in Unix milliseconds of the
	// server's clock.
	Started int64 `json:"at,omitempty"`
	// Worker is who has done it.
	Worker string `json:"worker,omitempty"`
	// Unbegun is why the worker could not begin calls for the rest; empty if that is not why there is one.
	Unbegun string `json:"unbegun,omitempty"`
	// Capacity is what that worker runs at once.
	Capacity Capacity `json:"capacity,omitzero"`
	// Paced is the time spent waiting for the pace, or for turns; part of Totals.Busy.
	Paced time.Duration `json:"paced,omitempty"`
	// Turns is how many requests have waited for their turn, and Values for how many values of the field that limits hold
	// by.
	Turns  int64 `json:"turns,omitempty"`
	Values int64 `json:"values,omitempty"`
	NextTurn
	// SlowDown is how long the handler asked for no new calls; 0: it did not ask.
	SlowDown time.Duration `json:"slow_down,omitempty"`
	// Written is the part, for later steps of a pipeline; nil: the step is the last.
	Written *Part `json:"written,omitempty"`
	// Routed are the cases that a step of a switch has found items of: see [wire.Parcel].
	Routed uint32 `json:"routed,omitempty"`
	// Cuts are places at which later steps of a pipeline can split the batch.
	Cuts []Cut `json:"cuts,omitempty"`
	// Carried are items of the Entry that the step has not had, because another one has settled them.
	Carried Carried `json:"carried,omitzero"`
	// Forced are the processes that a stop had to end by signals.
	Forced []job.ForcedEnd `json:"forced,omitempty"`
	// Left are the job's Go calls that still run on the worker after its stop, each in one result only. Batch is
	// without a number.
	Left []job.Straggler `json:"left,omitempty"`
	// Clock is where the slot of a loop stands after this execution. The entry then names no part: the slot's manifests
	// do.
	Clock *job.LoopSlot `json:"clock,omitempty"`
}

// Carried counts items that have come through a step of a pipeline without being its own.
type Carried struct {
	Items  int64 `json:"n,omitempty"`
	Failed int64 `json:"f,omitempty"` // of these
}

// CallLimits say how calls are made and retried.
type CallLimits struct {
	Timeout      time.Duration `json:"timeout,omitempty"` // of one call; 0: none
	Attempts     int           `json:"attempts"`          // of a call that fails as a whole, before it is halved
	ItemAttempts int           `json:"item_attempts"`
	Backoff      time.Duration `json:"backoff"`
	// Retry are rules for some failures, and Final selects those that are final at once.
	Retry []job.Retry `json:"retry,omitempty"`
	Final job.Where   `json:"final,omitempty"`
}

// Ruled reports whether there are rules for some failures.
func (l CallLimits) Ruled() bool { return len(l.Retry) > 0 || l.Final != "" }

// SlotRef says where a batch runs.
type SlotRef struct {
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
	SlotRef
	// Waiting: for a place in a slot, so nothing is in hand, and nothing else is said.
	Waiting bool `json:"waiting,omitempty"`
	// Timers are those that the slot's process, or the batch's handler, holds: the MaxHinted earliest ones.
	Timers []HeldTimer `json:"timers,omitempty"`
	// Clock is where the slot of a loop stands; nil: the batch is no loop's.
	Clock *job.LoopSlot `json:"clock,omitempty"`
	// News is how much is answered of this batch, and of the others of the job that the same worker runs: at most
	// MaxNews.
	Progress []Answered `json:"progress,omitempty"`
	// Usage is what the execution has used of services that are paid for.
	Usage job.Usage `json:"usage,omitzero"`
}

// MaxNews is the most batches in a Hint's News.
const MaxProgress = 64

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

// Begun is what a worker reports of an execution that has begun its last request, and waits for answers.
type Begun struct {
	Activity string `json:"activity"` // its ID
	NextTurn
}

// CameBack is what a worker reports of an execution that it had alive when it learned that the server had given it up:
// the server or the connection was away for too long, or the worker was frozen. The execution ends, and nobody has
// died.
type CameBack struct {
	Activity string        `json:"activity"`        // its ID
	Clock    *job.LoopSlot `json:"clock,omitempty"` // of a slot of a loop: Doubt is the ordinal after the last tick that it has begun
}

// ActivitySlot says where an activity runs.
type ActivitySlot struct {
	Activity string `json:"activity"` // its ID
	SlotRef
	Clock *job.LoopSlot `json:"clock,omitempty"` // as in its last Hint
}
