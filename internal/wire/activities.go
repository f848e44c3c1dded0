package wire

import (
	"github.com/stint-run/stint/job"
)

// Activity is the registered name of an activity that is given an In and returns an Out.
type Activity[In, Out any] string

// The activities. [ActivityProcess] runs a batch, on the queue of its pool; [ActivityLocate] is a local activity that finds out where
// batches run; the others are on the io queue. What they do is in package activities.
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
	ActivityWriteFailures Activity[FailuresInput, string]               = "WriteFailures"
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
	Places []ActivityPlace `json:"places,omitempty"`
	// Ended are those of the processes, and of the places', that are known to have ended: what they had started ends with them.
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
	// Only after a redrive: how many items it has run again, the manifests of the merged state, and the
	// first of the errors that remain.
	Redriven   int64           `json:"redriven,omitempty"`
	Manifests  []string        `json:"manifests,omitempty"`
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
