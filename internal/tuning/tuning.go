// Package tuning finds out how many calls a slot should make at once: as many as the throughput grows for, and fewer if
// the handler asks to slow down. tuning.go is the state machine, measure.go what it measures. It has no goroutine
// and no clock of its own: everything happens when a call begins or ends.
//
// What it compares is a slot's throughput with one number of calls at once and with another. By Little's law that is
// the calls in hand divided by the time that an item takes, which is known as soon as about as many calls as there are
// places have ended. Counting what ends within a time takes several times as long, because calls that begin together end
// together.
//
//   - Climbing: from 1 on the number is multiplied by 4 for as long as the throughput grows by most of that. The first
//     time that it does not, the measurements say how many calls were of use, and it goes there.
//   - Holding: now and then it tries somewhat more calls, or somewhat fewer, and keeps that number if the throughput is higher, or
//     no lower. Each vain try doubles the time until the next one.
//   - Recovering: a slow-down request halves the number, once for each round trip. After every round of calls without
//     a request it goes half of the way back towards the number that was refused, and then stays below that for a while.
//
// Nothing is concluded from a time in which the places were not in use.
package tuning

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxCalls is the most calls that a slot makes at once, and maxAll those of all slots together, unless there are more slots.
	MaxCalls = 1000
	maxAll   = 10_000

	climbBy  = 4   // the factor of each step of a climb
	foreseen = 256 // calls at once that a climb may need: a slot should have items for them
	scales   = 0.6 // a climb goes on if the throughput grows with this power of the number, or a higher one
	pays     = 0.4 // a try with more calls is kept, likewise
	idles    = 0.2 // a try with fewer is kept if the throughput falls with this power, or a lower one
	headroom = 1.1 // beyond the calls that were of use: a queue never runs dry then
	tryBy    = 1.5 // the factor of the first try
	hasten   = 1.4 // by which the factor grows if it was kept
	mostTry  = 3   // the highest factor
	boldBy   = 2   // the factor once the throughput has changed by itself
	drift    = 0.2 // in the logarithm of the throughput: it has changed

	leastPause = 500 * time.Millisecond // between tries
	mostPause  = 8 * time.Second
	leastAvoid = 10 * time.Second // before a number that was refused is tried again
	mostAvoid  = 5 * time.Minute

	// For how many rounds of calls a limit is measured at most, if single calls differ much.
	climbRounds = 4
	holdRounds  = 16
	tryRounds   = 24
	// With few calls at once it takes more rounds until so many calls have ended.
	enoughCalls = 300
	mostRounds  = 100
	// The fewest calls that show anything, if they differ.
	climbCalls = 12
	tryCalls   = 20
)

// Tuner is the number of calls that each of a worker's slots makes at once. It is safe for concurrent use.
type Tuner struct {
	most  int
	now   func() time.Time
	limit atomic.Int64

	mu     sync.Mutex
	phase  phase
	use    use
	window window // of the present limit
	base   sample // with the limit before the present try or step, or with the one that is held; zero: not measured

	// Tries.
	up     bool // the next one is with more calls
	factor float64
	pause  time.Duration // before the next one
	next   time.Time     // when that is

	// Slow-down requests.
	refused int // the least number that was refused of late; 0: none
	avoid   time.Duration
	until   time.Time // before which refused is not tried again
	deaf    time.Time // requests of calls that began before are about an earlier number
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
	Items  int  // with an outcome
	Failed int  // those of them that have failed
	Cut    bool // it came to its end before its last item because its batch had to end
	// SlowDown says that the handler has asked to slow down.
	SlowDown bool
}

// New returns the Tuner of a worker with so many slots. It begins with one call at once. now is the clock.
func New(slots int, now func() time.Time) *Tuner {
	t := &Tuner{
		most: max(1, min(MaxCalls, maxAll/max(1, slots))), now: now,
		up: true, factor: tryBy, pause: leastPause, avoid: leastAvoid,
	}
	t.set(1)
	return t
}

// Limit is how many calls a slot may make at once: 1 … Most.
func (t *Tuner) Limit() int { return int(t.limit.Load()) }

// Most is the highest value of Limit.
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
	t.use.advance(t.now())
	t.use.slots += more
}

// Began notes the beginning of a call.
func (t *Tuner) Began() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.use.advance(now)
	t.use.calls++
	t.window.began(now)
	t.window.open(t.use, t.Limit())
}

// Ended notes the end of a call. It reports whether the limit has changed.
func (t *Tuner) Ended(c Call) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, limit := t.now(), t.Limit()
	t.use.advance(now)
	t.use.calls--
	t.window.ended(now, c)
	t.window.open(t.use, limit)
	if c.SlowDown {
		t.slowDown(now, now.Add(-c.Took))
	} else if s, ok := t.window.sample(t.use, limit); ok {
		t.judge(now, s)
	}
	return t.Limit() != limit
}

