// Package tuning finds out how many calls a slot should make at once: as many as the throughput grows for, and fewer
// if the handler asks to slow down. It has no goroutine and no clock of its own: everything happens when a call begins
// or ends.
//
//   - Climbing: from 1 on the limit is multiplied by 4 for as long as the throughput grows. The first time that it does
//     not, the throughputs say how many calls were of use, and the limit goes there.
//   - Holding and trying: now and then it tries twice or 1.5 times as many calls, or 1.5 times as few, and keeps the
//     new limit if the throughput is higher, or no lower. Each vain try doubles the time until the next one.
//   - Recovering: a slow-down request halves the limit, once for each round trip. After every round of calls without a
//     request it goes half of the way back towards the limit that was refused, and then tries no more calls for a
//     while.
//
// Nothing is concluded from a time in which the places were not in use.
package tuning

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxCalls is the most calls that a slot makes at once, and maxAll those of all slots together, unless there are
	// more slots.
	MaxCalls = 1000
	maxAll   = 10_000

	climbBy  = 4   // the factor of each step of a climb
	foreseen = 256 // calls at once that a climb may need: a slot should have items for them
	headroom = 1.2 // beyond the calls that were of use: a queue never runs dry then
	tryBy    = 1.5 // the factor of a try; that of the first one is 2
	pays     = 0.3 // a try with more calls is kept if the throughput grows with this power of the limit, or a higher one
	idles    = 0.2 // a try with fewer is kept if the throughput falls with this power, or a lower one
	certain  = 2   // the standard errors of a difference that is not due to chance

	leastPause = time.Second // between tries
	mostPause  = 8 * time.Second
	avoid      = 30 * time.Second // before more calls are tried once some were refused

	// A limit is measured for that many rounds of calls in all places, or until its evidence is enough: the more, the
	// less the limits differ.
	leastRounds = 4
	mostRounds  = 24
	enoughCalls = 50
	climbCalls  = 12 // fewer calls do not end a climb

	// A limit is in use if this share of its places are, at least: between two calls a place is not.
	inUse = 0.75
	// failedCount is what a failed item counts. Items that fail are no throughput, but a handler that fails for all of
	// them should not make one call at a time.
	failedCount = 0.02
)

// Tuner is the number of calls that each of a worker's slots makes at once. It is safe for concurrent use.
type Tuner struct {
	most  int
	now   func() time.Time
	limit atomic.Int64

	mu     sync.Mutex
	at     time.Time // of the last event
	slots  int       // that have batches
	calls  int       // in hand
	window window    // of the present limit
	base   window    // of the limit before the present try, or of the one that is held
	phase  phase

	up     bool // the next try is with more calls
	factor float64
	pause  time.Duration // between tries
	next   time.Time

	refused int       // the limit that was refused last
	until   time.Time // before which no more calls are tried
	deaf    time.Time // requests of calls that began before are about an earlier limit
}

type phase int

const (
	climbing phase = iota
	holding
	trying
	recovering
)

// Call is a call that has ended.
type Call struct {
	Took   time.Duration
	Items  int // with an outcome
	Failed int // those of them that have failed
	// SlowDown says that the handler has asked to slow down.
	SlowDown bool
}

// window is a time in which one limit is measured.
type window struct {
	limit    int
	open     bool    // the places have been in use
	calls    int     // that have ended
	items    float64 // with what failed ones count
	occupied float64 // seconds of slots that had batches
	inHand   float64 // seconds of calls
	squares  float64 // of the seconds of the calls that have ended
}

// evidence returns the number of calls that would show as much as those that have ended, if their times were
// exponential.
func (w window) evidence() float64 {
	n := float64(w.calls)
	return n / max(0.05, n*w.squares/w.inHand/w.inHand-1)
}

// New returns the Tuner of a worker with so many slots. It begins with one call at once. now is the clock.
func New(slots int, now func() time.Time) *Tuner {
	t := &Tuner{
		most: max(1, min(MaxCalls, maxAll/max(1, slots))), now: now, at: now(),
		up: true, factor: climbBy, pause: leastPause,
	}
	t.set(1)
	return t
}

// Limit returns how many calls a slot may make at once: 1 … Most.
func (t *Tuner) Limit() int { return int(t.limit.Load()) }

// Most returns the highest value of Limit.
func (t *Tuner) Most() int { return t.most }

// Expected is for how many calls at once a slot should have items: more than Limit while that grows quickly.
func (t *Tuner) Expected() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch limit := t.Limit(); t.phase {
	case climbing:
		return min(t.most, max(climbBy*limit, foreseen))
	case recovering:
		return max(limit, t.refused)
	default:
		return limit
	}
}

// Occupied notes that more slots have batches than before, or fewer.
func (t *Tuner) Occupied(more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	t.slots += more
}

// Began notes the beginning of a call.
func (t *Tuner) Began() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	t.calls++
	t.open()
}

