package calls

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Allowance counts what the calls of an execution use of services that are paid for, and keeps them within the
// execution's share of the job's limits. It is safe for concurrent use.
//
// Of a budget it has to guess what a call under way will use: that is what calls have used so far, on average. As long as
// nothing is known, one is made at a time. So the share is exceeded by what calls in hand use more than that.
type Allowance struct {
	share wire.Share
	from  time.Time // when the first turn comes
	full  func()    // is called when nothing more may be begun

	mu       sync.Mutex
	used     job.Usage
	answered int64         // items whose requests have said what they have used
	known    job.Usage     // of these
	reserved job.Usage     // for requests under way
	under    int           // requests under way
	furthest int64         // the last item, in order, that a request has been begun for
	givenUp  int64         // the first one that none is begun for any more: nor for those behind it
	changed  chan struct{} // closed when one of these ends
	all      quota
	by       map[string]*quota    // of each value that limits hold by
	later    map[uint32]time.Time // when the first turn of some of them comes, by digest
	turns    int64                // that have been taken

	waiting int       // requests that wait for their turn
	since   time.Time // when the first of them began to wait
	waited  time.Duration
}

// NewAllowance returns an allowance of a share; nil: nothing is limited. It is for one [Watch].
func NewAllowance(share *wire.Share) *Allowance {
	a := &Allowance{full: func() {}, changed: make(chan struct{}), furthest: -1, givenUp: math.MaxInt64}
	if share != nil {
		a.share = *share
	}
	now := time.Now()
	a.from = now.Add(a.share.First.Turn)
	a.all = a.newQuota(a.from)
	for _, k := range a.share.First.Keys {
		if a.later == nil {
			a.later = map[uint32]time.Time{}
		}
		a.later[k.Key] = now.Add(k.Turn)
	}
	return a
}

// Spend counts what has been used, beside what requests say at their end. It counts for the limit of tokens, if that is
// one of all items.
func (a *Allowance) Spend(u job.Usage) {
	a.mu.Lock()
	a.all.tokens.correct(u.Tokens())
	a.mu.Unlock()
	a.spend(u)
}

func (a *Allowance) spend(u job.Usage) {
	a.mu.Lock()
	a.used.Add(u)
	spent := a.within(job.Usage{}) < 0
	a.mu.Unlock()
	if spent {
		a.full()
	}
}

// Used returns what has been used so far; nothing of a nil Allowance.
func (a *Allowance) Used() job.Usage {
	if a == nil {
		return job.Usage{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// TakeUsed is Used, and counts from zero again.
func (a *Allowance) TakeUsed() job.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.used
	a.used = job.Usage{}
	return used
}

// Request is one that may be begun.
type Request struct {
	of       *Allowance // nil: nobody counts
	items    int
	first    int64 // of these, in the order of the batch
	held     bool  // it is under way, as far as the allowance knows
	reserved job.Usage
	tokens   int64 // taken from each of the quotas
	quotas   []*quota
	due      []time.Time // when its turn was due in each
}

// Wanted is a request that is to be made.
type Wanted struct {
	Items    []Item
	Keys     []string  // the values that limits hold by, if the share has a field for that
	Estimate job.Usage // of what it will use; zero: nobody knows
	// Unmeasured says that nobody will know either what this request has used: the budget does not hold it up.
	Unmeasured bool
}

// Take waits until a request may be begun. It returns false if the batch should end instead: soon is closed then. But a
// request of items before others that have been requested is begun: without their outcomes those would be lost.
func (a *Allowance) Take(soon <-chan struct{}, w Wanted) (*Request, bool) {
	r := &Request{of: a, items: len(w.Items), first: w.Items[0].Ordinal}
	if !a.limits() {
		return r, true
	}
	if !w.Unmeasured && !a.reserve(soon, r, w.Estimate) {
		return nil, false
	}
	if a.Paces() && !a.await(soon, r.schedule(w.Keys), r.first) || !a.begin(r.first) {
		r.giveBack()
		return nil, false
	}
	return r, true
}

// limits reports whether anything is limited, and Paces whether requests or tokens in a time are.
func (a *Allowance) limits() bool { return a.share.Cost > 0 || a.share.Tokens > 0 || a.Paces() }

// Paces is as it says there.
func (a *Allowance) Paces() bool { return a.share.Requests > 0 || a.share.TokenRate > 0 }

// begin notes that a request of the item has been begun. It returns false if it must not be, because there will be none
// of an item before it.
func (a *Allowance) begin(item int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if item > a.givenUp {
		return false
	}
	a.furthest = max(a.furthest, item)
	return true
}

// giveUp notes that there will be no request of the item. It returns false if there must be one, because an item behind
// it has been requested. The lock is held.
func (a *Allowance) giveUp(item int64) bool {
	if item < a.furthest {
		return false
	}
	a.givenUp = min(a.givenUp, item)
	return true
}

// reserve waits until the budget allows the request.
func (a *Allowance) reserve(soon <-chan struct{}, r *Request, estimate job.Usage) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		expected, known := a.expect(r.items, estimate)
		room := a.within(expected)
		allowed := room > 0 && (known || a.under == 0) || a.used.IsZero() && a.under == 0
		over := !allowed && (room < 0 || room == 0 && known && a.under == 0 || Closed(soon))
		if allowed || over && !a.giveUp(r.first) {
			r.reserved, r.held = expected, true
			a.reserved.Add(expected)
			a.under++
			return true
		}
		if over {
			a.full()
			return false
		}
		a.awaitChange(soon)
	}
}

