package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/suspicion"
)

// task is a batch that waits or runs.
type task struct {
	wire.Task
	expired *expired  // the latest of its executions that has expired; nil: none, or it does not matter any more
	started time.Time // of the execution in flight
	limited bool      // by the window: when it was dispatched, for one that had ended, others waited for a place
	excused bool      // however that execution ends, it is not a failure of the batch
	pace    job.Rate  // of that execution; 0: no limit
}

func (t *task) suspicion() *suspicion.Suspicion { return suspicion.Of(&t.Suspicion) }

const (
	// FirstSlice is how long a batch runs before it returns its rest; each rest may run twice as long
	// as the one before, up to lastSlice.
	FirstSlice = time.Minute
	lastSlice  = time.Hour
)

// activityID names an execution, so that the server can be asked for it. It is unique in its job.
func (t *task) activityID() string {
	if t.From != nil { // there may be several with the number, but one for an item and a step
		return fmt.Sprintf("batch-%d.%d.%d.%d", t.Number, t.From.Step, t.First, t.Runs)
	}
	return fmt.Sprintf("batch-%d.%d", t.Number, t.Runs)
}

func (t *task) summary() string {
	s := fmt.Sprintf("batch %s · %s", text.Thousands(t.Number), t.Batch)
	if t.Stage != "" {
		s += " · " + t.Stage
	}
	if t.Rests > 0 {
		s += " · rest"
	}
	if t.suspicion().Suspected() {
		return s + " · " + t.suspicion().Describe()
	}
	if n := t.failures(); n > 0 {
		s += fmt.Sprintf(" · attempt %d", n+1)
	}
	return s
}

// failures is how many executions have failed, with an error or because their worker has died.
func (t *task) failures() int { return t.Tries + t.Deaths }

// losses is how many executions have ended with their worker or its process.
func (t *task) losses() int { return t.Deaths + t.Orphaned }

// slice is how long the next execution may run. A paced one keeps its pace to its end, so while the rate
// recovers from a slow-down slices stay short.
func (t *task) slice(recovering bool) time.Duration {
	slice := FirstSlice
	if t.pace > 0 && recovering {
		return slice
	}
	for i := 0; i < t.Rests && slice < lastSlice; i++ {
		slice *= 2
	}
	return min(slice, lastSlice)
}

// items is how many items the next execution does; 0: all.
func (t *task) items() int64 {
	take := t.suspicion().Take()
	if t.Portion > 0 && (take == 0 || t.Portion < take) {
		return t.Portion
	}
	return take
}

// resize sets Portion after an execution that has done so many items. If the handler asked to slow down
// before it had done one, the next execution gets half of the items: a call that is too large would
// otherwise return whole, again and again.
func (t *task) resize(done int64, slowDown time.Duration) {
	switch {
	case done > 0 && 2*t.Portion < t.Count:
		t.Portion *= 2
	case done > 0:
		t.Portion = 0
	case slowDown > 0:
		had := t.items()
		if had == 0 {
			had = t.Count
		}
		t.Portion = max(1, had/2)
	}
}

// verdict is what the next execution records without trying; nil: it tries.
func (t *task) verdict() *wire.Verdict {
	if !t.Condemned {
		return nil
	}
	return &wire.Verdict{Kind: t.Kind, Attempts: t.losses(), Error: job.Error{
		Type: "WorkerDied", Message: fmt.Sprintf("every worker that had it in hand was lost, %d in all; the last time: %s", t.losses(), t.Cause),
	}}
}

// blame says, for people, why a batch is retried.
func (t *task) blame(cause *job.Error) string {
	return fmt.Sprintf("batch %s (%s): %s", text.Thousands(t.Number), t.Batch, cause.Message)
}

// A batch whose fields do not match its check was damaged on its way here: by a page, by a hand-over, or in memory. Nothing of it is
// executed or recorded. It is an error of the job, which can be resumed: Plan then cuts the batch anew.

var errNotItsItems = errors.New("the execution reports other items")

// intact returns an error unless the batch is as it was when it was sealed.
func (t *task) intact() *job.Error {
	if err := t.Verify(); err != nil {
		return &job.Error{Type: job.ErrorDamaged, Message: fmt.Sprintf("batch %d was not executed: %v; resume the job to have it cut anew", t.Number, err)}
	}
	return nil
}

// answers returns an error unless what an execution returns are the task's own items: first what is done, then the rest.
func (t *task) answers(r *wire.ProcessResult) *job.Error {
	err := t.tiledBy(r)
	if err == nil {
		return nil
	}
	return &job.Error{Type: job.ErrorDamaged, Message: fmt.Sprintf("what batch %d came to was not recorded: %v; resume the job to have it run anew", t.Number, err)}
}

func (t *task) tiledBy(r *wire.ProcessResult) error {
	next := t.First
	if r.Entry.Count > 0 {
		if err := r.Entry.Verify(); err != nil {
			return fmt.Errorf("done are %w", err)
		}
		if r.Entry.First != next {
			return fmt.Errorf("done are %s of %s: %w", r.Entry.Batch, t.Batch, errNotItsItems)
		}
		next = r.Entry.End()
	}
	if r.Rest != nil {
		if err := r.Rest.Verify(); err != nil {
			return fmt.Errorf("left are %w", err)
		}
		if r.Rest.First != next || r.Rest.Source != t.Source || r.Rest.Offset+r.Rest.Length != t.Offset+t.Length {
			return fmt.Errorf("left are %s of %s: %w", r.Rest, t.Batch, errNotItsItems)
		}
		next = r.Rest.End()
	}
	if next != t.End() {
		return fmt.Errorf("neither done nor left are the items from %d to before %d of %s: %w", next, t.End(), t.Batch, errNotItsItems)
	}
	return nil
}
