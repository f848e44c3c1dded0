package dispatch

import (
	"errors"
	"slices"

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
	d.listen(wire.SignalHalt, func() { ReceiveEach(d.ctx, wire.SignalHalt, d.stop) })
	d.listen(wire.SignalGrant, d.receiveGrants)
	d.listen(wire.SignalLimits, d.receiveLimits)
	d.listen(wire.SignalRetire, d.receiveRetirement)
	d.ListenInside()
}

// ListenInside has Run react to what reaches a leg in any workflow. It is for a leg inside the job, which does
// without signals: it calls Halt, Grant and SetLimits.
func (d *Dispatcher) ListenInside() {
	d.listen(wire.SignalRestarted, d.receiveRestarts)
	d.listen(wire.SignalCameBack, d.receiveReturns)
	d.listen(wire.SignalBegun, d.receiveBegun)
	d.selector.AddReceive(d.wake, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
}

// listen has Run call receive when a signal of the name has arrived.
func (d *Dispatcher) listen(name string, receive func()) {
	d.selector.AddReceive(workflow.GetSignalChannel(d.ctx, name), func(workflow.ReceiveChannel, bool) { receive() })
}

func (d *Dispatcher) receiveGrants() { ReceiveEach(d.ctx, wire.SignalGrant, d.window.granted) }

// receiveLimits takes what has arrived: the last signal counts.
func (d *Dispatcher) receiveLimits() { ReceiveEach(d.ctx, wire.SignalLimits, d.SetLimits) }

// receiveRetirement comes before the ends of batches that have arrived with it: what is left of one is not dispatched
// any more.
func (d *Dispatcher) receiveRetirement() {
	for workflow.GetSignalChannel(d.ctx, wire.SignalRetire).ReceiveAsync(nil) {
		d.retired, d.full = true, true
	}
}

// DrainSignals takes the signals that have arrived after Run, so that nothing is lost over continue-as-new.
func (d *Dispatcher) DrainSignals() {
	d.receiveGrants()
	d.receiveRestarts()
	d.receiveReturns()
	d.receiveBegun()
	d.receiveLimits()
	d.receiveRetirement()
	var notice wire.StopNotice
	if workflow.GetSignalChannel(d.ctx, wire.SignalHalt).ReceiveAsync(&notice) && d.notice == nil {
		d.notice = &notice // nothing is in flight that it would have to reach
	}
}

var errNoJob = errors.New("the leg belongs to no job")

// Outbox sends signals of one run of a workflow to other workflows. The server delivers each by itself after the
// workflow task, in any order, and forgets those that are still on their way when the run that has sent them ends
// (processSignalExecution in its service/history). So a run waits for [Outbox.Flush] before it ends or continues as
// new. A job signals the children that it waits for without an outbox.
type Outbox struct {
	ctx  workflow.Context
	sent []workflow.Future // that may not be delivered yet
}

// NewOutbox makes the outbox of a run. Its signals are sent even if the run is cancelled.
func NewOutbox(ctx workflow.Context) *Outbox {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return &Outbox{ctx: ctx}
}

// Send signals the workflow, or a run of it. It does not block; its future is that of the delivery.
func (o *Outbox) Send(id, run, name string, argument any) workflow.Future {
	sent := workflow.SignalExternalWorkflow(o.ctx, id, run, name, argument)
	o.sent = append(slices.DeleteFunc(o.sent, workflow.Future.IsReady), sent)
	return sent
}

// Empty reports that no signal is on its way.
func (o *Outbox) Empty() bool {
	return !slices.ContainsFunc(o.sent, func(sent workflow.Future) bool { return !sent.IsReady() })
}

// Flush waits until every signal is delivered, or cannot be.
func (o *Outbox) Flush() { _ = workflow.Await(o.ctx, o.Empty) }

// ReceiveFromLegs calls fn for each signal of the name that a leg of the run has sent. Legs of other runs learn from
// the outbox that they have no job any more.
func ReceiveFromLegs[T any](o *Outbox, run, name string, fn func(T)) {
	ReceiveEach(o.ctx, name, func(s wire.FromLeg[T]) {
		if s.Run == "" || s.Run == run {
			fn(s.Value)
			return
		}
		o.Send(s.Leg.ID, s.Leg.RunID, wire.SignalDisowned, run)
	})
}

// ParentLink reaches the job of a leg that has its own workflow: by signals to its parent. If there is none,
// nobody is reached.
type ParentLink struct {
	*Outbox
	run        string
	leg        int
	batchEnded func()
}

// NewParentLink makes the link of a leg with a number to the job that has the run in its Ref; batchEnded is called
// after every end of an execution.
func NewParentLink(ctx workflow.Context, run string, leg int, batchEnded func()) *ParentLink {
	return &ParentLink{Outbox: NewOutbox(ctx), run: run, leg: leg, batchEnded: batchEnded}
}

// Signal signals the job. It does not block, and returns nil if the leg belongs to no job.
func (p *ParentLink) Signal(name string, argument any) workflow.Future {
	info := workflow.GetInfo(p.ctx)
	if info.ParentWorkflowExecution == nil {
		return nil
	}
	signal := wire.FromLeg[any]{Run: p.run, Leg: wire.Execution(info.WorkflowExecution), Value: argument}
	return p.Send(info.ParentWorkflowExecution.ID, "", name, signal)
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
