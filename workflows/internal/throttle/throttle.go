// Package throttle holds the arithmetic of a job's rate: what remains of a handler's request to slow
// down, how many batches a rate needs in flight, and how fast a handler is. It is pure: workflows
// replay it, so it uses integers and no clock of its own.
package throttle

import (
	"math/bits"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Slowed is a [wire.Slowed] that can be computed with.
type Slowed wire.Slowed

// Of returns a limit as what computes with it: both are one object.
func Of(s *wire.Slowed) *Slowed { return (*Slowed)(s) }

const (
	// A lowered rate grows every recoverEvery: by a quarter of what it was lowered to, until it is, after a minute,
	// twice the rate that was refused. If no rate was known that is too high, it doubles instead, for half a minute.
	// Then the limit ends.
	recoverEvery = 5 * time.Second
	recoverBy    = 4
	recovered    = 12
	doublings    = 6
	// onceIn is how long further requests, of batches that were already running, do not lower the rate
	// again.
	onceIn = 5 * time.Second
	// minSlowed is the lowest rate that a request can lead to: an item in ten seconds.
	minSlowed = job.Rate(100)
	// minDelay and maxDelay bound the delay that a request asks for.
	minDelay = 100 * time.Millisecond
	maxDelay = time.Hour
)

// Delay bounds the delay that a handler asks for: 100 ms … 1 h.
func Delay(asked time.Duration) time.Duration { return max(minDelay, min(asked, maxDelay)) }

// Rate returns the limit at a time; 0: none.
func (s Slowed) Rate(now time.Time) job.Rate {
	if s.Base == 0 {
		return 0
	}
	steps := max(0, now.Sub(s.From)) / recoverEvery
	switch {
	case !s.Known && steps < doublings:
		return s.Base << steps
	case s.Known && steps < recovered:
		return s.Base + s.Base*job.Rate(steps)/recoverBy
	}
	return 0
}

// Next returns when the limit, if there is one, grows or ends.
func (s Slowed) Next(now time.Time) time.Time {
	return s.From.Add((max(0, now.Sub(s.From))/recoverEvery + 1) * recoverEvery)
}

// SlowDown applies a request to start nothing for a while, of a batch that began at some time: one that began before
// the rate was last lowered does not lower it again. observed is the rate so far; 0 if nothing is done yet: then there
// is no rate to lower, and the request is a wait only.
func (s *Slowed) SlowDown(now, began time.Time, delay time.Duration, observed job.Rate) {
	if s.First.IsZero() {
		s.First = now
	}
	until := now.Add(delay)
	if !until.After(s.From) {
		return
	}
	if s.Base != 0 && (now.Sub(s.Halved) < onceIn || s.Rate(now) > 0 && began.Before(s.Halved)) {
		s.From = until
		return
	}
	rate := s.Rate(now)
	known := rate > 0
	if !known {
		rate = observed
	}
	if rate > 0 {
		rate = max(minSlowed, rate/2)
	}
	*s = Slowed{Base: rate, From: until, Known: known, Halved: now, First: s.First}
}

// Needed returns how many batches must be in flight to reach a rate if an item takes so long: one more in
// ten than that, and 1 … window, or 1 if the window is empty.
func Needed(rate job.Rate, item time.Duration, window int) int {
	const perSecond = uint64(time.Second) * 1000 // thousandths of an item
	high, low := bits.Mul64(uint64(rate), uint64(max(0, item)))
	busy := low / perSecond
	if high > 0 || busy >= uint64(window) {
		return max(1, window)
	}
	return max(1, min(window, int((low/10*11+perSecond-1)/perSecond)))
}