// judge takes in what has been measured with the present limit so far.
func (t *Tuner) judge(now time.Time, s sample) {
	switch t.phase {
	case climbing:
		t.climb(now, s)
	case holding:
		t.hold(now, s)
	case trying:
		t.try(now, s)
	case recovering:
		t.recover(now, s)
	}
}

// set changes the limit, and begins to measure it.
func (t *Tuner) set(limit int) {
	t.limit.Store(int64(max(1, min(t.most, limit))))
	t.window = window{from: t.now()}
}

// climb goes on unless it is sure that the throughput does not grow: a climb that has gone too far is noticed later.
func (t *Tuner) climb(now time.Time, s sample) {
	if t.base.limit > 0 {
		switch s.grew(t.base, scales) {
		case unsure:
			if s.rounds < climbRounds {
				return
			}
		case stays:
			if s.long > 0.05 && s.rounds < 2 {
				return // most have not ended
			}
			if few := min(s.calls, t.base.calls); few < climbCalls && max(s.noise, t.base.noise) > 0.05 {
				if s.rounds < climbRounds {
					return
				}
				break // so few that differ show nothing
			}
			useful := float64(t.base.limit) * s.rate / t.base.rate * headroom
			t.holdAt(now, max(t.base.limit, min(s.limit, int(useful))))
			return
		}
	}
	t.base = s
	if s.limit == t.most {
		t.holdAt(now, s.limit)
		return
	}
	t.set(s.limit * climbBy)
}

// holdAt stays with a number.
func (t *Tuner) holdAt(now time.Time, limit int) {
	t.phase, t.next = holding, now.Add(t.pause)
	t.set(limit)
}

// hold measures the number that is held, time and again, and tries others.
func (t *Tuner) hold(now time.Time, s sample) {
	if s.noise > 0.02 && s.rounds < mostRounds && (s.rounds < holdRounds || s.calls < enoughCalls) || s.rounds < holdRounds/4 {
		return
	}
	if t.base.limit == s.limit && s.differs(t.base) {
		t.pause, t.next, t.factor = leastPause, now, boldBy
		t.up = s.failed <= t.base.failed+0.05
	}
	t.base = s
	t.window = window{from: now}
	if !now.Before(t.next) {
		t.begin(now)
	}
}

// begin tries another number than that of the base.
func (t *Tuner) begin(now time.Time) {
	limit := t.base.limit
	other := max(1, min(limit-1, int(float64(limit)/t.factor)))
	if t.up {
		other = min(t.most, max(limit+1, int(float64(limit)*t.factor)))
		if t.refused > 0 && other >= t.refused {
			other = t.refused // to see whether it still is
			if now.Before(t.until) {
				other--
			}
			other = max(other, limit)
		}
	}
	if other == limit {
		t.vain(now)
		return
	}
	t.phase = trying
	t.set(other)
}

// vain ends a try that is not kept. The next one is in the other direction, after a longer pause.
func (t *Tuner) vain(now time.Time) {
	t.holdAt(now, t.base.limit)
	t.up, t.factor, t.pause = !t.up, tryBy, min(2*t.pause, mostPause)
}

// try keeps the number only if it is sure that it is better.
func (t *Tuner) try(now time.Time, s sample) {
	if s.rounds < tryRounds && (s.calls < tryCalls || s.rounds < 1.5 || s.long > 0.2) {
		return
	}
	power, better := pays, grows
	if !t.up {
		power, better = idles, stays
	}
	switch is := s.grew(t.base, power); {
	case is == better:
		if s.limit >= t.refused {
			t.refused, t.avoid = 0, leastAvoid
		}
		t.base, t.pause, t.factor = s, leastPause, min(t.factor*hasten, mostTry)
		t.begin(now)
	case is != unsure || s.rounds >= tryRounds && s.calls >= enoughCalls || s.rounds >= mostRounds:
		t.vain(now)
	}
}

// slowDown takes in a slow-down request of a call that began at some time.
func (t *Tuner) slowDown(now, began time.Time) {
	limit := t.Limit()
	if began.Before(t.deaf) || limit == 1 {
		return
	}
	if t.phase == trying && t.refused > 0 && limit >= t.refused {
		t.avoid = min(2*t.avoid, mostAvoid)
	}
	// What is in hand now may still be too much for as long as a call takes.
	t.deaf = now.Add(max(t.base.call, t.window.call()))
	t.phase, t.refused, t.until = recovering, limit, now.Add(t.avoid)
	t.pause, t.factor = leastPause, tryBy
	t.set(limit / 2)
}

func (t *Tuner) recover(now time.Time, s sample) {
	if t.refused-s.limit <= max(1, t.refused/8) {
		t.base = s
		t.holdAt(now, s.limit)
		return
	}
	t.set((s.limit + t.refused) / 2)
}
