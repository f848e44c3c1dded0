package dispatch

import (
	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/sdk/workflow"
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

func (d *Dispatcher) receiveGrants() {
	ReceiveEach(d.ctx, wire.SignalGrant, d.window.granted)
}

// receiveLimits takes what has arrived: the last signal counts.
func (d *Dispatcher) receiveLimits() {
	ReceiveEach(d.ctx, wire.SignalLimits, d.SetLimits)
}

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
