package workflows

import (
	"github.com/stint-run/stint/internal/protocol"
	"go.temporal.io/sdk/workflow"
)

// listen has the selector react to the signals that control a leg in its own workflow.
func (l *leg) listen(ctx workflow.Context) {
	d := l.dispatcher
	add := func(name string, receive func(workflow.ReceiveChannel)) {
		d.selector.AddReceive(workflow.GetSignalChannel(ctx, name), func(c workflow.ReceiveChannel, _ bool) { receive(c) })
	}
	add(signalHalt, func(c workflow.ReceiveChannel) {
		var notice protocol.StopNotice
		if c.ReceiveAsync(&notice) {
			d.stop(notice)
		}
	})
	add(signalGrant, func(workflow.ReceiveChannel) { l.receiveGrants() })
	add(signalLimits, func(workflow.ReceiveChannel) { l.receiveLimits() })
	l.listenInside()
}

// listenInside has the selector react to what reaches a leg in any workflow.
func (l *leg) listenInside() {
	d := l.dispatcher
	d.selector.AddReceive(workflow.GetSignalChannel(d.ctx, protocol.SignalRestarted), func(workflow.ReceiveChannel, bool) { d.receiveRestarts() })
	d.selector.AddReceive(d.wake, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
}

func (l *leg) receiveGrants() {
	receiveEach(l.ctx, signalGrant, l.window.granted)
}

// receiveLimits takes what has arrived: the last signal counts.
func (l *leg) receiveLimits() {
	receiveEach(l.ctx, signalLimits, l.setLimits)
}

// drainControls takes what has arrived, so that nothing is lost over continue-as-new.
func (l *leg) drainControls() {
	l.receiveGrants()
	l.receiveRestarts()
	l.receiveLimits()
	var notice protocol.StopNotice
	if workflow.GetSignalChannel(l.ctx, signalHalt).ReceiveAsync(&notice) && l.notice == nil {
		l.notice = &notice // nothing is in flight that it would have to reach
	}
}
