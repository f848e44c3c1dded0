package feedsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
)

// Options of a simulated feed.
type Options struct {
	Seed          uint64
	Capacity      int   // default 256
	CapacityBytes int64 // default 4 MiB
	Slots         int   // default 2
	BatchItems    int   // default 1
	// Work is how long a batch takes. Default: up to 10 ms.
	Work func(*rand.Rand) time.Duration
	// Fails reports whether an item's handler returns an error. Default: never.
	Fails func(item json.RawMessage) bool
	// SealAfter is after how many accepted exchanges, on average, a leg is sealed. Default: never.
	SealAfter int
	// Lost is how many requests of a hundred are lost on their way, Mute how many answers are.
	Lost, Mute int
	// Delay is how long requests and answers take at most.
	Delay time.Duration
	// Wait is how long the feed waits at most for a client. Default 1 s.
	Wait time.Duration
	// Unserved: no worker is there.
	Unserved bool
	// Unannounced: the refusals of the feed name no numbers.
	Unannounced bool
	// Early is for how long a new leg does not take items yet.
	Early time.Duration
	// Silent: polls are answered at once, and say nothing of when to ask again.
	Silent bool
}

// state of a feed.
type state string

const (
	running state = "running"
	closed  state = "closed"
	stopped state = "stopped"
	unknown state = "unknown"
)

// EndError is what the simulation's Ended and Open return for callers.
type EndError struct{ State string }

func (e *EndError) Error() string { return "the feed is " + e.State }

// Feed is a simulated feed. It is safe for concurrent use.
type Feed struct {
	mu      sync.Mutex
	o       Options
	rng     *rand.Rand
	state   state
	session int64
	legs    []*leg // runs, the last one takes items
	memo    int    // index of the leg that the job's memo names
	served  bool
	down    bool
	restart chan struct{} // closed when all that is under way fails
	items   []*item
	queue   []*item
	busy    int
	backlog int
	bytes   int64
	under   map[string]int // exchanges under way, by client
	Witness Witness
}

// Witness has seen what the feed has done.
type Witness struct {
	Accepted   map[string]int // how often each value has been accepted
	Executed   map[string]int
	MaxBacklog int
	MaxUnder   int // exchanges of one client under way at once
	Exchanges  int // that have reached a leg, repetitions not counted
	Polls      int // of these, without items
	Refusals   int
	Resets     int
	Discarded  int
	Legs       int
	Restarts   int
	Silent     int // requests and answers that were lost without an error: they are missed when the attempt's time is over
	Killed     int // legs
}

type item struct {
	ordinal  int64
	session  int64
	client   string // empty: nobody takes the result
	value    json.RawMessage
	leg      *leg
	accepted time.Time
	queued   time.Duration
	left     bool
}

type leg struct {
	feed    *Feed
	id      feedclient.Leg
	opens   time.Time
	sealed  bool
	over    bool // its run has ended
	updates map[string]*update
	waiting []*update
	pending map[string]int
	results map[string][]wire.ItemResult
	open    int // items without an outcome
}

type update struct {
	client string
	answer wire.Exchanged
	reset  wire.ResetDone
	err    error
	done   chan struct{}
	timer  *time.Timer
}

// New returns a feed with one open leg.
func New(o Options) *Feed {
	o.Capacity = cmp.Or(o.Capacity, 256)
	o.CapacityBytes = cmp.Or(o.CapacityBytes, 4<<20)
	o.Slots = cmp.Or(o.Slots, 2)
	o.BatchItems = cmp.Or(o.BatchItems, 1)
	o.Wait = cmp.Or(o.Wait, time.Second)
	if o.Work == nil {
		o.Work = func(rng *rand.Rand) time.Duration { return time.Duration(rng.IntN(10_000)) * time.Microsecond }
	}
	if o.Fails == nil {
		o.Fails = func(json.RawMessage) bool { return false }
	}
	f := &Feed{
		o: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), state: running, session: 1, served: !o.Unserved, under: map[string]int{},
		restart: make(chan struct{}),
		Witness: Witness{Accepted: map[string]int{}, Executed: map[string]int{}},
	}
	f.addLeg("run")
	return f
}

func (f *Feed) addLeg(run string) {
	number := len(f.legs) + 1
	f.legs = append(f.legs, &leg{feed: f,
		id: feedclient.Leg{Number: number, Run: fmt.Sprintf("%s-%d", run, number)}, opens: time.Now().Add(f.o.Early),
		updates: map[string]*update{}, pending: map[string]int{}, results: map[string][]wire.ItemResult{},
	})
	f.Witness.Legs++
}

func (f *Feed) last() *leg { return f.legs[len(f.legs)-1] }

// accept takes items. There is room for them.
func (f *Feed) accept(l *leg, e wire.Exchange) int64 {
	first := int64(len(f.items))
	for _, value := range e.Items {
		it := &item{ordinal: int64(len(f.items)), session: f.session, value: value, leg: l, accepted: time.Now()}
		if e.Want {
			it.client = e.Client
			l.pending[e.Client]++
		}
		f.items = append(f.items, it)
		f.queue = append(f.queue, it)
		f.backlog++
		f.bytes += int64(len(value))
		f.Witness.Accepted[string(value)]++
		l.open++
	}
	f.Witness.MaxBacklog = max(f.Witness.MaxBacklog, f.backlog)
	f.dispatch()
	return first
}