// awaitChange waits, without the lock, until a request has ended, or soon is closed.
func (a *Allowance) awaitChange(soon <-chan struct{}) {
	changed := a.changed
	a.waits(1)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.waits(-1)
	}()
	select {
	case <-changed:
	case <-soon:
	}
}

// expect returns what a request of so many items will use. It is not known if a budget needs that, none has been
// answered, and nothing is estimated.
func (a *Allowance) expect(items int, estimate job.Usage) (expected job.Usage, known bool) {
	n := int64(items)
	switch {
	case a.answered > 0:
		return times(a.known.Per(a.answered), n), true
	case !a.share.Each.IsZero():
		return times(a.share.Each, n), true
	}
	return estimate, !estimate.IsZero() || a.share.Cost == 0 && a.share.Tokens == 0
}

func times(u job.Usage, n int64) job.Usage {
	return job.Usage{TokensIn: u.TokensIn * n, TokensOut: u.TokensOut * n, Cost: u.Cost * job.Money(n)}
}

// within returns how the share stands with so much more: 1 if it allows that, 0 if it is exceeded then, and -1 if what
// has been used has reached it already.
func (a *Allowance) within(more job.Usage) int {
	result := 1
	check := func(used, reserved, more, most int64) {
		switch {
		case most == 0:
		case used >= most:
			result = -1
		case used+reserved+more > most && result > 0:
			result = 0
		}
	}
	check(int64(a.used.Cost), int64(a.reserved.Cost), int64(more.Cost), int64(a.share.Cost))
	check(a.used.Tokens(), a.reserved.Tokens(), more.Tokens(), a.share.Tokens)
	return result
}

// Done ends the request, which has used so much. answered says that there was an answer, which would have said so: a
// request that has failed shows nothing of what others will use.
func (r *Request) Done(used job.Usage, answered bool) {
	a := r.of
	if a == nil {
		return
	}
	a.mu.Lock()
	if r.held {
		a.under--
		a.reserved = minus(a.reserved, r.reserved)
	}
	if answered || !used.IsZero() {
		a.answered += int64(r.items)
		a.known.Add(used)
	}
	for _, q := range r.quotas {
		q.tokens.correct(used.Tokens()/int64(len(r.quotas)) - r.tokens)
	}
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	a.spend(used)
}

// giveBack ends the request before it has begun: its turn is free.
func (r *Request) giveBack() {
	a := r.of
	a.mu.Lock()
	for i, q := range r.quotas {
		q.requests.giveBack(r.due[i])
	}
	a.mu.Unlock()
	r.Done(job.Usage{}, false)
}

// minus returns what is left of a.
func minus(a, b job.Usage) job.Usage {
	return job.Usage{
		TokensIn: a.TokensIn - b.TokensIn, TokensOut: a.TokensOut - b.TokensOut, TokensCached: a.TokensCached - b.TokensCached,
		Cost: a.Cost - b.Cost,
	}
}

// quota is what may be begun in a time, of all or for one value.
type quota struct{ requests, tokens bucket }

func (a *Allowance) newQuota(now time.Time) quota {
	return quota{
		requests: bucket{limit: a.share.Requests, next: now},
		tokens:   bucket{limit: a.share.TokenRate, next: now},
	}
}

