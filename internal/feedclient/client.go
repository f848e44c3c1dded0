package feedclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/wire"
)

// Options may be left zero.
type Options struct {
	// Linger is how long the first list of an exchange waits for others. Default: not at all.
	Linger time.Duration
	// Session is the one that items are for: in another they are refused. Default 0: whichever is open.
	Session int64
	// Token names the client to the feed. Default: a random one, which is what real feeds need.
	Token string
}

// Client carries items to one feed and results back. It is safe for concurrent use, by any number of goroutines.
type Client struct {
	legs   Legs
	token  string
	only   int64           // session that items are for; 0: whichever is open
	ctx    context.Context // ends when the client is released
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // goroutines of the client

	mu sync.Mutex
	sendQueue
	released bool
	why      error // it was released, or what has broken it
	sequence int64 // of the last request
	session  int64 // the highest that is known
	known    map[Leg]*leg
	open     *leg        // takes items; nil: not known
	seeking  bool        // a goroutine seeks the open leg
	carriers int         // exchanges under way that carry items and do not wait
	lists    int64       // submitted
	crowded  bool        // lists have just been parked
	timer    *time.Timer // pumps
	nowhere  leg         // for inquiries about items that no leg has
}

// kind says what becomes of the results of a list's items.
type kind int

const (
	unasked kind = iota // nobody takes them
	wanted              // the list, of one item, takes its result
)

// lane holds the lists of one kind that are to be sent.
type lane struct {
	queue  []*List
	parked []*List // patient ones that did not fit, tried again when the gate opens
}

// List is a caller's items: accepted as a whole, or refused.
type List struct {
	client    *Client
	number    int64 // in the order of submission
	kind      kind
	count     int // of items
	bytes     int64
	submitted time.Time
	deadline  time.Time     // of the caller; zero: none
	accepted  chan struct{} // closed when err is final, or the items are accepted
	done      chan struct{} // closed when there is an outcome, or will be none

	// The rest belongs to the client's lock.
	items   []json.RawMessage // nil once they are of no more use
	phase   phase
	patient bool          // waits for room
	again   bool          // it has been sent before
	alone   bool          // it goes in an exchange of its own
	full    *RefusedError // the last refusal for want of room
	leg     *leg
	item    int64 // ordinal of the first
	session int64
	since   time.Time // accepted
	outcome wire.ItemResult
	err     error
}

type phase int

const (
	queued  phase = iota
	parked        // not before the gate opens
	sent          // in an exchange under way
	taken         // accepted
	settled       // nothing more will become of it
)

// leg is what the client knows of a leg, and has to do with it.
type leg struct {
	Leg
	token     string // names the client to this leg
	waiters   map[int64]*List
	early     map[int64]earlyResult
	under     map[int64]*exchange // under way, by sequence number
	waiting   bool                // one of them waits for results
	notBefore time.Time           // for items
	refusals  int                 // in a row, of a leg that is not open yet
	nextPoll  time.Time
	empty     int    // polls in a row without a result
	gone      bool   // its run has ended
	over      string // it has ended its work: why
	inquiries []*inquiry
}

// earlyResult has come before the answer that names its item.
type earlyResult struct {
	wire.ItemResult
	stamp int64 // of the youngest exchange then
}

// New returns a client of a feed. It has to be released.
func New(legs Legs, o Options) *Client {
	if o.Token == "" {
		random := make([]byte, 12)
		_, _ = rand.Read(random) // never fails
		o.Token = hex.EncodeToString(random)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Client{
		legs: legs, only: o.Session, token: o.Token, ctx: ctx, cancel: cancel,
		known: map[Leg]*leg{}, sendQueue: sendQueue{linger: o.Linger, lanes: [2]*lane{{}, {}}},
	}
}

// Release wakes everyone who waits, with [ErrReleased], and returns when the client's goroutines have ended. It can be
// repeated. The feed itself goes on.
func (c *Client) Release() {
	c.shut(ErrReleased)
	c.work.Wait()
}

// shut wakes everyone who waits, and begins nothing any more.
func (c *Client) shut(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return
	}
	c.released = true
	c.why = why
	c.cancel(why)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.failQueued(why)
	for _, l := range c.known {
		for _, ex := range l.under {
			ex.fail(&UncertainError{why})
		}
		l.failWaiters(why)
	}
}

// spawn runs fn in a goroutine of the client, unless it has been released. The lock is held.
func (c *Client) spawn(fn func()) {
	if c.released {
		return
	}
	c.work.Add(1)
	trap.Watched("carrying a feed's items", c.shut, func() {
		defer c.work.Done()
		fn()
	})
}

