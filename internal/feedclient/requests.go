package feedclient

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// openLeg returns the leg that takes items.
func (c *Client) openLeg(ctx context.Context, stale *leg, number int) (*leg, error) {
	c.mu.Lock()
	open := c.open
	c.mu.Unlock()
	if open != nil && open != stale {
		return open, nil
	}
	found, err := c.locate(ctx, stale, number)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.legOf(found)
	if (c.open == nil || c.open == stale) && !c.released {
		c.open = l
		c.pump()
	}
	return l, nil
}

// onOpenLeg makes a request to the leg that takes items, whichever that is. Errors: *EndedError, *RefusedError,
// *FatalError, ErrUnserved, the context's cause.
func (c *Client) onOpenLeg(ctx context.Context, try func(context.Context, Leg) error) error {
	ctx, stop := c.either(ctx)
	defer stop()
	var stale *leg
	number := 0
	for tries := 1; ; tries++ {
		l, err := c.openLeg(ctx, stale, number)
		if err != nil {
			return err
		}
		err = c.ask(ctx, asking{
			try:      func(ctx context.Context) error { return try(ctx, l.Leg) },
			unserved: func() bool { return true },
		})
		refused, _ := errors.AsType[*RefusedError](err)
		switch {
		case errors.Is(err, ErrGone), errors.Is(err, ErrCut), errors.Is(err, ErrBarred):
			stale, number = l, 0
		case refused != nil && refused.Type == wire.RefusedMoved:
			stale, number = l, refused.Leg
		case refused != nil && refused.Type == wire.RefusedEarly:
		case refused != nil && (refused.Type == wire.RefusedClosed || refused.Type == wire.RefusedStopping):
			return &EndedError{Err: c.legs.Ended(ctx, refused.Type)}
		default:
			return err
		}
		if pause(ctx, tries) != nil {
			return context.Cause(ctx)
		}
	}
}

// Reset begins the next session. Everyone who waits for a result of an earlier one is woken, and none shows after Reset
// has returned. If the context ends first, it is not known whether the session has ended.
func (c *Client) Reset(ctx context.Context) (wire.ResetDone, error) {
	var done wire.ResetDone
	ids := map[Leg]string{}
	err := c.onOpenLeg(ctx, func(ctx context.Context, l Leg) (err error) {
		if ids[l] == "" {
			c.mu.Lock()
			_, ids[l] = c.nextID()
			c.mu.Unlock()
		}
		done, err = c.legs.Reset(ctx, l, ids[l])
		return err
	})
	if err != nil {
		return done, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.see(done.Session)
	c.openGate()
	c.pump()
	return done, nil
}

// Close closes the feed. It is not an error if that has been done before. Errors: *EndedError, *FatalError,
// ErrUnserved, the context's cause.
func (c *Client) Close(ctx context.Context) error {
	ctx, stop := c.either(ctx)
	defer stop()
	c.mu.Lock()
	_, id := c.nextID()
	c.mu.Unlock()
	err := c.ask(ctx, asking{
		try:      func(ctx context.Context) error { return c.legs.Close(ctx, id) },
		unserved: func() bool { return true },
	})
	if ended, ok := errors.AsType[*EndedError](err); ok && ended.Closed {
		return nil
	}
	return err
}

// State returns what the leg that takes items knows of the feed. Errors: those of Close.
func (c *Client) State(ctx context.Context) (job.FeedState, error) {
	var state job.FeedState
	closed := 0
	err := c.onOpenLeg(ctx, func(ctx context.Context, l Leg) (err error) {
		state, err = c.legs.State(ctx, l)
		if err == nil && !state.Open && closed < staleTries {
			closed++ // another leg is open by now
			return &RefusedError{Type: wire.RefusedMoved}
		}
		return err
	})
	return state, err
}

// LateError reports that a caller's deadline has passed before its item had an outcome.
type LateError struct {
	Accepted bool          // the item has been accepted, for certain
	Queued   time.Duration // how long it waited for its batch; below 0: not known
	Total    time.Duration
}

func (e *LateError) Error() string { return "no result in time" }

// Unwrap returns context.DeadlineExceeded.
func (e *LateError) Unwrap() error { return context.DeadlineExceeded }

// Call submits an item and returns its outcome. The context has a deadline. Errors: those of List.Accepted and
// List.Outcome; if the deadline has passed, *[LateError], or [ErrUnserved] if no worker serves the pool.
func (c *Client) Call(ctx context.Context, item []byte) (wire.ItemResult, error) {
	deadline, _ := ctx.Deadline()
	l := c.Ask(item, false, deadline)
	if err := c.await(ctx, l, l.done); err != nil {
		return wire.ItemResult{}, err
	}
	return l.Outcome()
}

// Await returns once a list's item has an outcome, which may be the list's error. The context has a deadline. Errors:
// those of Call.
func (c *Client) Await(ctx context.Context, l *List) error { return c.await(ctx, l, l.done) }

// PutWithin submits items, patiently for a limit (0: not at all), and returns once they have been accepted. The context
// has a deadline. Errors: those of Call.
func (c *Client) PutWithin(ctx context.Context, limit time.Duration, items []json.RawMessage) error {
	deadline, _ := ctx.Deadline()
	l := c.Put(items, limit > 0, deadline)
	if limit > 0 {
		defer trap.After(limit, "ending the wait for room", c.shut, l.EndPatience).Stop()
	}
	if err := c.await(ctx, l, l.accepted); err != nil {
		return err
	}
	return l.Accepted(ctx)
}

// await returns when a list is as far as its caller waits for, or with the reason why it is not.
func (c *Client) await(ctx context.Context, l *List, far <-chan struct{}) error {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	doubt := time.NewTimer(left - min(lead, left/4))
	defer doubt.Stop()
	var why *inquiry
	for {
		select {
		case <-far:
			return nil
		case <-doubt.C:
			why = c.inquire(l)
		case <-ctx.Done():
			return c.late(ctx, l, far, why)
		}
	}
}

// late returns why a list is not as far as its caller waits for, and gives it up; nil if it is.
func (c *Client) late(ctx context.Context, l *List, far <-chan struct{}, why *inquiry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-far:
		return nil
	default:
	}
	phase := l.phase
	late := &LateError{Accepted: phase == taken, Queued: l.queuedFor(why), Total: time.Since(l.submitted)}
	l.drop(ctx.Err())
	c.pump()
	err := error(late)
	switch {
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return l.err
	case why != nil && why.unserved:
		err = ErrUnserved
	case phase == parked && l.full != nil:
		return l.full // it has waited for room
	case l.kind == wanted:
		return late
	}
	if phase == sent {
		return &UncertainError{err}
	}
	return err
}

