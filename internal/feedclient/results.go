package feedclient

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
)

const (
	// A leg that answers without a result, and sooner than it was allowed, is asked again after emptyFirst, then after
	// twice as long each time, up to emptyMost.
	emptyFirst = 20 * time.Millisecond
	emptyMost  = time.Second
)

// Session returns the highest session that is known: results of earlier ones are not shown any more.
func (c *Client) Session() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// see takes note of a session. Results of earlier ones are not shown any more. The lock is held.
func (c *Client) see(session int64) {
	if session <= c.session {
		return
	}
	c.session = session
	for _, l := range c.known {
		for _, w := range l.waiters {
			if w.session < session {
				delete(l.waiters, w.item)
				w.finish(discarded(w))
			}
		}
	}
}

// deliver gives a result to the list that waits for it. It returns how many callers that has woken. The lock is held.
func (c *Client) deliver(at *leg, r wire.ItemResult) int {
	w := at.waiters[r.Item]
	if w == nil {
		if at.accepting() { // the answer that names the item may still come
			at.early[r.Item] = earlyResult{ItemResult: r, stamp: c.sequence}
		}
		return 0
	}
	delete(at.waiters, r.Item)
	w.finish(r)
	if r.Discarded {
		c.see(r.Session + 1) // somebody has begun the next session
	}
	return 1
}

// finish gives a list its outcome. The lock is held.
func (l *List) finish(r wire.ItemResult) {
	if l.phase == settled {
		return
	}
	if r.Session != l.session {
		r = discarded(l)
	}
	l.phase, l.outcome = settled, r
	close(l.done)
}

// accepting reports whether an exchange is under way whose items' results the client takes.
func (l *leg) accepting() bool {
	for _, ex := range l.under {
		if len(ex.lists) > 0 && ex.lists[0].kind == wanted {
			return true
		}
	}
	return false
}

// sweep drops early results whose callers have left: every exchange that could name their items has been answered.
func (l *leg) sweep() {
	for item, early := range l.early {
		stale := true
		for sequence, ex := range l.under {
			if sequence <= early.stamp && len(ex.lists) > 0 {
				stale = false
			}
		}
		if stale {
			delete(l.early, item)
		}
	}
}

// failWaiters ends all that wait for results of a leg. The lock is held.
func (l *leg) failWaiters(err error) {
	for item, w := range l.waiters {
		delete(l.waiters, item)
		w.fail(err)
	}
}

// planPoll decides when a leg is asked for results again.
func (c *Client) planPoll(ex *exchange, answer wire.Exchanged) {
	at := ex.leg
	now := time.Now()
	switch {
	case answer.More:
		at.nextPoll, at.empty = now, 0
		return
	case len(answer.Results) > 0:
		at.nextPoll, at.empty = now.Add(answer.Again), 0
		return
	case len(ex.lists) > 0:
		if !ex.waits {
			at.nextPoll = later(at.nextPoll, now.Add(answer.Again))
			return
		}
	case answer.Pending == 0:
		c.lost(ex)
	}
	at.empty++
	pause := min(emptyFirst<<min(at.empty-1, 10), emptyMost)
	at.nextPoll = later(now.Add(answer.Again), ex.started.Add(pause))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lost ends those whose results the leg does not have any more: it keeps them for a limited time.
func (c *Client) lost(ex *exchange) {
	if len(ex.leg.under) > 0 {
		return // another exchange may bring them
	}
	for item, w := range ex.leg.waiters {
		if w.since.Before(ex.started) {
			delete(ex.leg.waiters, item)
			w.finish(wire.ItemResult{Item: item, Session: w.session, Stored: true})
		}
	}
}

// poll asks legs for results that somebody waits for. The lock is held.
func (c *Client) poll(now time.Time, later func(time.Time)) {
	for _, l := range c.known {
		if len(l.waiters) == 0 || l.waiting || l.gone || l.over != "" {
			continue
		}
		at := l.nextPoll
		if c.holds() && c.hold.After(at) {
			at = c.hold
		}
		if now.Before(at) {
			later(at)
			continue
		}
		if l == c.open && len(c.lanes[wanted].queue) > 0 {
			continue // the next exchange with items asks as well
		}
		if wait := l.patience(now); wait > 0 {
			c.run(c.newExchange(l, nil, true), wire.Exchange{Client: l.token, Wait: wait})
		}
	}
}

// patience returns how long a poll waits: at most until the last of the callers leaves.
func (l *leg) patience(now time.Time) time.Duration {
	var wait time.Duration
	for _, w := range l.waiters {
		if w.deadline.IsZero() {
			return wire.MaxExchangeWait
		}
		wait = max(wait, w.deadline.Sub(now))
	}
	return min(wait, wire.MaxExchangeWait)
}
