package feedsim

import (
	"context"
	"errors"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

var errUnavailable = errors.New("unavailable")

// maxWaiting is how many exchanges wait at a leg.
const maxWaiting = 4

// Open returns the leg that the job's memo names.
func (f *Feed) Open(ctx context.Context) (feedclient.Leg, error) {
	if err := f.travel(ctx); err != nil {
		return feedclient.Leg{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != running {
		return feedclient.Leg{}, &feedclient.EndedError{Err: &EndError{State: string(f.state)}}
	}
	return f.legs[f.memo].id, nil
}

// Find returns the leg of a number.
func (f *Feed) Find(ctx context.Context, number int) (feedclient.Leg, error) {
	if err := f.travel(ctx); err != nil {
		return feedclient.Leg{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if number > len(f.legs) || f.legs[number-1].over {
		return feedclient.Leg{}, feedclient.ErrGone
	}
	return f.legs[number-1].id, nil
}

func (f *Feed) find(id feedclient.Leg) *leg {
	for _, l := range f.legs {
		if l.id == id {
			return l
		}
	}
	return nil
}

// Exchange is one of feedclient.Legs.
func (f *Feed) Exchange(ctx context.Context, id feedclient.Leg, request string, e wire.Exchange) (wire.Exchanged, error) {
	u, err := f.update(ctx, id, request, e.Client, func(l *leg, u *update) error { return f.exchange(l, u, e) })
	if err != nil {
		return wire.Exchanged{}, err
	}
	return u.answer, u.err
}

// Reset is one of feedclient.Legs.
func (f *Feed) Reset(ctx context.Context, id feedclient.Leg, request string) (wire.ResetDone, error) {
	u, err := f.update(ctx, id, request, "", func(l *leg, u *update) error { return f.reset(l, u) })
	if err != nil {
		return wire.ResetDone{}, err
	}
	return u.reset, u.err
}

// update carries a request to a leg, once for each ID, and its outcome back.
func (f *Feed) update(ctx context.Context, id feedclient.Leg, request, client string, handle func(*leg, *update) error) (*update, error) {
	if err := f.travel(ctx); err != nil {
		return nil, err
	}
	if err := f.workers(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	at := client + " at " + id.Run
	f.under[at]++
	f.Witness.MaxUnder = max(f.Witness.MaxUnder, f.under[at])
	u, err := f.deliver(id, request, client, handle)
	restart := f.restart
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.under[at]--
	}()
	if err != nil {
		return nil, f.back(ctx, err)
	}
	select {
	case <-u.done:
	case <-restart:
		return nil, errUnavailable
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return u, f.back(ctx, nil)
}

func (f *Feed) deliver(id feedclient.Leg, request, client string, handle func(*leg, *update) error) (*update, error) {
	l := f.find(id)
	if l == nil {
		return nil, feedclient.ErrGone
	}
	if u := l.updates[request]; u != nil {
		return u, nil
	}
	if l.over {
		return nil, feedclient.ErrGone
	}
	u := &update{client: client, done: make(chan struct{})}
	if err := handle(l, u); err != nil {
		f.Witness.Refusals++
		return nil, err
	}
	l.updates[request] = u
	return u, nil
}

func (f *Feed) exchange(l *leg, u *update, e wire.Exchange) error {
	f.Witness.Exchanges++
	if len(e.Items) == 0 {
		f.Witness.Polls++
	} else if err := f.check(l, e); err != nil {
		return err
	}
	u.answer.Session = f.session
	if len(e.Items) > 0 {
		u.answer.First = f.accept(l, e)
		if f.o.SealAfter > 0 && f.rng.IntN(f.o.SealAfter) == 0 {
			f.seal()
		}
	}
	switch {
	case f.state == stopped && len(l.results[e.Client]) == 0:
		u.answer.Ended = wire.RefusedStopping
		l.answer(u)
	case e.Wait == 0, len(l.results[e.Client]) > 0, l.pending[e.Client] == 0, len(l.waiting) >= maxWaiting, f.o.Silent:
		if e.Wait > 0 && l.pending[e.Client] > 0 && !f.o.Silent {
			u.answer.Again = 20 * time.Millisecond
		}
		l.answer(u)
		f.settle(l)
	default:
		l.waiting = append(l.waiting, u)
		u.timer = time.AfterFunc(min(e.Wait, f.o.Wait), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			select {
			case <-u.done:
			default:
				l.answer(u)
			}
		})
	}
	return nil
}

// check returns the validator of items.
func (f *Feed) check(l *leg, e wire.Exchange) error {
	refusal := wire.Refusal{Session: f.session, Leg: f.last().id.Number}
	if !f.o.Unannounced {
		refusal.Capacity, refusal.CapacityBytes, refusal.Backlog, refusal.BacklogBytes = f.o.Capacity, f.o.CapacityBytes, f.backlog, f.bytes
	}
	refuse := func(kind string) error { return &feedclient.RefusedError{Type: kind, Refusal: refusal} }
	var bytes int64
	for _, it := range e.Items {
		bytes += int64(len(it))
	}
	switch {
	case f.state == closed:
		return refuse(wire.RefusedClosed)
	case f.state == stopped:
		return refuse(wire.RefusedStopping)
	case l.sealed:
		return refuse(wire.RefusedMoved)
	case e.Session != 0 && e.Session != f.session:
		return refuse(wire.RefusedSession)
	case time.Now().Before(l.opens):
		return refuse(wire.RefusedEarly)
	case len(e.Items) > f.o.Capacity || bytes > f.o.CapacityBytes:
		return refuse(wire.RefusedTooLarge)
	case f.backlog+len(e.Items) > f.o.Capacity || f.bytes+bytes > f.o.CapacityBytes:
		return refuse(wire.RefusedFull)
	}
	return nil
}

func (f *Feed) reset(l *leg, u *update) error {
	if l.sealed || f.state != running || time.Now().Before(l.opens) {
		return f.check(l, wire.Exchange{})
	}
	f.session++
	f.Witness.Resets++
	waiting := f.queue
	f.queue = nil
	for _, it := range waiting {
		f.finish(it, true)
	}
	u.reset = wire.ResetDone{Session: f.session, Discarded: int64(len(waiting))}
	close(u.done)
	return nil
}

// Close is one of feedclient.Legs.
func (f *Feed) Close(ctx context.Context, _ string) error {
	if err := f.travel(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != running {
		return &feedclient.EndedError{Err: &EndError{State: string(f.state)}, Closed: f.state == closed}
	}
	f.state = closed
	for _, l := range f.legs {
		f.settle(l)
	}
	return nil
}

// State is one of feedclient.Legs.
func (f *Feed) State(ctx context.Context, id feedclient.Leg) (job.FeedState, error) {
	if err := errors.Join(f.travel(ctx), f.workers(ctx)); err != nil {
		return job.FeedState{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.find(id)
	if l == nil || l.over {
		return job.FeedState{}, feedclient.ErrGone
	}
	return job.FeedState{
		Leg: l.id.Number, Open: !l.sealed, Session: f.session, Accepted: int64(len(f.items)), Capacity: f.o.Capacity,
		CapacityBytes: f.o.CapacityBytes, Backlog: f.backlog, BacklogBytes: f.bytes, Waiting: len(f.queue),
	}, nil
}

// Items is one of feedclient.Legs.
func (f *Feed) Items(ctx context.Context, _ feedclient.Leg, ordinals []int64) ([]wire.ItemState, error) {
	if err := errors.Join(f.travel(ctx), f.workers(ctx)); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var states []wire.ItemState
	for _, ordinal := range ordinals {
		it := f.items[ordinal]
		s := wire.ItemState{Item: ordinal, Left: it.left, Queued: it.queued}
		if !it.left {
			s.Queued = time.Since(it.accepted)
		}
		states = append(states, s)
	}
	return states, nil
}

// Served is one of feedclient.Legs.
func (f *Feed) Served(ctx context.Context) (bool, error) {
	if err := f.travel(ctx); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served, nil
}

// Ended is one of feedclient.Legs.
func (f *Feed) Ended(context.Context, string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &EndError{State: string(f.state)}
}

// travel returns a request's way to the feed.
func (f *Feed) travel(ctx context.Context) error { return f.way(ctx, f.o.Lost) }

// back returns an answer's way to the client. What has arrived returns err.
func (f *Feed) back(ctx context.Context, err error) error {
	if lost := f.way(ctx, f.o.Mute); lost != nil {
		return lost
	}
	return err
}

func (f *Feed) way(ctx context.Context, lost int) error {
	f.mu.Lock()
	gone := f.rng.IntN(100) < lost
	silent := f.rng.IntN(4) == 0
	if gone && silent {
		f.Witness.Silent++
	}
	var d time.Duration
	if f.o.Delay > 0 {
		d = time.Duration(f.rng.Int64N(int64(f.o.Delay)))
	}
	down := f.down
	f.mu.Unlock()
	if gone && silent {
		<-ctx.Done()
	}
	if !backoff.Wait(d, ctx.Done()) {
		return ctx.Err()
	}
	if gone || down {
		return errUnavailable
	}
	return nil
}

// workers waits until a worker is there.
func (f *Feed) workers(ctx context.Context) error {
	for {
		f.mu.Lock()
		served, changed := f.served, f.restart
		f.mu.Unlock()
		if served {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
