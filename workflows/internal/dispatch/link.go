package dispatch

import (
	"errors"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

var errNoJob = errors.New("the leg belongs to no job")

// ParentLink reaches the job of a leg that has its own workflow: by signals to its parent. If there is none,
// nobody is reached.
type ParentLink struct {
	ctx        workflow.Context
	leg        int
	batchEnded func()
}

// NewParentLink makes the link of a leg with a number; batchEnded is called after every end of an execution.
func NewParentLink(ctx workflow.Context, leg int, batchEnded func()) *ParentLink {
	return &ParentLink{ctx: ctx, leg: leg, batchEnded: batchEnded}
}

// Signal signals the job. It does not block, and returns nil if the leg belongs to no job.
func (p *ParentLink) Signal(name string, argument any) workflow.Future {
	parent := workflow.GetInfo(p.ctx).ParentWorkflowExecution
	if parent == nil {
		return nil
	}
	return workflow.SignalExternalWorkflow(p.ctx, parent.ID, "", name, argument)
}

// Failed sends SignalFail.
func (p *ParentLink) Failed(err *job.Error) { p.Signal(SignalFail, *err) }

// SlowDown sends SignalSlow.
func (p *ParentLink) SlowDown(r SlowDownRequest) { p.Signal(SignalSlow, r) }

// Counted sends SignalCounts.
func (p *ParentLink) Counted(c Counts) { p.Signal(SignalCounts, c) }

// Heard sends SignalPool.
func (p *ParentLink) Heard(n PoolNews) { p.Signal(SignalPool, n) }

// BatchEnded calls what the link was made with.
func (p *ParentLink) BatchEnded() { p.batchEnded() }

// HandBack sends SignalPlaces.
func (p *ParentLink) HandBack(places int) workflow.Future {
	if sent := p.Signal(SignalPlaces, PlacesBack{Leg: p.leg, Places: places}); sent != nil {
		return sent
	}
	future, settable := workflow.NewFuture(p.ctx)
	settable.SetError(errNoJob)
	return future
}
