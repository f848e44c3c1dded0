package workflows

import "go.temporal.io/sdk/workflow"

// handOn gives places that this leg has no more batches for to the next leg, in at most handings
// portions: what is free when the batches run out, and then a quarter of what is in flight at a
// time. What it holds at its end goes on with its result.
func (l *leg) handOn() {
	free := l.window - len(l.flying)
	if l.nextLeg == "" || len(l.waiting) > 0 || l.delayed > 0 || l.halted() || len(l.flying) == 0 || l.handed == handings {
		return
	}
	if l.share == 0 {
		l.share = max(1, (len(l.flying)+handings-2)/(handings-1))
	}
	if free < 1 || l.handed > 0 && free < l.share {
		return
	}
	to := l.nextLeg
	l.window -= free
	l.handed++
	l.handing++
	l.selector.AddFuture(l.hand(free), func(f workflow.Future) {
		l.handing--
		if f.Get(l.ctx, nil) == nil {
			return
		}
		// The next leg has ended: they wait for the one after it.
		l.window += free
		l.handed--
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

// handInline takes places that the inline leg does not need any more.
func (j *jobRun) handInline(places int) workflow.Future {
	future, settable := workflow.NewFuture(j.ctx)
	settable.Set(nil, nil)
	j.places += places
	j.grantPlaces(0)
	return future
}

// grantPlaces gives places that no leg holds to the leg that was started last, provided that it was
// started after the one that had them: an older one has no use for them. Otherwise the next leg
// begins with them. Where the window has become smaller, there are less than none: they are taken
// back in the same way.
func (j *jobRun) grantPlaces(from int) {
	if j.places == 0 || len(j.legs) == 0 {
		return
	}
	last := j.legs[len(j.legs)-1]
	if last.number <= from {
		return
	}
	places := j.places
	j.places = 0
	if last.inline != nil {
		last.inline.window += places
		last.inline.wake.SendAsync(nil)
		return
	}
	j.signal(last, signalGrant, places, func() {
		j.places += places
		j.grantPlaces(last.number)
	})
}