const (
	// slack is how much time in which nothing was begun may be made up for. Turns that are made up for come by hurry
	// more often than the limit says.
	slack = time.Second
	hurry = 0.02
	// maxQuotas is how many values have their own quota at a time. Those that are free are forgotten first.
	maxQuotas = 10_000
)

// bucket hands out turns, one behind the other, as a limit allows. Its zero value has none.
type bucket struct {
	limit job.Rate       // a minute
	next  time.Time      // of the next turn
	last  time.Time      // before that it does not come, even if it is late
	free  map[int64]bool // turns that were given back while others behind them were taken, in Unix nanoseconds
}

// take returns when the next turn comes, which takes so many of what is limited, and when it was due: earlier, if it is
// late.
func (b *bucket) take(now time.Time, n int64) (at, due time.Time) {
	if b.limit == 0 {
		return now, now
	}
	due = later(b.next, now.Add(-slack))
	b.next = due.Add(b.time(n))
	at = later(later(due, b.last), now)
	b.last = at.Add(time.Duration(float64(b.time(n)) / (1 + hurry)))
	return at, due
}

// giveBack takes a turn of one back. It is the next one again once all behind it have been given back.
func (b *bucket) giveBack(due time.Time) {
	if b.limit == 0 {
		return
	}
	if b.free == nil {
		b.free = map[int64]bool{}
	}
	b.free[due.UnixNano()] = true
	for {
		before := b.next.Add(-b.time(1))
		if !b.free[before.UnixNano()] {
			return
		}
		delete(b.free, before.UnixNano())
		if b.next = before; b.last.After(before) {
			b.last = before
		}
	}
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// correct takes more, or gives some back.
func (b *bucket) correct(n int64) {
	if b.limit > 0 {
		b.next, b.last = b.next.Add(b.time(n)), b.last.Add(b.time(n))
	}
}

// time returns how long so many take.
func (b *bucket) time(n int64) time.Duration {
	return time.Duration(float64(n) / float64(b.limit) * 1000 * float64(time.Minute))
}

// schedule takes the request's turn from the quotas of its keys, or from that of all. It returns when that is.
func (r *Request) schedule(keys []string) (turn time.Time) {
	a := r.of
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	turn = now
	a.turns++
	r.quotas = a.quotas(now, keys)
	r.tokens = max(1, r.reserved.Tokens()/int64(len(r.quotas)))
	for _, q := range r.quotas {
		request, due := q.requests.take(now, 1)
		token, _ := q.tokens.take(now, r.tokens)
		turn, r.due = later(turn, later(request, token)), append(r.due, due)
	}
	return turn
}

// quotas returns those of the keys.
func (a *Allowance) quotas(now time.Time, keys []string) []*quota {
	if a.share.By == "" || len(keys) == 0 {
		return []*quota{&a.all}
	}
	if len(a.by) >= maxQuotas {
		for key, q := range a.by {
			if q.requests.next.Before(now) && q.tokens.next.Before(now) {
				delete(a.by, key)
			}
		}
	}
	if a.by == nil {
		a.by = map[string]*quota{}
	}
	quotas := make([]*quota, 0, 1)
	for _, key := range keys {
		q := a.by[key]
		if q == nil {
			fresh := a.newQuota(later(later(now, a.from), a.later[digestOf(key)]))
			q = &fresh
			a.by[key] = q
		}
		quotas = append(quotas, q)
	}
	return quotas
}

// maxGap is how long a batch that should end waits for the turn of an item before others that have been requested.
const maxGap = 5 * time.Second

// digestOf returns a digest of a value that limits hold by.
func digestOf(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // a hash takes anything
	return h.Sum32()
}

// await waits for the turn of an item. It returns false if soon is closed before, unless items behind it have been
// requested.
func (a *Allowance) await(soon <-chan struct{}, turn time.Time, item int64) bool {
	a.wait(1)
	defer a.wait(-1)
	if backoff.Wait(time.Until(turn), soon) {
		return true
	}
	a.mu.Lock()
	lost := time.Until(turn) > maxGap || a.giveUp(item)
	a.mu.Unlock()
	return !lost && backoff.Wait(time.Until(turn), nil)
}

// wait notes that one request more waits, or one fewer.
func (a *Allowance) wait(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits(n)
}

// waits is wait with the lock held.
func (a *Allowance) waits(n int) {
	if a.waiting == 0 {
		a.since = time.Now()
	}
	if a.waiting += n; a.waiting == 0 {
		a.waited += time.Since(a.since)
	}
}

// Waited returns for how long requests have waited for their turn: the time in which at least one did.
func (a *Allowance) Waited() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waited
}

