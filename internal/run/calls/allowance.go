package calls

import (
	"context"
	"math"
	"sync"
	"time"

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
	released bool                 // another batch has the share

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
	a.later = map[uint32]time.Time{}
	for _, k := range a.share.First.Keys.All() {
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

// limits reports whether anything is limited.
func (a *Allowance) limits() bool { return a.share.Cost > 0 || a.share.Tokens > 0 || a.Paces() }

// Paces reports whether requests, or tokens, in a time are limited.
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
	defer func() { c.waited += time.Since(began) }()
	return m.limits.Allowance.Take(m.Soon, w)
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

// Limited reports whether anything limits requests: otherwise [Call.Take] needs to know nothing of them.
func (c *Call) Limited() bool {
	a := c.lane.watch.limits.Allowance
	return a != nil && a.limits()
}

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