// Ended notes the end of a call. It reports whether the limit has changed.
func (t *Tuner) Ended(c Call) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	t.calls--
	w, limit := &t.window, t.window.limit
	if c.SlowDown {
		t.slowDown(t.at.Add(-c.Took))
		return w.limit != limit
	}
	w.calls++
	w.squares += c.Took.Seconds() * c.Took.Seconds()
	w.items += float64(c.Items) - (1-failedCount)*float64(c.Failed)
	t.open()
	// At the end of a round of calls in all places, those that began together have all ended.
	if w.open && w.calls >= 3 && w.calls%t.places() == 0 {
		if w.inHand <= inUse*w.occupied*float64(limit) {
			t.window = window{limit: limit}
		} else {
			t.judge(*w, w.calls/t.places())
		}
	}
	return w.limit != limit
}

// advance brings the sums up to the present.
func (t *Tuner) advance() {
	now := t.now()
	seconds := now.Sub(t.at).Seconds()
	t.at = now
	t.window.occupied += seconds * float64(t.slots)
	t.window.inHand += seconds * float64(t.calls)
}

// places returns those of all slots that have batches.
func (t *Tuner) places() int { return max(1, t.slots) * t.window.limit }

// open begins the measurement once the limit's places are in use.
func (t *Tuner) open() {
	if !t.window.open && t.slots > 0 && float64(t.calls) >= inUse*float64(t.places()) {
		t.window = window{limit: t.window.limit, open: true}
	}
}

// set changes the limit, and begins to measure it.
func (t *Tuner) set(limit int) {
	t.window = window{limit: max(1, min(t.most, limit))}
	t.limit.Store(int64(t.window.limit))
}

// judge takes in what has been measured with the present limit in some rounds.
func (t *Tuner) judge(w window, rounds int) {
	far := math.Log(t.factor)
	enough := rounds >= leastRounds && (w.evidence() >= enoughCalls/(far*far) || rounds >= mostRounds)
	switch {
	case t.phase == recovering && w.limit < t.refused-max(1, t.refused/8):
		t.set((w.limit + t.refused) / 2)
	case t.phase == recovering:
		t.hold(w.limit)
	case t.phase == climbing && t.base.limit == 0:
		t.base = w
		t.begin()
	case t.phase == climbing || t.phase == trying && rounds >= leastRounds:
		t.try(w, enough)
	case t.phase == holding && enough:
		t.base, t.window = w, window{limit: w.limit}
		if !t.at.Before(t.next) {
			t.begin()
		}
	}
}

// try keeps the limit if it is sure that it is better, or has enough evidence.
func (t *Tuner) try(w window, enough bool) {
	by := math.Log(float64(w.limit) / float64(t.base.limit))
	grew := math.Log(w.items/w.occupied*t.base.occupied/t.base.items) / by
	noise := certain * math.Sqrt(1/w.evidence()+1/t.base.evidence()) / math.Abs(by)
	better, climbs := grew-pays, t.phase == climbing
	if !t.up {
		better = idles - grew
	}
	switch {
	// A climb that has gone too far is noticed later.
	case better >= noise, climbs && better >= noise/2, enough && (better >= 0 || climbs && t.base.calls < climbCalls):
		t.base, t.pause = w, leastPause
		t.begin()
	case enough && climbs:
		useful := float64(t.base.limit) * math.Exp(grew*by) * headroom
		t.base.limit = max(t.base.limit, min(w.limit, int(useful)))
		t.vain()
	case enough, better < -noise && !climbs:
		t.vain()
	}
}

// begin tries another limit than that of the base.
func (t *Tuner) begin() {
	limit := t.base.limit
	other := max(1, min(limit-1, int(float64(limit)/t.factor)))
	if t.up {
		other = min(t.most, max(limit+1, int(float64(limit)*t.factor)))
	}
	if other == limit || t.up && t.at.Before(t.until) {
		t.vain()
		return
	}
	if t.phase != climbing {
		t.phase = trying
	}
	t.set(other)
}

// vain ends a try that is not kept. The next one is in the other direction, after a longer pause.
func (t *Tuner) vain() {
	t.hold(t.base.limit)
	if t.factor > tryBy {
		t.factor = max(tryBy, math.Sqrt(t.factor)) // the first tries after a climb go on in its direction
		return
	}
	t.up, t.pause = !t.up, min(2*t.pause, mostPause)
}

// hold stays with a limit for a while.
func (t *Tuner) hold(limit int) {
	t.phase, t.next = holding, t.at.Add(t.pause)
	t.set(limit)
}

// slowDown takes in a slow-down request of a call that began at some time.
func (t *Tuner) slowDown(began time.Time) {
	limit := t.window.limit
	if began.Before(t.deaf) || limit == 1 {
		return
	}
	// What is in hand now may still be too much for as long as a call takes.
	t.deaf = t.at.Add(time.Duration(t.base.inHand / float64(t.base.calls) * float64(time.Second)))
	t.phase, t.refused, t.until = recovering, limit, t.at.Add(avoid)
	t.pause, t.up, t.factor = leastPause, true, tryBy
	t.set(limit / 2)
}