// Next returns when the share's next turn comes, from now on; zero without limits.
func (a *Allowance) Next() wire.NextTurn {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.Paces():
		return wire.NextTurn{}
	case a.share.By == "":
		return wire.NextTurn{Turn: max(-slack, time.Until(a.all.last()))}
	}
	return a.nextByKey(time.Now())
}

// nextByKey is Next if limits hold by a field: the latest of the turns that are still to come, and for all other values
// the one after these.
func (a *Allowance) nextByKey(now time.Time) (next wire.NextTurn) {
	turns := maps.Clone(a.later)
	if turns == nil {
		turns = map[uint32]time.Time{}
	}
	for key, q := range a.by {
		turns[digestOf(key)] = q.last()
	}
	for key, at := range turns {
		if at.After(now) {
			next.Keys = append(next.Keys, wire.KeyTurn{Key: key, Turn: at.Sub(now)})
		}
	}
	slices.SortFunc(next.Keys, func(a, b wire.KeyTurn) int { return cmp.Or(cmp.Compare(b.Turn, a.Turn), cmp.Compare(a.Key, b.Key)) })
	if len(next.Keys) > wire.MaxKeyTurns {
		next.Turn = next.Keys[wire.MaxKeyTurns].Turn
		next.Keys = next.Keys[:wire.MaxKeyTurns]
	}
	return next
}

// Taken returns how many turns have been taken, and for how many values.
func (a *Allowance) Taken() (turns, values int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turns, int64(len(a.by))
}

// released is what is left of a share that another batch has, for requests that are made again.
const released = 10

// Release gives the share up: what is requested after that, because it has failed, comes ten times more rarely.
func (a *Allowance) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	slower := func(r *job.Rate) {
		if *r > 0 {
			*r = max(1, *r/released)
		}
	}
	slower(&a.share.Requests)
	slower(&a.share.TokenRate)
	for _, q := range append(slices.Collect(maps.Values(a.by)), &a.all) {
		slower(&q.requests.limit)
		slower(&q.tokens.limit)
	}
}

// Idle reports that no request waits for its turn.
func (a *Allowance) Idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting == 0
}

// last returns when the next turn comes.
func (q *quota) last() (at time.Time) {
	for _, b := range []*bucket{&q.requests, &q.tokens} {
		if b.limit > 0 {
			at = later(at, b.next)
		}
	}
	return at
}

// Spend counts what the call of which ctx is the context has used.
func Spend(ctx context.Context, u job.Usage) error {
	m := watchOf(ctx)
	if m == nil || m.limits.Allowance == nil {
		return ErrNoCall
	}
	m.limits.Allowance.Spend(u)
	return nil
}

// Take waits until the call may begin a request: see [Allowance.Take].
func (c *Call) Take(w Wanted) (*Request, bool) {
	m := c.lane.watch
	if m.limits.Allowance == nil {
		return &Request{}, true
	}
	began := time.Now()
	r, ok := m.limits.Allowance.Take(m.Soon, w)
	c.waited += time.Since(began)
	return r, ok
}

// takeTurn waits until the limits of requests allow another call. In a pipeline they are those of stages that make
// requests. It returns false if the batch should end instead.
func (c *Caller) takeTurn(items []Item) bool {
	a := c.Lane.watch.limits.Allowance
	if a == nil || !a.Paces() || c.Stage != "" || c.Handler.Traits().Requests {
		return true
	}
	_, ok := a.Take(c.Lane.watch.Soon, Wanted{Items: items, Keys: unkeyed, Unmeasured: true})
	return ok
}

// unkeyed are the keys of a call: its items may have any values.
var unkeyed = []string{""}

// LimitedBy returns the field whose values limits hold by; "": they hold for all items together.
func (c *Call) LimitedBy() string {
	if a := c.lane.watch.limits.Allowance; a != nil {
		return a.share.By
	}
	return ""
}

// Spend counts what the call has used.
func (c *Call) Spend(u job.Usage) {
	if a := c.lane.watch.limits.Allowance; a != nil {
		a.Spend(u)
	}
}