// queuedFor returns how long a list's item has been in a queue, the client's own or its leg's; below 0 if that is not
// known.
func (l *List) queuedFor(why *inquiry) time.Duration {
	switch l.phase {
	case queued, parked:
		return time.Since(l.submitted)
	case taken:
		if why == nil {
			return -1
		}
		state, known := why.items[l.item]
		switch {
		case !known:
			return -1
		case !state.Left:
			return time.Since(l.submitted) // the leg's own clock stands still while nothing happens there
		}
		return state.Queued
	}
	return -1
}

// inquiry asks why items of a leg are late: one for all callers that wait for it at that time.
type inquiry struct {
	about    map[int64]bool
	unserved bool
	items    map[int64]wire.ItemState
}

// inquire begins to find out why a list's item is late. The answer is there when it is there.
func (c *Client) inquire(l *List) *inquiry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := l.leg
	if l.phase != taken {
		at = &c.nowhere // only whether anybody serves the pool
	}
	for _, q := range at.inquiries {
		if q.about[l.item] || l.phase != taken {
			return q
		}
	}
	q := &inquiry{about: map[int64]bool{}}
	var items []int64
	for item := range at.waiters {
		if len(items) < wire.MaxExchangeItems && (item == l.item || len(items) < wire.MaxExchangeItems-1 || q.about[l.item]) {
			items = append(items, item)
			q.about[item] = true
		}
	}
	at.inquiries = append(at.inquiries, q)
	c.spawn(func() { c.answer(q, at, items) })
	return q
}

// answer carries an inquiry out. It takes no longer than callers wait for it.
func (c *Client) answer(q *inquiry, at *leg, items []int64) {
	ctx, cancel := context.WithTimeout(c.ctx, lead)
	defer cancel()
	served := make(chan bool, 1)
	c.mu.Lock()
	c.spawn(func() { served <- c.unservedNow(ctx) })
	c.mu.Unlock()
	var states []wire.ItemState
	if len(items) > 0 {
		states, _ = c.legs.Items(ctx, at.Leg, items) // without them, the time in the queue is not known
	}
	found := map[int64]wire.ItemState{}
	for _, s := range states {
		found[s.Item] = s
	}
	unserved := false
	select {
	case unserved = <-served:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.items, q.unserved = found, unserved
	at.inquiries = slices.DeleteFunc(at.inquiries, func(other *inquiry) bool { return other == q })
	c.forget(at)
}
