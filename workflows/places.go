package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// handOn gives places that this leg has no more batches for to the next leg, in at most handings
// portions: what is free when the batches run out, and then a quarter of what is in flight at a
// time. What it holds at its end goes on with its result.
func (l *leg) handOn() {
	if l.nextLeg == "" || l.halted() {
		return
	}
	if owed := l.owed(); owed < 0 {
		l.handOver(owed, func() {})
		return
	}
	free := l.window - len(l.flying)
	if len(l.waiting) > 0 || l.delayed > 0 || len(l.flying) == 0 || l.handed == handings {
		return
	}
	if l.share == 0 {
		l.share = max(1, (len(l.flying)+handings-2)/(handings-1))
	}
	if free < 1 || l.handed > 0 && free < l.share {
		return
	}
	l.handed++
	l.handOver(free, func() { l.handed-- })
}

// owed is how many places less than none the next leg gets, because the job's window has become
// smaller than what this one can give back by itself: it keeps those in use, or one for what waits.
func (l *leg) owed() int {
	if len(l.waiting)+l.delayed == 0 {
		return min(0, l.window-len(l.flying))
	}
	if !l.indebted {
		return 0
	}
	return min(0, l.window-1)
}

// handOver gives places to the next leg; refused is called where it has ended.
func (l *leg) handOver(places int, refused func()) {
	to := l.nextLeg
	l.window -= places
	l.handing++
	l.selector.AddFuture(l.hand(places), func(f workflow.Future) {
		l.handing--
		if f.Get(l.ctx, nil) == nil {
			return
		}
		// They wait for the one after it.
		refused()
		l.window += places
		if l.nextLeg == to {
			l.nextLeg = ""
		}
	})
}

// tellNext tells a leg to whom it can hand the places that it does not need any more.
func (j *jobRun) tellNext(before, next *openLeg) {
	if before.inline != nil {
		before.inline.nextLeg = next.id
		return
	}
	j.signal(before, signalNext, next.id, func() {})
}

// handInline takes places that the inline leg does not need any more. Less than none are for a leg
// that is there.
func (j *jobRun) handInline(places int) workflow.Future {
	future, settable := workflow.NewFuture(j.ctx)
	if places < 0 && j.legs[len(j.legs)-1].inline != nil {
		settable.SetError(errNobody)
		return future
	}
	settable.Set(nil, nil)
	j.places += places
	j.grantPlaces(0)
	return future
}

var errNobody = errors.New("there is no later leg")

// grantPlaces gives places that no leg holds to the leg that was started last, provided that it was
// started after the one that had them: an older one has no use for them. Otherwise the next leg
// begins with them. Where the window has become smaller, there are less than none: these go to the
// oldest leg, which has most places and hands on what it cannot give back.
func (j *jobRun) grantPlaces(from int) {
	if j.places == 0 || len(j.legs) == 0 {
		return
	}
	to := j.legs[len(j.legs)-1]
	if j.places < 0 {
		to = j.legs[max(0, slices.IndexFunc(j.legs, func(l *openLeg) bool { return l.number > from }))]
	}
	if to.number <= from {
		return
	}
	places := j.places
	j.places = 0
	if to.inline != nil {
		to.inline.granted(places)
		to.inline.wake.SendAsync(nil)
		return
	}
	j.signal(to, signalGrant, places, func() {
		j.places += places
		j.grantPlaces(to.number)
	})
}

// grantLast gives an older leg, too, the places that no other one will come for.
func (j *jobRun) grantLast() {
	if j.resized && j.allPlanned() {
		j.grantPlaces(-1)
	}
}
