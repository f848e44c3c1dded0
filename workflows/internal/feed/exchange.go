package feed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/execute"
	"github.com/stint-run/stint/workflows/internal/intake"
)

// Answer has the leg answer updates and queries.
func (l *feedLeg) Answer() error {
	err := workflow.SetUpdateHandlerWithOptions(l.ctx, wire.UpdateExchange, l.exchange,
		workflow.UpdateHandlerOptions{Description: "give items to the feed, and take results from it", Validator: l.checkExchange})
	if err != nil {
		return fmt.Errorf("answering updates: %w", err)
	}
	err = workflow.SetUpdateHandlerWithOptions(l.ctx, wire.UpdateReset, l.reset,
		workflow.UpdateHandlerOptions{Description: "begin the feed's next session", Validator: l.checkReset})
	if err != nil {
		return fmt.Errorf("answering updates: %w", err)
	}
	return errors.Join(
		execute.Answer(l.ctx, wire.QueryFeed, func() (job.FeedState, error) {
			return l.intake.State(l.in.Number, workflow.Now(l.ctx)), nil
		}),
		execute.Answer(l.ctx, wire.QueryItems, func(ordinals []int64) ([]wire.ItemState, error) {
			return l.intake.Items(ordinals, workflow.Now(l.ctx)), nil
		}),
		execute.Answer(l.ctx, wire.QueryProgress, func(executions []string) (job.Progress, error) {
			p := l.progress()
			p.Flying = l.Flying(executions)
			return p, nil
		}),
		execute.Answer(l.ctx, wire.QueryPending, func(offset int) ([]byte, error) {
			return wire.PendingPiece(l.commits.Pending(), offset)
		}),
	)
}

// progress is that of the leg until the job has its result.
func (l *feedLeg) progress() job.Progress {
	s := l.intake.State(l.in.Number, workflow.Now(l.ctx))
	if l.concluded {
		return job.Progress{} // the job has its result
	}
	p := l.Progress()
	p.Life = l.Life()
	p.Feed = &job.FeedReport{
		Session: s.Session, Accepted: s.Accepted, Capacity: s.Capacity, CapacityBytes: s.CapacityBytes,
		Backlog: s.Backlog, BacklogBytes: s.BacklogBytes, Waiting: s.Waiting, Unclaimed: s.Unclaimed, Discarded: s.Discarded,
		OldestSince: l.intake.OldestSince(), StalledSince: l.stalled, QueueMean: s.Queued / time.Duration(max(1, s.Left)), QueueMax: s.QueuedMax,
	}
	return p
}

// checkExchange refuses what cannot be accepted. A refusal leaves no trace.
func (l *feedLeg) checkExchange(x wire.Exchange) error {
	if len(x.Items) > 0 && l.intake.IsOpen() && l.busy(x) {
		return refusal(&intake.Refused{Type: wire.RefusedEarly, Message: "the next leg is not ready yet: ask again"})
	}
	if r := l.intake.Check(x); r != nil {
		return refusal(r)
	}
	if len(x.Items) > 0 && l.barred() {
		return refusal(l.intake.Barred())
	}
	if most := mostItem(l.supply.steps); len(x.Items) > 0 && x.Items.Size() > most*4/3 {
		return refusal(l.intake.TooLarge(x, most))
	}
	if len(x.Items) > 0 && !l.load.Fits(x.Items.Size()) {
		return refusal(&intake.Refused{Type: wire.RefusedEarly, Message: "too many bytes have come at once: ask again"})
	}
	if len(x.Items) > 0 || l.intake.Ready(x.Client) || l.over() || x.Wait > 0 && l.updates < sparse && l.waiters.room(x.Client, workflow.Now(l.ctx)) != nil {
		return nil
	}
	// It would come back empty: an answer takes three events and one of the run's 2,000 updates, a refusal nothing.
	r := &intake.Refused{Type: wire.RefusedNotYet, Message: "there are no results yet: ask again"}
	r.Detail.Again = l.again(x)
	return refusal(r)
}

// barred reports that the feed is stopping although the leg has not taken note of it: the signal was there before the
// items.
func (l *feedLeg) barred() bool { return l.bar.Len()+l.halt.Len() > 0 }

// busy reports that the leg cannot take the items, although no other leg takes them yet.
func (l *feedLeg) busy(x wire.Exchange) bool {
	info := workflow.GetInfo(l.ctx)
	size := info.GetCurrentHistorySize()
	return l.updates >= BusyUpdates || info.GetCurrentHistoryLength() >= busyEvents || size >= busyBytes ||
		l.intake.Left() > 0 && size+l.owed()+x.Items.Size()*(max(1, l.supply.steps)+1) >= busyBytes
}

// over reports that nothing of the leg runs any more.
func (l *feedLeg) over() bool { return l.Halted() || l.concluded || l.orphaned }

// exchange accepts the items of a client and returns results.
func (l *feedLeg) exchange(ctx workflow.Context, x wire.Exchange) (wire.Exchanged, error) {
	l.updates++
	l.load.Add(x.Items.Size())
	l.touched = workflow.Now(ctx)
	l.waiters.thin(l.touched)
	a := wire.Exchanged{First: l.intake.Accept(x, l.touched), Session: l.intake.Session()}
	if len(x.Items) > 0 {
		l.Wake()
	}
	l.sealIfLong()
	l.wait(ctx, x)
	anyhow, _ := workflow.NewDisconnectedContext(ctx)
	_ = l.load.Await(anyhow, func() int { return l.intake.AnswerSize(x.Client) })
	a.Results, a.Parts, a.More = l.intake.Collect(x.Client, workflow.Now(ctx))
	a.Pending = l.intake.Pending(x.Client)
	switch {
	case a.Pending == 0:
	case l.over():
		a.Ended = wire.RefusedStopping
	default:
		a.Again = l.again(x)
	}
	return a, nil
}

