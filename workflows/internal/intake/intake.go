// Package intake keeps the books of one leg of a feed: which items it has accepted, which of them wait, run or are
// done, how much of the feed's capacity is taken, and which results their clients have not taken yet. It does nothing
// by itself and asks no clock, so that workflows can use it.
//
//   - intake.go: the items; capacity.go: what is accepted and what is refused, sessions
//   - results.go: results, and the clients that want them
package intake

import (
	"encoding/json"
	"iter"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Limits are a feed's.
type Limits struct {
	Capacity int   // items accepted and unfinished, over all legs
	Bytes    int64 // of these items
	Keep     time.Duration
}

// item is one that has no outcome yet.
type item struct {
	ordinal  int64
	session  int64
	data     json.RawMessage
	client   string // that wants its result; "" if none does
	accepted time.Time
	left     time.Time // the queue; zero: it waits
	done     bool      // it has an outcome
}

// Intake is described with the package. It is not safe for concurrent use.
type Intake struct {
	outbox
	state     state
	successor int  // that takes items after this leg; 0: not known
	barred    bool // the feed is stopping

	first, next int64           // ordinals of this leg: [first, next)
	low         int64           // all before it have an outcome
	items       map[int64]*item // without an outcome
	waiting     []*item         // of them, those that are in no batch: the last ones that were accepted, in order
	bytes       int64           // of items
	elsewhere   int             // unfinished items of legs before
	elseBytes   int64
	freed       wire.Freed // by this leg, since it was sealed
	known       wire.Freed // by all legs since they were sealed, as far as this one has heard

	moved     time.Time // when something has finished last, here or in another leg, or when the backlog has begun
	discarded []wire.FeedRange
	removed   int64 // items, by resets

	queued    time.Duration // of all that have left the queue
	queuedMax time.Duration
	leftQueue int64
}

type state int

const (
	early  state = iota // stands by: the leg before it still takes items
	open                // takes items
	sealed              // finishes what it has
	closed              // like sealed, and no other leg takes items
	ended               // nothing runs any more
)

// New returns the books of a leg that stands by.
func New(l Limits) *Intake {
	return &Intake{outbox: outbox{limits: l, clients: map[string]*client{}}, items: map[int64]*item{}}
}

// Open has the leg take items. Only the first call counts.
func (in *Intake) Open(o wire.Opening) {
	if in.state != early {
		return
	}
	in.state = open
	in.first, in.low, in.next, in.session = o.First, o.First, o.First, max(1, o.Session)
	in.elsewhere, in.elseBytes = o.Unfinished, o.Bytes
	heard := in.known // may be later than the opening
	in.known = o.Freed
	in.Free(heard)
}

// IsOpen reports whether the leg takes items; Opened whether it ever has.
func (in *Intake) IsOpen() bool { return in.state == open }

// Latest reports that the leg has taken items, and none after it has.
func (in *Intake) Latest() bool { return in.state == open || in.state == closed && in.Opened() }

// Opened is described with [Intake.IsOpen].
func (in *Intake) Opened() bool { return in.state > early && in.session > 0 }

// Seal has the leg take no more items: the successor does. It returns how that one begins.
func (in *Intake) Seal(successor int) wire.Opening {
	in.state, in.successor = sealed, successor
	o := wire.Opening{First: in.next, Session: in.session, Unfinished: in.elsewhere + len(in.items), Bytes: in.elseBytes + in.bytes, Freed: in.known}
	in.elsewhere, in.elseBytes = 0, 0
	return o
}

// Close has the leg take no more items, and no other one after it. A sealed leg is not concerned.
func (in *Intake) Close() {
	if in.state < sealed {
		in.state = closed
	}
}

// Bar has the leg take no more items because the feed is stopping. What it has goes on, until it is stopped itself.
func (in *Intake) Bar() { in.barred = true }

// End says that nothing runs any more: items without an outcome get none from this leg.
func (in *Intake) End() { in.state = ended }

// Shut reports that the leg takes no more items.
func (in *Intake) Shut() bool { return in.state >= sealed }

// Left returns how many items have no outcome, Bytes how many bytes these have.
func (in *Intake) Left() int { return len(in.items) }

// Bytes is described with [Intake.Left].
func (in *Intake) Bytes() int64 { return in.bytes }

// SessionOf returns the session of an item without an outcome; 0 if there is no such item.
func (in *Intake) SessionOf(ordinal int64) int64 {
	if it := in.items[ordinal]; it != nil {
		return it.session
	}
	return 0
}

// Age returns how long ago the oldest of a client's items was accepted that has no outcome.
func (in *Intake) Age(client string, now time.Time) time.Duration {
	c := in.clients[client]
	if c == nil || len(c.wanted) == 0 {
		return 0
	}
	return now.Sub(c.wanted[0].accepted)
}

// oldest returns the first item without an outcome; nil: there is none.
func (in *Intake) oldest() *item {
	for in.low < in.next && in.items[in.low] == nil {
		in.low++
	}
	return in.items[in.low]
}

// OldestSince returns when the first item without an outcome was accepted; zero: there is none.
func (in *Intake) OldestSince() time.Time {
	if it := in.oldest(); it != nil {
		return it.accepted
	}
	return time.Time{}
}

// Accept takes the items of an exchange that [Intake.Check] allows, and returns the ordinal of the first one.
func (in *Intake) Accept(x wire.Exchange, now time.Time) int64 {
	in.now = now
	if items, _ := in.Backlog(); items == 0 {
		in.moved = now
	}
	first := in.next
	for _, data := range x.Items {
		it := &item{ordinal: in.next, session: in.session, data: data, accepted: now}
		if x.Want {
			it.client = x.Client
			c := in.client(x.Client)
			c.pending++
			c.wanted = append(c.wanted, it)
		}
		in.items[in.next] = it
		in.waiting = append(in.waiting, it)
		in.bytes += int64(len(data))
		in.next++
	}
	return first
}

// Waiting returns how many items are in no batch, and since when the first of them has waited.
func (in *Intake) Waiting() (items int, since time.Time) {
	if len(in.waiting) == 0 {
		return 0, time.Time{}
	}
	return len(in.waiting), in.waiting[0].accepted
}

// Limit bounds a batch, unless it is a single item.
type Limit struct {
	Items  int
	Bytes  int64 // of its items
	Wanted int64 // bytes of its items, if a client wants the result of one
}

// Take takes a batch out of the queue.
func (in *Intake) Take(most Limit, now time.Time) (wire.Batch, bool) {
	in.now = now
	if len(in.waiting) == 0 {
		return wire.Batch{}, false
	}
	b := wire.Batch{First: in.waiting[0].ordinal}
	size, bytes := int64(0), most.Bytes
	for _, it := range in.waiting[:min(most.Items, len(in.waiting))] {
		if it.client != "" {
			bytes = min(bytes, most.Wanted)
		}
		if size += int64(len(it.data)); b.Count > 0 && size > bytes {
			break
		}
		b.Count++
		it.left = now
		queued := now.Sub(it.accepted)
		in.queued += queued
		in.queuedMax = max(in.queuedMax, queued)
	}
	in.leftQueue += b.Count
	in.waiting = in.waiting[b.Count:]
	return b.Sealed(), true
}

// of returns the items of a batch that are without an outcome, if the leg has given them: what others report may name
// any.
func (in *Intake) of(b wire.Batch) iter.Seq[*item] {
	return func(yield func(*item) bool) {
		for o := max(b.First, in.first); o < min(b.End(), in.next); o++ {
			if it := in.items[o]; it != nil && !yield(it) {
				return
			}
		}
	}
}

// Data returns the items of a batch. All of them must be without an outcome.
func (in *Intake) Data(b wire.Batch) []json.RawMessage {
	var data []json.RawMessage
	for it := range in.of(b) {
		data = append(data, it.data)
	}
	return data
}

// Size returns how many bytes the items of a batch have that are without an outcome.
func (in *Intake) Size(b wire.Batch) int64 {
	n := int64(0)
	for it := range in.of(b) {
		n += int64(len(it.data))
	}
	return n
}

// finish removes an item that has an outcome.
func (in *Intake) finish(it *item, r wire.ItemResult) {
	delete(in.items, it.ordinal)
	in.moved = in.now
	in.bytes -= int64(len(it.data))
	if in.state == sealed { // the successor has counted it as unfinished
		in.freed.Add(wire.Freed{Items: 1, Bytes: int64(len(it.data))})
	}
	if it.client == "" {
		return
	}
	r.Item, r.Session = it.ordinal, it.session
	left := it.left
	if left.IsZero() {
		left = in.now
	}
	r.Queued, r.Took = left.Sub(it.accepted), in.now.Sub(left)
	it.done = true
	in.give(in.client(it.client), r)
}

// Freed returns the capacity that the leg has freed since it was sealed.
func (in *Intake) Freed() wire.Freed { return in.freed }

// Free notes the capacity that sealed legs have freed, all together. It reports whether that is news.
func (in *Intake) Free(total wire.Freed) bool {
	more := in.known.Grow(total)
	in.elsewhere = max(0, in.elsewhere-more.Items)
	in.elseBytes = max(0, in.elseBytes-more.Bytes)
	return more != wire.Freed{}
}

// Moved notes that something of the backlog has finished elsewhere, or that the leg learns of it only now.
func (in *Intake) Moved(now time.Time) { in.moved = now }

// Since returns when something of the backlog has finished last, or when it has begun; zero: there is no backlog.
func (in *Intake) Since() time.Time {
	if items, _ := in.Backlog(); items == 0 {
		return time.Time{}
	}
	return in.moved
}

// Backlog returns what of the capacity is taken.
func (in *Intake) Backlog() (items int, bytes int64) {
	return in.elsewhere + len(in.items), in.elseBytes + in.bytes
}

// Next returns the ordinal that the next item gets.
func (in *Intake) Next() int64 { return in.next }

// Unfinished returns all items without an outcome, in order, those together that are consecutive and of one session.
func (in *Intake) Unfinished() []wire.FeedItems {
	var all []wire.FeedItems
	in.oldest()
	for o := in.low; o < in.next; o++ {
		it := in.items[o]
		if it == nil {
			continue
		}
		if n := len(all); n > 0 && all[n-1].End() == o && all[n-1].Session == it.session {
			all[n-1].Items = append(all[n-1].Items, it.data)
			continue
		}
		all = append(all, wire.FeedItems{First: o, Items: []json.RawMessage{it.data}, Session: it.session})
	}
	return all
}

// Items returns where items are that this leg has accepted.
func (in *Intake) Items(ordinals []int64, now time.Time) []wire.ItemState {
	var all []wire.ItemState
	for _, o := range ordinals[:min(len(ordinals), wire.MaxExchangeItems)] {
		if o < in.first || o >= in.next {
			continue
		}
		state := wire.ItemState{Item: o, Left: true}
		if it := in.items[o]; it != nil {
			until := now
			if state.Left = !it.left.IsZero(); state.Left {
				until = it.left
			}
			state.Queued = until.Sub(it.accepted)
		}
		all = append(all, state)
	}
	return all
}

// State describes the feed as this leg knows it.
func (in *Intake) State(leg int, now time.Time) job.FeedState {
	s := job.FeedState{
		Leg: leg, Open: in.state == open, Session: in.session, Accepted: in.next,
		Capacity: in.limits.Capacity, CapacityBytes: in.limits.Bytes,
		Waiting: len(in.waiting), Unclaimed: in.kept + in.unclaimed, Discarded: in.removed, Queued: in.queued, QueuedMax: in.queuedMax, Left: in.leftQueue,
	}
	s.Backlog, s.BacklogBytes = in.Backlog()
	if it := in.oldest(); it != nil {
		s.Oldest = now.Sub(it.accepted)
	}
	return s
}
