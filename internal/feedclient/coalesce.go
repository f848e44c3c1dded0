package feedclient

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/wire"
)

const (
	// maxCarriers is how many exchanges that carry items and do not wait are under way at once. With the one that
	// waits, three of the ten that Temporal allows are a client's.
	maxCarriers = 2
	// gather is how long an exchange is held back for callers that have just been answered together, so that those that
	// put again soon go in the same one: groups that have come apart stay so, because a slot serves one, then the
	// other.
	gather = 5 * time.Millisecond
	// lead is how long before a caller's deadline an exchange that waits for its result ends, so that it is known by
	// then which item it is; and how long before it the reason for the delay is looked for.
	lead = 250 * time.Millisecond
	// A leg that has no room is asked again after gateFirst, then after twice as long each time, up to gateMost.
	gateFirst = 5 * time.Millisecond
	gateMost  = 200 * time.Millisecond
	// lastProbe is how long before a caller's deadline its list is no longer sent to find out whether there is room, or
	// a quarter of its time if that is less: the answer would come too late to say whether the list was accepted.
	lastProbe = 2 * time.Second
	// A leg that is not open yet is asked again after earlyFirst, then after twice as long each time, up to earlyMost;
	// after every earlyTries it is looked up which one is.
	earlyFirst = 5 * time.Millisecond
	earlyMost  = 250 * time.Millisecond
	earlyTries = 8
)

// sendQueue is what waits to be sent, and why it waits: for callers that put again soon, or for room in the feed. The
// client's lock guards it.
type sendQueue struct {
	linger   time.Duration
	lanes    [2]*lane      // by kind
	gate     time.Time     // when parked lists are tried again
	probing  bool          // and then only the first of them
	closedBy time.Duration // for how long the gate was closed last
	expected int           // callers that were answered together, and have not put again
	hold     time.Time     // until then the next exchange waits for them
}

// pump starts what can be started, and sets the timer for the rest. It is called after every change. The lock is held.
func (c *Client) pump() {
	if c.released {
		return
	}
	now := time.Now()
	var next time.Time
	later := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	c.unpark(now, later)
	c.send(now, later)
	c.poll(now, later)
	c.arm(now, next)
}

func (c *Client) arm(now, next time.Time) {
	if next.IsZero() {
		if c.timer != nil {
			c.timer.Stop()
		}
		return
	}
	if c.timer != nil {
		c.timer.Reset(next.Sub(now))
		return
	}
	c.timer = trap.After(next.Sub(now), "sending a feed's items", c.shut, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pump()
	})
}

// unpark puts patient lists back into their queues when the gate has opened: all of them if there is room again, the
// first one if that is to be found out.
func (q *sendQueue) unpark(now time.Time, later func(time.Time)) {
	for _, lane := range q.lanes {
		lane.parked = slices.DeleteFunc(lane.parked, func(l *List) bool { return l.phase != parked })
	}
	if len(q.lanes[unasked].parked)+len(q.lanes[wanted].parked) == 0 {
		return
	}
	if now.Before(q.gate) {
		later(q.gate)
		return
	}
	for _, lane := range q.lanes {
		lane.unpark(q.probing, now)
	}
	if q.probing { // until that one is answered, or has left
		q.gate = now.Add(gateMost)
		later(q.gate)
	}
}

// unpark moves parked lists to the front of the queue: all of them, or to probe the first one that has time for it.
func (lane *lane) unpark(probe bool, now time.Time) {
	slices.SortFunc(lane.parked, func(a, b *List) int { return cmp.Compare(a.number, b.number) })
	from, n := 0, len(lane.parked)
	if probe {
		from = slices.IndexFunc(lane.parked, func(l *List) bool { return l.canProbe(now) })
		n = 1
	}
	if from < 0 || n == 0 {
		return
	}
	moved := slices.Clone(lane.parked[from : from+n])
	for _, l := range moved {
		l.phase = queued
	}
	lane.queue = slices.Concat(moved, lane.queue)
	lane.parked = slices.Delete(slices.Clone(lane.parked), from, from+n)
}

// canProbe reports whether a list's caller can expect to learn whether its items were accepted, if they are sent now.
func (l *List) canProbe(now time.Time) bool {
	if l.deadline.IsZero() {
		return true
	}
	return l.deadline.Sub(now) > min(lastProbe, l.deadline.Sub(l.submitted)/4)
}

// send starts exchanges that carry items, as many as may be under way.
func (c *Client) send(now time.Time, later func(time.Time)) {
	for {
		kinds := c.waitingKinds()
		if len(kinds) == 0 {
			return
		}
		if c.open == nil {
			c.seek(nil, 0)
			return
		}
		if now.Before(c.open.notBefore) {
			later(c.open.notBefore)
			return
		}
		if !c.sendOne(kinds, now, later) {
			return
		}
	}
}

