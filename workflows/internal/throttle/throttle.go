// Package throttle holds the arithmetic of a job's rate: what remains of a handler's request to slow
// down, how many batches a rate needs in flight, and how fast a handler is. It is pure: workflows
// replay it, so it uses integers and no clock of its own.
package throttle

import (
	"math/bits"
	"time"

	"github.com/stint-run/stint/job"
)

// Slowed is the limit that follows a handler's request to slow down.
type Slowed struct {
	Base job.Rate  `json:"base,omitempty"` // at From; 0: no limit
	From time.Time `json:"from,omitzero"`  // nothing starts before
	// Halved is when the rate was last lowered.
	Halved time.Time `json:"halved,omitzero"`
}

const (
	// A lowered rate grows by a quarter of what it was lowered to every recoverEvery. At recovered times that,
	// twice the rate before, the limit ends. That takes a minute.
	recoverEvery = 5 * time.Second
	recoverBy    = 4
	recovered    = 4
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
	steps := job.Rate(max(0, now.Sub(s.From)) / recoverEvery)
	if steps >= (recovered-1)*recoverBy {
		return 0
	}
	return s.Base + s.Base*steps/recoverBy
}

// SlowDown applies a request to start nothing for a while. observed is the rate so far; 0 if nothing is
// done yet: then there is no rate to lower, and the request is a pause only.
func (s *Slowed) SlowDown(now time.Time, delay time.Duration, observed job.Rate) {
	until := now.Add(delay)
	if !until.After(s.From) {
		return
	}
	if s.Base != 0 && now.Sub(s.Halved) < onceIn {
		s.From = until
		return
	}
	rate := s.Rate(now)
	if rate == 0 {
		rate = observed
	}
	if rate > 0 {
		rate = max(minSlowed, rate/2)
	}
	*s = Slowed{Base: rate, From: until, Halved: now}
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
