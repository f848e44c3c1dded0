package dispatch

import (
	"errors"
	"fmt"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

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
