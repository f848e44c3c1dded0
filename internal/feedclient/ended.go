package feedclient

import "github.com/stint-run/stint/internal/wire"

func (c *Client) hasEnded(l *leg) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.gone
}

// gone takes note that a leg's run has ended. The lock is held.
func (c *Client) gone(l *leg) {
	l.gone = true
	c.seekAfter(l, 0)
}

// over takes note that a leg has ended its work before all its items had been done, for the reason that it gives. The lock
// is held.
func (c *Client) over(l *leg, reason string) {
	l.over = reason
	if c.open == l {
		c.open = nil
	}
}

// wake wakes those that wait for results of a leg that has ended, once no answer is under way that may bring them. The lock
// is held.
func (c *Client) wake(l *leg) {
	if !l.gone && l.over == "" || len(l.under) > 0 || len(l.waiters) == 0 {
		return
	}
	lists := make([]*List, 0, len(l.waiters))
	for item, w := range l.waiters {
		delete(l.waiters, item)
		lists = append(lists, w)
	}
	if l.gone {
		c.orphan(l.Leg, lists)
		return
	}
	reason := l.over
	l.over = ""
	c.spawn(func() {
		err := c.legs.Ended(c.ctx, reason)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, w := range lists {
			w.fail(err)
		}
	})
}

// orphan ends lists whose leg has ended without giving them a result: with the feed's own end if it has ended; otherwise
// their outcome is in its output. The lock is held.
func (c *Client) orphan(l Leg, lists []*List) {
	stale := &leg{Leg: l, gone: true}
	c.spawn(func() {
		_, err := c.locate(c.ctx, stale, 0)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, w := range lists {
			if w.phase == settled {
				continue
			}
			if err != nil {
				w.fail(callersError(err))
				continue
			}
			if w.phase == sent {
				w.phase = taken
				close(w.accepted)
			}
			w.finish(wire.ItemResult{Item: w.item, Session: w.session, Stored: true})
		}
	})
}
