package dispatch

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// ReceiveEach calls fn for each signal of the name that has arrived. It does not block unless fn does.
func ReceiveEach[T any](ctx workflow.Context, name string, fn func(T)) {
	for {
		var value T
		if !workflow.GetSignalChannel(ctx, name).ReceiveAsync(&value) {
			return
		}
		fn(value)
	}
}

// Listen has Run react to the signals that control a leg in its own workflow.
func (d *Dispatcher) Listen() {
	add := func(name string, receive func(workflow.ReceiveChannel)) {
		d.selector.AddReceive(workflow.GetSignalChannel(d.ctx, name), func(c workflow.ReceiveChannel, _ bool) { receive(c) })
	}
	add(wire.SignalHalt, func(c workflow.ReceiveChannel) {
		var notice wire.StopNotice
		if c.ReceiveAsync(&notice) {
			d.stop(notice)
		}
	})
	add(wire.SignalGrant, func(workflow.ReceiveChannel) { d.receiveGrants() })
	add(wire.SignalLimits, func(workflow.ReceiveChannel) { d.receiveLimits() })
	d.ListenInside()
}

// ListenInside has Run react to what reaches a leg in any workflow. It is for a leg inside the job, which does
// without signals: it calls Halt, Grant and SetLimits.
func (d *Dispatcher) ListenInside() {
	d.selector.AddReceive(workflow.GetSignalChannel(d.ctx, wire.SignalRestarted), func(workflow.ReceiveChannel, bool) { d.receiveRestarts() })
	d.selector.AddReceive(workflow.GetSignalChannel(d.ctx, wire.SignalCameBack), func(workflow.ReceiveChannel, bool) { d.receiveReturns() })
	d.selector.AddReceive(d.wake, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
}

func (d *Dispatcher) receiveGrants() { ReceiveEach(d.ctx, wire.SignalGrant, d.window.granted) }

// receiveLimits takes what has arrived: the last signal counts.
func (d *Dispatcher) receiveLimits() { ReceiveEach(d.ctx, wire.SignalLimits, d.SetLimits) }

// DrainSignals takes the signals that have arrived after Run, so that nothing is lost over continue-as-new.
func (d *Dispatcher) DrainSignals() {
	d.receiveGrants()
	d.receiveRestarts()
	d.receiveReturns()
	d.receiveLimits()
	var notice wire.StopNotice
	if workflow.GetSignalChannel(d.ctx, wire.SignalHalt).ReceiveAsync(&notice) && d.notice == nil {
		d.notice = &notice // nothing is in flight that it would have to reach
	}
}

var errNoJob = errors.New("the leg belongs to no job")

// ReceiveFromLegs calls fn for each signal of the name that a leg of the run has sent. Legs of other runs learn that
// they have no job any more.
func ReceiveFromLegs[T any](ctx workflow.Context, run, name string, fn func(T)) {
	ReceiveEach(ctx, name, func(s wire.FromLeg[T]) {
		if s.Run == "" || s.Run == run {
			fn(s.Value)
			return
		}
		workflow.SignalExternalWorkflow(ctx, s.Leg.ID, s.Leg.RunID, wire.SignalDisowned, nil)
	})
}

// ParentLink reaches the job of a leg that has its own workflow: by signals to its parent. If there is none,
// nobody is reached.
type ParentLink struct {
	ctx        workflow.Context
	run        string
	leg        int
	batchEnded func()
}

// NewParentLink makes the link of a leg with a number to the job that has the run in its Ref; batchEnded is called
// after every end of an execution.
func NewParentLink(ctx workflow.Context, run string, leg int, batchEnded func()) *ParentLink {
	return &ParentLink{ctx: ctx, run: run, leg: leg, batchEnded: batchEnded}
}

// Signal signals the job. It does not block, and returns nil if the leg belongs to no job.
func (p *ParentLink) Signal(name string, argument any) workflow.Future {
	info := workflow.GetInfo(p.ctx)
	if info.ParentWorkflowExecution == nil {
		return nil
	}
	signal := wire.FromLeg[any]{Run: p.run, Leg: wire.Execution(info.WorkflowExecution), Value: argument}
	return workflow.SignalExternalWorkflow(p.ctx, info.ParentWorkflowExecution.ID, "", name, signal)
}

// Failed sends wire.SignalFail.
func (p *ParentLink) Failed(err *job.Error) { p.Signal(wire.SignalFail, *err) }

// SlowDown sends wire.SignalSlow.
func (p *ParentLink) SlowDown(r wire.SlowDownRequest) { p.Signal(wire.SignalSlow, r) }

// Counted sends wire.SignalCounts.
func (p *ParentLink) Counted(c wire.Counts) { p.Signal(wire.SignalCounts, c) }

// ReportPool sends wire.SignalPool.
func (p *ParentLink) ReportPool(n wire.PoolReport) { p.Signal(wire.SignalPool, n) }

// BatchEnded calls what the link was made with.
func (p *ParentLink) BatchEnded() { p.batchEnded() }

// HandBack sends wire.SignalPlaces.
func (p *ParentLink) HandBack(places int) workflow.Future {
	if sent := p.Signal(wire.SignalPlaces, wire.PlacesBack{Leg: p.leg, Places: places}); sent != nil {
		return sent
	}
	future, settable := workflow.NewFuture(p.ctx)
	settable.SetError(errNoJob)
	return future
}