// waitingKinds returns the kinds of which lists are queued, the one that has waited for longer first.
func (q *sendQueue) waitingKinds() []kind {
	var kinds []kind
	for k, lane := range q.lanes {
		for len(lane.queue) > 0 && lane.queue[0].phase != queued {
			lane.queue = lane.queue[1:]
		}
		if len(lane.queue) > 0 {
			kinds = append(kinds, kind(k))
		}
	}
	slices.SortStableFunc(kinds, func(a, b kind) int {
		return cmp.Compare(q.lanes[a].queue[0].number, q.lanes[b].queue[0].number)
	})
	return kinds
}

func (c *Client) sendOne(kinds []kind, now time.Time, later func(time.Time)) bool {
	for _, k := range kinds {
		waits := k == wanted && !c.open.waiting
		if !waits && c.carriers >= maxCarriers {
			continue
		}
		if at := c.due(k, now); now.Before(at) {
			later(at)
			continue
		}
		c.start(k, c.take(k), waits)
		return true
	}
	return false
}

// due returns when the first queued list of a kind is to be sent: at once if it, or another, has been sent before, or
// if they fill an exchange.
func (q *sendQueue) due(k kind, now time.Time) time.Time {
	first := q.lanes[k].queue[0]
	at := first.submitted.Add(q.linger)
	if q.holds() && q.hold.After(at) {
		at = q.hold
	}
	var items int
	var bytes int64
	for _, l := range q.lanes[k].queue {
		if l.phase != queued {
			continue
		}
		items += l.count
		bytes += l.bytes
		if l.again || items >= wire.MaxExchangeItems || bytes >= wire.MaxExchangeBytes {
			return time.Time{}
		}
	}
	return at
}

// take removes the lists that go together in the next exchange from their queue.
func (q *sendQueue) take(k kind) []*List {
	var taken []*List
	var items int
	var bytes int64
	queue := q.lanes[k].queue
	next := 0
	for ; next < len(queue); next++ {
		l := queue[next]
		if l.phase != queued {
			continue
		}
		joins := len(taken) == 0 || !l.alone && items+l.count <= wire.MaxExchangeItems && bytes+l.bytes <= wire.MaxExchangeBytes
		if !joins {
			break
		}
		taken = append(taken, l)
		items += l.count
		bytes += l.bytes
		if l.alone {
			next++
			break
		}
	}
	q.lanes[k].queue = queue[next:]
	return taken
}

// start starts an exchange with the open leg.
func (c *Client) start(k kind, lists []*List, waits bool) *exchange {
	var items []json.RawMessage
	for _, l := range lists {
		l.phase = sent
		items = append(items, l.items...)
	}
	ex := c.newExchange(c.open, lists, waits)
	e := wire.Exchange{Client: c.open.token, Session: c.only, Items: items, Want: k == wanted}
	if waits {
		e.Wait = patience(lists, ex.started)
	} else {
		c.carriers++
	}
	c.run(ex, e)
	return ex
}

// holds reports whether exchanges are held back: not all who were answered together have put again.
func (q *sendQueue) holds() bool { return q.expected > 0 }

// holdFor holds the next exchanges back until the callers that have just been answered have put again. If others are
// still waited for, nothing is held back for longer because of these.
func (q *sendQueue) holdFor(answered int) {
	now := time.Now()
	switch {
	case q.holds() && now.Before(q.hold):
		q.expected += answered
	case answered > 1:
		q.hold, q.expected = now.Add(gather), answered
	default:
		q.expected = 0
	}
}

// returns notes a caller that may be one of those that were answered together.
func (q *sendQueue) returns() { q.expected = max(0, q.expected-1) }

// patience returns how long an exchange that carries lists waits: until shortly before the first of their callers
// leaves.
func patience(lists []*List, now time.Time) time.Duration {
	wait := time.Duration(wire.MaxExchangeWait)
	for _, l := range lists {
		if !l.deadline.IsZero() {
			left := l.deadline.Sub(now)
			wait = min(wait, left-min(2*lead, left/2))
		}
	}
	return max(0, wait)
}

// requeue puts lists back at the front of their queue.
func (q *sendQueue) requeue(lists []*List) {
	var back []*List
	for _, l := range lists {
		if l.phase == sent {
			l.phase, l.again = queued, true
			back = append(back, l)
		}
	}
	if len(back) > 0 {
		lane := q.lanes[back[0].kind]
		lane.queue = append(back, lane.queue...)
	}
}

// park keeps a patient list until the gate opens.
func (q *sendQueue) park(l *List) {
	l.phase, l.again = parked, true
	lane := q.lanes[l.kind]
	lane.parked = append(lane.parked, l)
}

// closeGate keeps parked lists back, for longer each time.
func (q *sendQueue) closeGate() {
	q.closedBy = min(max(gateFirst, 2*q.closedBy), gateMost)
	q.gate, q.probing = time.Now().Add(q.closedBy), true
}

// openGate lets parked lists be tried at once: there may be room.
func (q *sendQueue) openGate() { q.gate, q.closedBy, q.probing = time.Time{}, 0, false }

// failQueued ends all lists that have not been sent.
func (q *sendQueue) failQueued(err error) {
	for _, lane := range q.lanes {
		for _, l := range slices.Concat(lane.queue, lane.parked) {
			l.fail(err)
		}
		lane.queue, lane.parked = nil, nil
	}
}
