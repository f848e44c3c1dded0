package calls

import (
	"hash/fnv"
	"maps"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// An execution's share of the limits of its job, as turns that requests take: one behind the other, at even distances.

// quota is what may be begun in a time, of all or for one value.
type quota struct{ requests, tokens bucket }

// newQuota returns a quota whose first turn comes at a time. The lock is held.
func (a *Allowance) newQuota(first time.Time) quota {
	q := quota{requests: bucket{limit: a.share.Requests, next: first}, tokens: bucket{limit: a.share.TokenRate, next: first}}
	if a.released {
		q.slow()
	}
	return q
}

// slow has turns come ten times more rarely.
func (q *quota) slow() {
	for _, b := range []*bucket{&q.requests, &q.tokens} {
		if b.limit > 0 {
			b.limit = max(1, b.limit/10)
		}
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
	return h.Sum32() % wire.Keys
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

// nextByKey is Next if limits hold by a field: the turns that are still to come.
func (a *Allowance) nextByKey(now time.Time) wire.NextTurn {
	turns := maps.Clone(a.later)
	for key, q := range a.by {
		turns[digestOf(key)] = later(turns[digestOf(key)], q.last())
	}
	keys := make([]wire.KeyTurn, 0, len(turns))
	for key, at := range turns {
		keys = append(keys, wire.KeyTurn{Key: key, Turn: at.Sub(now)})
	}
	return wire.NextTurns(max(0, a.from.Sub(now)), keys, wire.MaxKeyTurns)
}

// Taken returns how many turns have been taken, and for how many values.
func (a *Allowance) Taken() (turns, values int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turns, int64(len(a.by))
}

// Release gives the share up, once: requests that are made again after that come ten times more rarely.
func (a *Allowance) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = true
	a.all.slow()
	for _, q := range a.by {
		q.slow()
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