const (
	// mostWaiting exchanges wait at a time, of the ten updates that Temporal lets be in flight: work that takes no time
	// is quickest if each client's exchange brings its results, too. When others come, only mostLong go on waiting that
	// have had fairWait: the more is left for items.
	mostWaiting = 8
	mostLong    = 4
	// fairWait is how long an exchange may wait while others want to.
	fairWait = time.Second
	// sparse is how many exchanges a leg answers before it refuses to wait: what is left is for answers with results.
	sparse = 1800
	// soon and late bound the time after which a client asks again for results.
	soon = 20 * time.Millisecond
	late = 5 * time.Second
)

// again returns when a client should ask for results that it did not get: after a part of the time that they have taken
// so far.
func (l *feedLeg) again(x wire.Exchange) time.Duration {
	waited := l.intake.Age(x.Client, workflow.Now(l.ctx))
	return min(max(waited/4, soon), late)
}

// waiter is an exchange that waits for results.
type waiter struct {
	client       string
	since, until time.Time
	displaced    bool
}

// waiters are the exchanges that wait.
type waiters struct {
	all   []*waiter
	armed time.Time // when a timer has them looked at; zero: none runs
}

// room finds room for another waiter. A client has one, and of others the one that has waited for longest makes room,
// if it has had its time: displaced is that waiter, or a new one if nobody has to. It returns nil if there is no room.
func (w *waiters) room(client string, now time.Time) (displaced *waiter) {
	for _, other := range w.all {
		if other.client == client {
			return other
		}
	}
	switch {
	case len(w.all) < mostWaiting:
		return &waiter{}
	case now.Sub(w.all[0].since) >= fairWait:
		return w.all[0]
	}
	return nil
}

// enter adds a waiter; nil: there is no room.
func (w *waiters) enter(client string, now, until time.Time) *waiter {
	displaced := w.room(client, now)
	if displaced == nil {
		return nil
	}
	displaced.displaced = true
	w.leave(displaced)
	one := &waiter{client: client, since: now, until: until}
	w.all = append(w.all, one)
	return one
}

// thin ends the waits of those that have waited for longest and have had their time, as long as more than mostLong
// wait.
func (w *waiters) thin(now time.Time) {
	for len(w.all) > mostLong && now.Sub(w.all[0].since) >= fairWait {
		w.all[0].displaced = true
		w.leave(w.all[0])
	}
}

func (w *waiters) leave(one *waiter) {
	w.all = slices.DeleteFunc(w.all, func(o *waiter) bool { return o == one })
}

// after returns when the first wait is over that is not over now; zero: nobody waits for longer.
func (w *waiters) after(now time.Time) time.Time {
	var at time.Time
	for _, o := range w.all {
		if o.until.After(now) && (at.IsZero() || o.until.Before(at)) {
			at = o.until
		}
	}
	return at
}

// wait waits until the client has results, for as long as it may.
func (l *feedLeg) wait(ctx workflow.Context, x wire.Exchange) {
	over := func() bool { return l.intake.Ready(x.Client) || l.over() }
	if x.Wait <= 0 || over() {
		return
	}
	now := workflow.Now(ctx)
	w := l.waiters.enter(x.Client, now, now.Add(min(x.Wait, wire.MaxExchangeWait)))
	if w == nil {
		return
	}
	defer l.waiters.leave(w)
	l.arm(w.until)
	_ = workflow.Await(ctx, func() bool { return w.displaced || over() || !workflow.Now(ctx).Before(w.until) })
}

// arm has the waits that are over by then end. One timer serves all: a timer for each would be two events of each
// exchange.
func (l *feedLeg) arm(at time.Time) {
	if !l.waiters.armed.IsZero() && !at.Before(l.waiters.armed) {
		return // the earlier timer sets the next one
	}
	l.waiters.armed = at
	workflow.Go(l.ctx, func(ctx workflow.Context) {
		_ = workflow.NewTimer(ctx, at.Sub(workflow.Now(ctx))).Get(ctx, nil)
		if !l.waiters.armed.Equal(at) {
			return // another one was set for an earlier time
		}
		l.waiters.armed = time.Time{}
		if next := l.waiters.after(workflow.Now(ctx)); !next.IsZero() {
			l.arm(next)
		}
	})
}

func (l *feedLeg) checkReset(r wire.Reset) error { return refusal(l.intake.CheckReset(r)) }

// reset begins the next session. The other legs learn of it from the job.
func (l *feedLeg) reset(_ workflow.Context, _ wire.Reset) (wire.ResetDone, error) {
	l.updates++
	discarded := l.beginSession(0)
	session := l.intake.Session()
	l.link.Signal(wire.SignalSession, session)
	l.free()
	l.Wake()
	return wire.ResetDone{Session: session, Discarded: discarded}, nil
}

// refusal makes an error that a client can read.
func refusal(r *intake.Refused) error {
	if r == nil {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(r.Message, r.Type, nil, r.Detail)
}
