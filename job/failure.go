package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-run/stint/internal/base/limits"
)

// Kinds of a Failure. What else there is to know of each is in limits.FailureKinds.
const (
	KindError   = "error"   // the handler returned an error for the item
	KindExit    = "exit"    // the filter ended with a status other than 0, which its message begins with: "exit 3"
	KindCrash   = "crash"   // the item's process was killed, or, if it should have stayed, ended during the call
	KindExpired = "expired" // a timer around the item's call expired
	KindInvalid = "invalid" // the bytes are not an item in their format
	KindLength  = "length"  // the call did not answer with one result per item
	KindLost    = "lost"    // a feed has accepted the item, and its outcome cannot be found any more: see [FeedReport].Lost
)

// Error is an error that can be sent and stored: a type name, a message and, if known, a stack.
type Error struct {
	Type    string `json:"type,omitempty"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

func (e *Error) Error() string {
	if e.Type == "" {
		return e.Message
	}
	return e.Type + ": " + e.Message
}

// Failure is the error record of one failed item: a line of the errors file.
type Failure struct {
	Item     int64           `json:"item"`            // ordinal
	Stage    string          `json:"stage,omitempty"` // of a pipeline, in which it has failed; Input is the item as the job got it
	Source   string          `json:"source"`          // the input it came from
	Offset   int64           `json:"offset"`          // of its first byte in that input, uncompressed
	Input    json.RawMessage `json:"input"`           // as a handler gets it, or {"base64":…}, or null if it is too long to keep, or lost
	Kind     string          `json:"kind"`
	Error    Error           `json:"error"`
	Attempts int             `json:"attempts"` // how many calls that contained the item failed
	// Partial is the list of an ensemble's results, with the members' errors, if an ensemble has failed the item.
	Partial json.RawMessage `json:"partial,omitempty"`
}

// FirstError is the failure with the lowest ordinal so far, without the item's data.
type FirstError struct {
	Item  int64  `json:"item"`
	Kind  string `json:"kind"`
	Error Error  `json:"error"`
}

// Label returns the kind in brackets, to stand before the message: " (crash)". It is empty for [KindExit], whose
// messages begin with the status.
func (e *FirstError) Label() string {
	if limits.FailureKindOf(e.Kind).Said {
		return ""
	}
	return " (" + e.Kind + ")"
}

// First returns the one with the lower ordinal; either may be nil.
func (e *FirstError) First(other *FirstError) *FirstError {
	if e == nil || other != nil && other.Item < e.Item {
		return other
	}
	return e
}

// Types of the application errors by which stint's activities and workflows fail.
const (
	ErrorInvalid = "InvalidSpec"      // the spec cannot be carried out as it stands
	ErrorInput   = "InputUnreadable"  // input missing, unreadable, or not in its format at all
	ErrorChanged = "InputChanged"     // input is not what it was when it was planned
	ErrorOutput  = "OutputUnwritable" // output or store missing or read-only
	ErrorFenced  = "Overtaken"        // a newer run of the job owns the store
	ErrorBooks   = "BooksUnbalanced"  // the accepted ranges do not tile the planned items
	ErrorCorrupt = "PartCorrupt"      // a part is not what was accepted
	ErrorDamaged = "BatchDamaged"     // a batch is not what was cut: a fault of stint, noticed before anything was read or recorded
	// ErrorOutage: the store, or the host of an input, could not be used: it is out of reach, overloaded or full.
	// It costs no attempt, and is retried for about a day.
	ErrorOutage    = "Outage"
	ErrorExhausted = "AttemptsExhausted"
	ErrorFailed    = "JobFailed"
	ErrorTooMany   = "TooManyFailed"  // more items failed than the job tolerates
	ErrorHopeless  = "NothingWorks"   // not one of the first items succeeded
	ErrorHook      = "HookFailed"     // an init hook failed
	ErrorNoHook    = "HookUnknown"    // the pool's worker has no hook of the name
	ErrorLeftovers = "StillRunning"   // a stop's grace period was over before everything had ended
	ErrorGone      = "WorkflowClosed" // Temporal ended the job: terminated, timed out or cancelled
)

// Tolerance is how many failed items a job tolerates: a number of items ("100", "0" for none), or a
// share of the items done, above 0% and up to 100% ("5%", "0.1%"), which is checked once
// 1,000 items are done and at the end. Empty or "none": any number.
type Tolerance string

// Unlimited reports whether any number of failed items is tolerated.
func (t Tolerance) Unlimited() bool { return t == "" || t == noneText }

// Validate returns an error if t is not a valid tolerance.
func (t Tolerance) Validate() error {
	_, _, err := t.parse()
	return err
}

const toleranceForm = "use a number of items, such as 100, or a share, such as 5%"

// parse returns the number of items, or the share in millionths.
func (t Tolerance) parse() (items, millionths int64, err error) {
	bad := fmt.Errorf("invalid tolerance %q: %s", string(t), toleranceForm)
	if t.Unlimited() {
		return 0, 0, nil
	}
	if share, ok := strings.CutSuffix(string(t), "%"); ok {
		v, err := strconv.ParseFloat(share, 64)
		if err != nil || !(v > 0 && v <= 100) {
			return 0, 0, bad
		}
		return 0, max(1, int64(float64(v*10_000)+0.5)), nil // the same on every processor
	}
	items, err = strconv.ParseInt(string(t), 10, 64)
	if err != nil || items < 0 {
		return 0, 0, bad
	}
	return items, 0, nil
}

// Allowed returns how many items may have failed if done items have an outcome. It is not ok if the number is
// unlimited. final: no more items will be done.
func (t Tolerance) Allowed(done int64, final bool) (failed int64, ok bool) {
	items, millionths, err := t.parse()
	switch {
	case err != nil || t.Unlimited():
		return 0, false
	case millionths == 0:
		return items, true
	case done < limits.ToleranceItems && !final:
		return 0, false
	}
	return done/1_000_000*millionths + done%1_000_000*millionths/1_000_000, true
}

// Exceeded reports whether more items have failed than are tolerated.
func (t Tolerance) Exceeded(done, failed int64, final bool) bool {
	allowed, ok := t.Allowed(done, final)
	return ok && failed > allowed
}
