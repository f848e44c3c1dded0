package feedclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/wire"
)

// exchange is one that is under way.
type exchange struct {
	leg      *leg
	sequence int64
	id       string
	lists    []*List
	waits    bool // it is the one of its leg that waits for results
	chosen   bool // its lists are as many as fit
	started  time.Time
}

// newExchange registers an exchange. The lock is held.
func (c *Client) newExchange(l *leg, lists []*List, waits bool) *exchange {
	ex := &exchange{leg: l, lists: lists, waits: waits, started: time.Now()}
	ex.sequence, ex.id = c.nextID()
	l.under[ex.sequence] = ex
	if waits {
		l.waiting = true
	}
	return ex
}

// run carries an exchange out. The lock is held.
func (c *Client) run(ex *exchange, e wire.Exchange) {
	c.spawn(func() {
		var answer wire.Exchanged
		err := c.ask(c.ctx, asking{
			wait: e.Wait,
			try: func(ctx context.Context) (err error) {
				answer, err = c.legs.Exchange(ctx, ex.leg.Leg, ex.id, e)
				return err
			},
			unserved: func() bool { return c.unserved(ex) },
			needless: func() bool { return c.needless(ex) },
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered(ex, answer, err)
	})
}

// fail ends those of an exchange's lists of which nothing is known yet. The lock is held.
func (ex *exchange) fail(err error) {
	for _, l := range ex.lists {
		if l.phase == sent {
			l.fail(err)
		}
	}
}

// unserved wakes those whose items no worker can accept. The exchange itself goes on: the items of those that have been
// sent may be accepted yet.
func (c *Client) unserved(ex *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ex.fail(&UncertainError{ErrUnserved})
	if len(ex.lists) > 0 {
		c.failQueued(ErrUnserved)
	}
	return false
}

// needless reports whether an exchange's answer can change nothing: all its callers have left, and nobody waits for a
// result that it may bring.
func (c *Client) needless(ex *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(ex.lists, func(l *List) bool { return l.phase != settled }) || len(ex.leg.waiters) > 0 {
		return false
	}
	for _, other := range ex.leg.under {
		if other != ex && len(other.lists) > 0 {
			return false
		}
	}
	ex.leg.token = ex.id // what the leg may yet answer to this exchange is not for those who come later
	return true
}

// answered takes the outcome of an exchange. The lock is held.
func (c *Client) answered(ex *exchange, answer wire.Exchanged, err error) {
	delete(ex.leg.under, ex.sequence)
	if ex.waits {
		ex.leg.waiting = false
	} else if len(ex.lists) > 0 {
		c.carriers--
	}
	var refused *RefusedError
	switch {
	case c.released:
		ex.fail(&UncertainError{c.why})
	case err == nil:
		c.settle(ex, answer)
	case errors.As(err, &refused):
		c.refused(ex, refused)
	case errors.Is(err, ErrGone):
		c.requeue(ex.lists)
		c.gone(ex.leg)
	case errors.Is(err, ErrBarred):
		c.requeue(ex.lists)
		ex.leg.nextPoll = time.Now().Add(emptyMost)
		c.seekAfter(ex.leg, 0)
	case errors.Is(err, ErrCut):
		c.cut(ex)
	case errors.As(err, new(*FatalError)):
		ex.fail(err)
		ex.leg.nextPoll = time.Now().Add(emptyMost)
	default: // nobody cares
		ex.fail(&UncertainError{err})
	}
	if c.crowded {
		c.crowded = false
		c.closeGate()
	}
	ex.leg.sweep()
	c.wake(ex.leg)
	c.forget(ex.leg)
	c.pump()
}

// settle takes the answer to an exchange.
func (c *Client) settle(ex *exchange, answer wire.Exchanged) {
	c.see(answer.Session)
	woken := 0
	ordinal := answer.First
	for _, l := range ex.lists {
		if l.phase == sent {
			woken += c.accept(l, ex.leg, ordinal, answer.Session)
			if l.patient && !ex.chosen {
				c.openGate() // there may be room for more
			}
		}
		ordinal += int64(l.count) // of callers that have left, too
	}
	if len(ex.lists) > 0 {
		ex.leg.refusals = 0
	}
	answer.Place()
	for _, r := range answer.Results {
		woken += c.deliver(ex.leg, r)
	}
	if len(answer.Results) > 0 {
		c.openGate()
	}
	c.holdFor(woken)
	c.planPoll(ex, answer)
	if answer.Ended != "" {
		c.over(ex.leg, answer.Ended)
	}
}

// accept takes note that a list has been accepted. It returns how many callers that has woken.
func (c *Client) accept(l *List, at *leg, ordinal, session int64) int {
	l.phase, l.leg, l.item, l.session, l.since = taken, at, ordinal, session, time.Now()
	l.items = nil
	close(l.accepted)
	if l.kind == unasked {
		close(l.done)
		return 1
	}
	early, came := at.early[ordinal]
	if came {
		delete(at.early, ordinal)
		l.finish(early.ItemResult)
		return 1
	}
	if session < c.session {
		l.finish(discarded(l))
		return 1
	}
	at.waiters[ordinal] = l
	return 0
}

// refused takes a refusal.
func (c *Client) refused(ex *exchange, r *RefusedError) {
	if len(ex.lists) == 0 {
		c.refusedPoll(ex, r)
		return
	}
	switch r.Type {
	case wire.RefusedFull, wire.RefusedTooLarge:
		c.split(ex, r)
	case wire.RefusedMoved:
		c.requeue(ex.lists)
		c.seekAfter(ex.leg, r.Leg)
	case wire.RefusedEarly:
		c.requeue(ex.lists)
		c.early(ex.leg)
	case wire.RefusedClosed, wire.RefusedStopping:
		c.refusedForGood(ex, r)
	default:
		if len(ex.lists) == 1 {
			ex.fail(r)
			return
		}
		c.tryAlone(ex.lists)
	}
}

// tryAlone has lists that were refused together sent one by one.
func (c *Client) tryAlone(lists []*List) {
	for _, l := range lists {
		l.alone = true
	}
	c.requeue(lists)
}

// split has lists that do not fit together sent so that none is refused that would fit alone. The refusal itself says
// how much room there was: lists that had not enough are refused by it, the others are tried again.
func (c *Client) split(ex *exchange, r *RefusedError) {
	if len(ex.lists) == 1 {
		c.refuse(ex.lists[0], r)
		return
	}
	free := room{r.Capacity - r.Backlog, r.CapacityBytes - r.BacklogBytes}
	if r.Capacity == 0 || free.hasAll(ex.lists) {
		c.tryAlone(ex.lists) // the numbers do not explain it
		return
	}
	left := free
	var chosen, others []*List
	for _, l := range ex.lists {
		switch {
		case l.phase != sent:
		case !(room{r.Capacity, r.CapacityBytes}).has(l):
			c.refuse(l, &RefusedError{Type: wire.RefusedTooLarge, Refusal: r.Refusal})
		case !free.has(l):
			c.refuse(l, &RefusedError{Type: wire.RefusedFull, Refusal: r.Refusal})
		case left.has(l):
			left.items -= l.count
			left.bytes -= l.bytes
			chosen = append(chosen, l)
		case l.patient:
			c.refuse(l, &RefusedError{Type: wire.RefusedFull, Refusal: r.Refusal})
		default:
			others = append(others, l)
		}
	}
	c.requeue(others)
	if len(chosen) == 0 {
		return
	}
	if c.open != ex.leg || ex.waits && ex.leg.waiting {
		c.requeue(chosen)
		return
	}
	again := c.start(chosen[0].kind, chosen, ex.waits) // in the place of the one that was refused
	again.chosen = true
}

// room is what is free at a leg.
type room struct {
	items int
	bytes int64
}

func (r room) has(l *List) bool { return l.count <= r.items && l.bytes <= r.bytes }

func (r room) hasAll(lists []*List) bool {
	for _, l := range lists {
		if !r.has(l) {
			return false
		}
		r.items -= l.count
		r.bytes -= l.bytes
	}
	return true
}

// refuse ends a list that does not fit, unless it is patient.
func (c *Client) refuse(l *List, r *RefusedError) {
	if l.phase != sent {
		return
	}
	own := *r
	own.Items, own.Bytes = l.count, l.bytes
	r = &own
	if !l.patient || r.Type == wire.RefusedTooLarge {
		l.fail(r)
		return
	}
	l.full = r
	c.crowded = true
	c.park(l)
}

// refusedPoll takes the refusal of an exchange without items.
func (c *Client) refusedPoll(ex *exchange, r *RefusedError) {
	switch r.Type {
	case wire.RefusedClosed, wire.RefusedStopping:
		c.over(ex.leg, r.Type)
	case wire.RefusedNotYet:
		ex.leg.nextPoll = time.Now().Add(max(r.Again, emptyFirst))
	default:
		ex.leg.nextPoll = time.Now().Add(emptyMost)
	}
}

// early has the open leg asked again in a little while. If that goes on, another may be open.
func (c *Client) early(l *leg) {
	l.refusals++
	if l.refusals%earlyTries == 0 {
		c.seekAfter(l, 0)
		return
	}
	l.notBefore = time.Now().Add(min(earlyFirst<<min(l.refusals-1, 10), earlyMost))
}

// refusedForGood ends lists that the feed will never take.
func (c *Client) refusedForGood(ex *exchange, r *RefusedError) {
	if c.open == ex.leg {
		c.open = nil // a feed that is resumed has another
	}
	lists := ex.lists
	c.spawn(func() {
		err := c.legs.Ended(c.ctx, r.Type)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range lists {
			if l.phase == sent {
				l.fail(err)
			}
		}
	})
}

// cut takes note that a leg has accepted an exchange's items, and ended before it could say which they are.
func (c *Client) cut(ex *exchange) {
	var asked []*List
	for _, l := range ex.lists {
		switch {
		case l.phase != sent:
		case l.kind == unasked:
			l.phase, l.items = settled, nil
			close(l.accepted)
			close(l.done)
		default:
			l.item, l.session = -1, c.session // neither is known
			asked = append(asked, l)
		}
	}
	c.gone(ex.leg)
	if len(asked) > 0 {
		c.orphan(ex.leg.Leg, asked)
	}
}
