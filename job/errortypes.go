package job

// Types of the application errors by which stint's activities and workflows fail.
// Those in [PermanentErrors] are never retried.
const (
	ErrorInvalid = "InvalidSpec"      // the spec cannot be carried out as it stands
	ErrorInput   = "InputUnreadable"  // input missing, unreadable, or not in its format at all
	ErrorChanged = "InputChanged"     // input is not what it was when it was planned
	ErrorOutput  = "OutputUnwritable" // output or store missing or read-only
	ErrorFenced  = "Overtaken"        // a newer run of the job owns the store
	ErrorBooks   = "BooksUnbalanced"  // the accepted ranges do not tile the planned items
	ErrorCorrupt = "PartCorrupt"      // a part is not what was accepted
	// ErrorOutage: the store, or the host of an input, could not be used: it is out of reach, overloaded or full.
	// It costs no attempt, and is retried for about a day.
	ErrorOutage    = "Outage"
	ErrorOrphaned  = "Orphaned" // the process that held the activity is known to be gone
	ErrorExhausted = "AttemptsExhausted"
	ErrorFailed    = "JobFailed"
	ErrorTooMany   = "TooManyFailed"  // more items failed than the job tolerates
	ErrorHopeless  = "NothingWorks"   // not one of the first items succeeded
	ErrorHook      = "HookFailed"     // an init hook failed
	ErrorNoHook    = "HookUnknown"    // the pool's worker has no hook of the name
	ErrorLeftovers = "StillRunning"   // a stop's grace period was over before everything had ended
	ErrorGone      = "WorkflowClosed" // Temporal ended the job: terminated, timed out or cancelled
)

// PermanentErrors returns the error types that retrying cannot help.
func PermanentErrors() []string {
	return []string{ErrorInvalid, ErrorInput, ErrorChanged, ErrorOutput, ErrorFenced, ErrorBooks, ErrorCorrupt, ErrorOrphaned, ErrorNoHook}
}