// dispatch runs batches in free slots.
func (f *Feed) dispatch() {
	for f.busy < f.o.Slots && len(f.queue) > 0 && f.state != stopped {
		n := min(f.o.BatchItems, len(f.queue))
		batch := f.queue[:n:n]
		f.queue = f.queue[n:]
		f.busy++
		for _, it := range batch {
			it.left, it.queued = true, time.Since(it.accepted)
			f.Witness.Executed[string(it.value)]++
		}
		time.AfterFunc(f.o.Work(f.rng), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.busy--
			for _, it := range batch {
				f.finish(it, false)
			}
			f.dispatch()
		})
	}
}

// finish gives an item its outcome.
func (f *Feed) finish(it *item, discarded bool) {
	f.backlog--
	f.bytes -= int64(len(it.value))
	l := it.leg
	l.open--
	r := wire.ItemResult{Item: it.ordinal, Session: it.session, Queued: it.queued, Discarded: discarded}
	switch {
	case discarded:
		f.Witness.Discarded++
	case f.o.Fails(it.value):
		r.Failure = json.RawMessage(fmt.Sprintf(`{"item":%d,"kind":"error","error":{"type":"Bad","message":%q,"stack":"remote"},"attempts":1}`, it.ordinal, string(it.value)))
	default:
		r.Result = json.RawMessage(fmt.Sprintf(`{"of":%s}`, it.value))
	}
	if it.client != "" {
		l.pending[it.client]--
		l.results[it.client] = append(l.results[it.client], r)
		for _, u := range l.waiting {
			if u.client == it.client {
				l.answer(u)
			}
		}
	}
	f.settle(l)
}

// settle ends the run of a sealed leg that has nothing left.
func (f *Feed) settle(l *leg) {
	if (l.sealed || f.state == closed) && l.open == 0 && !l.over {
		for _, left := range l.results {
			if len(left) > 0 {
				return
			}
		}
		l.end(feedclient.ErrCut)
	}
}

// end ends a leg's run; what waits at it gets the error, unless it can be answered.
func (l *leg) end(err error) {
	l.over = true
	for len(l.waiting) > 0 {
		u := l.waiting[0]
		if len(l.results[u.client]) > 0 || l.pending[u.client] == 0 {
			l.answer(u)
			continue
		}
		u.err = err
		l.close(u)
	}
}

func (l *leg) close(u *update) {
	if u.timer != nil {
		u.timer.Stop()
	}
	l.waiting = slices.DeleteFunc(slices.Clone(l.waiting), func(other *update) bool { return other == u })
	close(u.done)
}

// answer fills an update's answer with the client's results. A result of a session that has ended does not show.
func (l *leg) answer(u *update) {
	results := l.results[u.client]
	n := min(len(results), wire.MaxExchangeItems)
	u.answer.Results, l.results[u.client] = slices.Clone(results[:n]), results[n:]
	for i, r := range u.answer.Results {
		if r.Session < l.feed.session {
			u.answer.Results[i] = wire.ItemResult{Item: r.Item, Session: r.Session, Discarded: true}
		}
	}
	u.answer.More = n < len(results)
	u.answer.Pending = l.pending[u.client]
	l.close(u)
}

// seal seals the open leg. The job's memo names the next one a little later.
func (f *Feed) seal() {
	l := f.last()
	l.sealed = true
	f.addLeg("run")
	next := len(f.legs) - 1
	time.AfterFunc(30*time.Millisecond, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.memo = max(f.memo, next)
	})
}

// Seal seals the open leg.
func (f *Feed) Seal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seal()
	f.settle(f.legs[len(f.legs)-2])
}

// KillLeg ends the run of the open leg: its items are lost, and another one opens.
func (f *Feed) KillLeg() {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.last()
	f.Witness.Killed++
	f.seal()
	f.drop(l)
	l.end(feedclient.ErrCut)
}

// Restart ends all that is under way with an error; for as long as it takes, nothing gets through.
func (f *Feed) Restart(takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.restart)
	f.restart = make(chan struct{})
	f.down = true
	f.Witness.Restarts++
	time.AfterFunc(takes, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.down = false
	})
}

// Serve sets whether any worker is there.
func (f *Feed) Serve(served bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = served
	close(f.restart)
	f.restart = make(chan struct{})
}

// Stop stops the feed: what waits has no outcome.
func (f *Feed) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = stopped
	f.queue = nil
	for _, l := range f.legs {
		for len(l.waiting) > 0 {
			u := l.waiting[0]
			if len(l.results[u.client]) == 0 {
				u.answer.Ended = wire.RefusedStopping
			}
			l.answer(u)
		}
	}
}

// Terminate ends the feed and all its legs, at once and without a word.
func (f *Feed) Terminate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = stopped
	f.queue = nil
	for _, l := range f.legs {
		l.over = true
		for len(l.waiting) > 0 {
			l.waiting[0].err = feedclient.ErrCut
			l.close(l.waiting[0])
		}
	}
}

// Forget makes the open leg forget the results that nobody has taken, as if they had been kept for long enough.
func (f *Feed) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.legs {
		l.results = map[string][]wire.ItemResult{}
	}
}

// drop removes the waiting items of a leg.
func (f *Feed) drop(l *leg) {
	f.queue = slices.DeleteFunc(slices.Clone(f.queue), func(it *item) bool {
		if it.leg == l {
			f.backlog--
			f.bytes -= int64(len(it.value))
			l.open--
		}
		return it.leg == l
	})
}

// Backlog returns how many items are accepted and unfinished.
func (f *Feed) Backlog() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.backlog
}

// Session returns the open session.
func (f *Feed) Session() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session
}

// Seen returns a copy of the counts of the witness.
func (f *Feed) Seen() Witness {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.Witness
	seen.Accepted, seen.Executed = maps.Clone(seen.Accepted), maps.Clone(seen.Executed)
	return seen
}
