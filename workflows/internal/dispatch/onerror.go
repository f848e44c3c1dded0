package dispatch

import (
	"fmt"

	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// fail ends the leg with an error: the first one counts. What is in flight gets the job's grace.
func (d *Dispatcher) fail(err *job.Error) {
	if d.sofar.Error != nil {
		return
	}
	d.sofar.Error = err
	d.link.Failed(err)
	d.stop(wire.StopNotice{Deadline: workflow.Now(d.ctx).Add(max(0, d.spec.Grace)), Reason: err.Message})
}

// itemFailed stops the job because an item has failed, if its spec says so: as failed, unless the type of
// the error is one that only stops it.
func (d *Dispatcher) itemFailed(first *job.FirstError) {
	if d.Halted() {
		return
	}
	err := &job.Error{Type: first.Error.Type, Message: fmt.Sprintf("item %s failed%s: %s", text.Thousands(first.Item), first.Label(), first.Error.Message)}
	if !d.spec.StopsCleanly(err.Type) {
		d.fail(err)
		return
	}
	d.sofar.Error = err // the leg may end before the signal has been sent: the job finds it in the result
	d.link.Failed(err)
	d.stop(wire.StopNotice{Deadline: workflow.Now(d.ctx).Add(max(0, d.spec.Grace)), Reason: err.Message})
}
