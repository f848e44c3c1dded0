package activities

import (
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
)

// An item that is called again later leaves a hole in the answer of its assignment. That is then split: what is
// before the hole can be recorded, the item waits in an assignment of its own, and what is behind it is held back.
// The lanes go on with other items.
//
// A batch that should end waits for such items for a while, if outcomes behind them are held back: those would
// be lost otherwise, and their calls made again.

const (
	// closing is how long that is.
	closing = 30 * time.Second
	// closingAtStop is how long it is if the job or the worker ends.
	closingAtStop = 5 * time.Second
)

// piece is what becomes of the next items of an assignment that has holes.
type piece struct {
	items int
	waits bool // they are called again
	due   time.Time
}

// pieces returns those of an assignment: items that wait for the same time stay together.
func (l *line) pieces(p *assignment) (all []piece) {
	at := p.recorded
	p.answer.Each(func(o calls.Span) {
		next := piece{items: 1, waits: o.Later}
		if o.Later {
			next.due = l.e.trials.Of(p.items[at].Ordinal).Due
		}
		at++
		if last := len(all) - 1; last >= 0 && all[last].waits == next.waits && all[last].due.Equal(next.due) {
			all[last].items++
			return
		}
		all = append(all, next)
	})
	if left := len(p.items) - at; left > 0 { // the batch ends before them
		all = append(all, piece{items: left})
	}
	return all
}

// delayed has new items wait that have to, because of what they have behind them. It returns false if there are none.
func (l *line) delayed(p *assignment) bool {
	var all []piece
	some, now := false, time.Now()
	for i := range p.items {
		due := l.e.trials.Of(p.items[i].Ordinal).Due
		some = some || due.After(now)
		if last := len(all) - 1; last >= 0 && all[last].due.Equal(due) {
			all[last].items++
			continue
		}
		all = append(all, piece{items: 1, waits: true, due: due})
	}
	if some {
		l.split(p, all)
	}
	return some
}

// split puts assignments of their own in the place of one.
func (l *line) split(p *assignment, all []piece) {
	at := slices.Index(l.assignments, p)
	for i, piece := range all {
		var rest *assignment
		if i < len(all)-1 {
			rest = l.cutOff(p, piece.items)
			at++
			l.assignments = slices.Insert(l.assignments, at, rest)
		}
		if piece.waits {
			l.park(p, piece.due)
		} else {
			l.hold(p, p.answer.Memory())
		}
		p = rest
	}
}

// cutOff leaves an assignment its next n items, and returns one with the others, and their outcomes.
func (l *line) cutOff(p *assignment, n int) *assignment {
	rest := l.e.acts.buffers.assignment()
	*rest = assignment{block: p.block, items: p.items[p.recorded+n:], answer: l.e.liveOf(rest.answer), done: true}
	p.block.used++
	p.answer.Cut(n, &rest.answer)
	p.items = p.items[:p.recorded+n]
	return rest
}

// park has an assignment wait.
func (l *line) park(p *assignment, due time.Time) {
	p.items, p.recorded = p.items[p.recorded:], 0
	p.toCall, p.due, p.done = withoutOutcome(nil, p.items), due, false
	p.answer.Reset()
	l.hold(p, 0)
	l.undone++
	l.parked = append(l.parked, p)
	if !l.watched {
		l.watched = true
		trap.Watched("watching for a batch's end", l.fail, l.watchEnd)
	}
	if wait := time.Until(due); wait > 0 {
		l.wakeIn(wait)
	}
}

// watchEnd wakes the lanes when the batch should end: none of them may be in a call.
func (l *line) watchEnd() {
	watch := l.e.watch
	soon, stopping := watch.Soon, watch.Stopping()
	for {
		select {
		case <-soon:
			soon = nil
		case <-stopping:
			stopping = nil
		case <-watch.Over():
			l.wake()
			return
		case <-l.closed:
			return
		}
		l.wake()
	}
}

// maxParked is how many assignments wait at most: nothing more is read then.
const maxParked = 4096

// wakeIn wakes the lanes after a time, or earlier. The line has one timer, which ends with it.
func (l *line) wakeIn(d time.Duration) {
	at := time.Now().Add(d)
	switch {
	case l.over || !l.wakeAt.IsZero() && !at.Before(l.wakeAt):
		return
	case l.waker == nil:
		l.waker = trap.After(d, "waking a batch's lanes", l.fail, l.wake)
	default:
		l.waker.Reset(d)
	}
	l.wakeAt = at
}

// wake has all look again whether there is something to do.
func (l *line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.wakeAt = time.Time{}
	l.look()
	if next := l.nextWake(); !next.IsZero() {
		l.wakeIn(time.Until(next))
	}
	l.reportLeft()
	l.changed.Broadcast()
}

// nextWake returns when the first of the assignments that wait is due, or the line's time ends; zero: nothing is to
// come.
func (l *line) nextWake() (next time.Time) {
	now := time.Now()
	earlier := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	earlier(l.endBy)
	for _, p := range l.parked {
		earlier(p.due)
	}
	return next
}

// due returns an assignment that has waited long enough, and may be called now; nil if there is none. One with
// others before it counts as new items do.
func (l *line) due() *assignment {
	now := time.Now()
	for _, p := range l.parked {
		if !p.due.After(now) && (l.assignments[0] == p || l.hasRoom()) {
			return p
		}
	}
	return nil
}

// look ends the line if nothing is left to be handed out.
func (l *line) look() {
	w := l.e.watch
	if w.Ending.Load() {
		l.drained = true
		l.endIn(closing)
	}
	if closed(w.Stopping()) {
		l.endIn(closingAtStop)
	}
	switch {
	case l.over:
	case l.drained && l.undone == 0, closed(w.Over()), !l.endBy.IsZero() && l.undone == len(l.parked) && !l.closes():
		l.close()
	}
}

// endIn bounds how long the batch waits for items.
func (l *line) endIn(d time.Duration) {
	if at := time.Now().Add(d); l.endBy.IsZero() || at.Before(l.endBy) && d < closing {
		l.endBy = at
		l.wakeIn(d)
	}
}

// closes reports whether it is worth while to wait for the first hole although the batch should end.
func (l *line) closes() bool {
	behind := false
	for _, p := range l.assignments {
		switch {
		case !p.done && !behind:
			if behind = true; p.due.After(l.endBy) {
				return false
			}
		case p.done && p.answer.Len() < len(p.items)-p.recorded:
			return false // it will have no outcome
		case p.done && behind && p.answer.Len() > 0:
			return true
		}
	}
	return false
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