// nextID returns a request's sequence number and its ID. The lock is held.
func (c *Client) nextID() (int64, string) {
	c.sequence++
	return c.sequence, fmt.Sprintf("%s-%d", c.token, c.sequence)
}

// legOf returns the state of a leg. The lock is held.
func (c *Client) legOf(l Leg) *leg {
	known := c.known[l]
	if known == nil {
		known = &leg{Leg: l, token: c.token, waiters: map[int64]*List{}, early: map[int64]earlyResult{}, under: map[int64]*exchange{}}
		c.known[l] = known
	}
	return known
}

// forget drops the state of a leg that is of no more use. The lock is held.
func (c *Client) forget(l *leg) {
	if l != c.open && len(l.waiters) == 0 && len(l.under) == 0 && len(l.inquiries) == 0 {
		delete(c.known, l.Leg)
	}
}

// Put submits items whose results nobody takes. A patient list waits for room. The deadline is the caller's, zero if
// there is none. The items are not copied.
func (c *Client) Put(items []json.RawMessage, patient bool, deadline time.Time) *List {
	return c.submit(&List{kind: unasked, items: items, patient: patient, deadline: deadline})
}

// Ask submits one item, and takes its result.
func (c *Client) Ask(item json.RawMessage, patient bool, deadline time.Time) *List {
	return c.submit(&List{kind: wanted, items: []json.RawMessage{item}, patient: patient, deadline: deadline})
}

func (c *Client) submit(l *List) *List {
	l.client, l.submitted = c, time.Now()
	l.accepted, l.done = make(chan struct{}), make(chan struct{})
	l.count = len(l.items)
	for _, item := range l.items {
		l.bytes += int64(len(item))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		l.fail(c.why)
		return l
	}
	c.lists++
	l.number = c.lists
	c.returns()
	lane := c.lanes[l.kind]
	if l.patient && len(lane.parked) > 0 {
		l.phase = parked
		lane.parked = append(lane.parked, l)
	} else {
		lane.queue = append(lane.queue, l)
	}
	c.pump()
	return l
}

// fail ends a list without an outcome. The lock is held.
func (l *List) fail(err error) {
	if l.phase == settled {
		return
	}
	accepted := l.phase == taken
	l.phase, l.err, l.items = settled, err, nil
	if !accepted {
		close(l.accepted)
	}
	close(l.done)
}

// Accepted returns once the list's items have been accepted, or its error. If the context ends first, nothing more
// becomes of a list that has not been sent; for one that has been, the error is an *[UncertainError].
func (l *List) Accepted(ctx context.Context) error {
	select {
	case <-l.accepted:
	case <-ctx.Done():
		l.client.leave(ctx.Err(), l)
	}
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return l.err
}

// leave gives lists up: what has not been sent is not sent, what has been accepted is no longer waited for.
func (c *Client) leave(err error, lists ...*List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range lists {
		l.drop(err)
	}
	for _, lane := range c.lanes {
		lane.queue = slices.DeleteFunc(lane.queue, func(l *List) bool { return l.phase == settled })
	}
	c.pump()
}

// drop gives one list up. The lock is held.
func (l *List) drop(err error) {
	switch l.phase {
	case sent:
		l.fail(&UncertainError{err})
	case taken:
		if l.kind == unasked {
			return // it has its outcome: it is accepted
		}
		delete(l.leg.waiters, l.item)
		l.client.forget(l.leg)
		l.fail(err)
	default:
		l.fail(err)
	}
}

// Leave is for a caller that does not wait for the outcome of lists any more. It can be repeated.
func (c *Client) Leave(lists ...*List) { c.leave(context.Canceled, lists...) }

// EndPatience ends the waiting for room: what does not fit now, or when it is tried next, is refused.
func (l *List) EndPatience() {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	l.patient = false
	switch {
	case l.phase != parked:
	case l.full != nil:
		l.fail(l.full)
	default: // it has never been tried: others were waiting already
		l.phase = queued
		lane := c.lanes[l.kind]
		lane.queue = append(lane.queue, l)
		c.pump()
	}
}

// Done is closed when the list's item has an outcome, or will have none.
func (l *List) Done() <-chan struct{} { return l.done }

// Outcome returns the outcome of the list's item, once Done is closed, or the list's error. A result of a session that
// has ended does not show.
func (l *List) Outcome() (wire.ItemResult, error) {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.err != nil {
		return wire.ItemResult{}, l.err
	}
	if l.session < c.session {
		return discarded(l), nil
	}
	return l.outcome, nil
}

func discarded(l *List) wire.ItemResult {
	return wire.ItemResult{Item: l.item, Session: l.session, Discarded: true}
}
