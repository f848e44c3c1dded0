package dispatch

import (
	"slices"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/suspicion"
)

// maxReturns is how many executions of a task may expire in a row, without an item that is done, although their workers come back: an
// item may freeze its worker each time. Each further one is a death.
const maxReturns = 10

// expired is the latest execution of a task that has expired, and what was suspected before. If its worker comes back that is restored.
type expired struct {
	activity string
	before   wire.Suspicion
}

// receiveReturns takes back the deaths of executions whose workers have them alive: the server had given them up because it was away itself, or the
// connection.
func (d *Dispatcher) receiveReturns() {
	ReceiveEach(d.ctx, wire.SignalCameBack, func(back wire.CameBack) {
		d.silent = slices.DeleteFunc(d.silent, func(s silence) bool { return s.task.activityID() == back.Activity })
		if slices.ContainsFunc(d.flying, func(t *task) bool { return t.activityID() == back.Activity }) {
			return // the server still has it
		}
		if back.Clock != nil && d.cameBack != nil {
			d.cameBack(*back.Clock, len(d.flying) > 0)
		}
		if t := d.expiredTask(back.Activity); t != nil && t.Returns < maxReturns {
			d.forgive(t)
			d.Wake()
		}
	})
}

// expiredTask returns the task whose latest expired execution has the ID; nil if there is none.
func (d *Dispatcher) expiredTask(activity string) *task {
	is := func(t *task) bool { return t.expired != nil && t.expired.activity == activity }
	for i := range d.returned {
		if is(&d.returned[i]) {
			return &d.returned[i]
		}
	}
	for _, t := range slices.Concat(d.flying, d.stages.delayed) {
		if is(t) {
			return t
		}
	}
	return nil
}

// forgive takes the latest death of a task back.
func (d *Dispatcher) forgive(t *task) {
	if t.suspicion().Suspected() && !suspicion.Of(&t.expired.before).Suspected() {
		d.sofar.Totals.Isolations--
	}
	t.Suspicion, t.expired = t.expired.before, nil
	t.Returns++
	d.sofar.Totals.Expiries--
}
