package calls

import (
	"fmt"
	"time"

	"github.com/stint-run/stint/job"
)

// WaitLimit is how long an item may wait in all because its handler asks for that, without an attempt. One that
// would have to wait longer is recorded as failed.
const WaitLimit = 10 * time.Minute

// minWait is the shortest such wait: so no handler is called again and again without a pause.
const minWait = 10 * time.Millisecond

// RetryAfterError is a handler's request to call an item, or a call, again later. That costs no attempt, and
// nothing else waits for it.
type RetryAfterError struct {
	After time.Duration
	Cause error // may be nil
}

func (e *RetryAfterError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("to be tried again after %v", e.After)
	}
	return fmt.Sprintf("to be tried again after %v: %v", e.After, e.Cause)
}

func (e *RetryAfterError) Unwrap() error { return e.Cause }

// fault is the fault of an item that is to be called again later.
func (e *RetryAfterError) fault() *Fault {
	f := Fault{Kind: job.KindError, Err: job.Error{Type: retryAfterType}}
	if e.Cause != nil {
		f = *FaultOf(e.Cause)
	}
	return f.RetryAfter(e.After)
}

// retryAfterType is the type of an error that has none of its own.
const retryAfterType = "RetryAfter"

// RetryAfter makes of the fault one that has the item called again, after that time.
func (f Fault) RetryAfter(after time.Duration) *Fault {
	f.After = max(after, minWait)
	return &f
}

// Tried is how often the item at this index has failed before the call.
func (c *Call) Tried(i int) int { return c.trials.Of(c.Items[i].Ordinal).Tries }

// Postpone leaves the item at this index, the next in order, without an outcome for now: it is called again,
// after the wait that the fault asks for, or else after the usual one. tries have failed so far. If it has
// waited too long already, the fault becomes its outcome.
func (c *Call) Postpone(i int, f *Fault, tries int) {
	ordinal := c.Items[i].Ordinal
	if c.trials == nil { // somebody else decides
		c.Answer.hold(f)
		return
	}
	trial := c.trials.Of(ordinal)
	trial.Tries = tries
	wait := f.After
	switch {
	case wait == 0:
		wait = retryDelay(c.Backoff, tries)
	case trial.Waited+wait > WaitLimit:
		c.Answer.Fail(waitedTooLong(f, trial.Waited), tries+1)
		return
	default:
		trial.Waited += wait
	}
	if c.now.IsZero() {
		c.now = time.Now()
	}
	trial.Due = c.now.Add(wait)
	c.trials.set(ordinal, trial)
	c.Answer.hold(f)
}

// waitedTooLong is the error of an item that must not wait any more.
func waitedTooLong(f *Fault, waited time.Duration) *Fault {
	failed := *f
	failed.After = 0
	if f.Err.Message != "" {
		failed.Err.Message = ": " + f.Err.Message
	}
	failed.Err.Message = fmt.Sprintf(
		"its handler asks for another try after %v, it has waited for %v so far, and the limit for an item is %v in all%s",
		f.After.Round(time.Millisecond), waited.Round(time.Millisecond), WaitLimit, failed.Err.Message)
	return failed.bounded()
}
