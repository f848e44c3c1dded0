package workflows

import (
	"math/bits"
	"time"

	"github.com/stint-run/stint/job"
	"go.temporal.io/sdk/workflow"
)

// A job's rate is limited by its settings, and for a while by its handler, where that asks for less.
//
// Every batch is given a pace, at which its worker begins items. The paces of all batches in flight
// add up to the limit at most, so it holds whatever the workers do. To make use of it, no more
// batches are in flight than are needed at that rate with what one item has taken so far (Little's
// law): each of them then goes nearly as fast as its worker can. While there is a limit, no leg is
// begun before the one before it has ended; two that are open already share it.

// limits are those of a leg.
type limits struct {
	Rate   job.Rate  `json:"rate,omitempty"` // of the settings; 0: none
	Slowed slowed    `json:"slowed,omitzero"`
	Legs   int       `json:"legs,omitempty"` // that share them
	Watch  watchword `json:"watch,omitzero"`
	// Ask, where it is set, has the leg tell of its counts at once.
	Ask bool `json:"ask,omitempty"`
}

// slowed is the limit that follows a handler's wish to slow down.
type slowed struct {
	Base job.Rate  `json:"base,omitempty"` // at From; 0: no limit
	From time.Time `json:"from,omitzero"`  // nothing is begun before
	// Halved is when the rate was last lowered.
	Halved time.Time `json:"halved,omitzero"`
}

const (
	// A lowered rate grows by half every recoverEvery, until it is recovered times what it was lowered
	// to; then there is none any more. That takes half a minute.
	recoverEvery = 5 * time.Second
	recovered    = 8
	// onceIn is how long the wishes of batches that were under way already do not lower it again.
	onceIn = 5 * time.Second
	// minSlowed is the least that a rate is lowered to: an item in ten seconds.
	minSlowed = job.Rate(100)
	// A wish for less than minDelay, or more than maxDelay, is taken for that.
	minDelay = 100 * time.Millisecond
	maxDelay = time.Hour
)

// rate is the limit at a time; 0: none.
func (s slowed) rate(now time.Time) job.Rate {
	if s.Base == 0 {
		return 0
	}
	rate := s.Base
	for t := s.From.Add(recoverEvery); !t.After(now); t = t.Add(recoverEvery) {
		if rate += rate/2 + 1; rate >= recovered*s.Base {
			return 0
		}
	}
	return rate
}

// slow takes in a wish to begin nothing for a while, of a handler that has done observed so far: 0
// where nothing is done yet, and so no rate is known that could be lowered.
func (s *slowed) slow(now time.Time, delay time.Duration, observed job.Rate) {
	if until := now.Add(delay); until.After(s.From) {
		if s.Base != 0 && now.Sub(s.Halved) < onceIn {
			s.From = until
			return
		}
		rate := s.rate(now)
		if rate == 0 {
			rate = observed
		}
		if rate > 0 {
			rate = max(minSlowed, rate/2)
		}
		*s = slowed{Base: rate, From: until, Halved: now}
	}
}

// at is the limit of one of the legs at a time; 0: none.
func (l limits) at(now time.Time) job.Rate {
	rate := l.Rate
	if s := l.Slowed.rate(now); s > 0 && (rate == 0 || s < rate) {
		rate = s
	}
	if rate == 0 {
		return 0
	}
	return max(1, rate/job.Rate(max(1, l.Legs)))
}

// needed is how many batches must be in flight for a rate, where an item takes so long: one more
// in ten, so that it is reached.
func needed(rate job.Rate, item time.Duration, window int) int {
	const perSecond = uint64(time.Second) * 1000 // thousandths of an item
	high, low := bits.Mul64(uint64(rate), uint64(max(0, item)))
	busy := low / perSecond
	if high > 0 || busy >= uint64(window) {
		return max(1, window)
	}
	return max(1, min(window, int((low/10*11+perSecond-1)/perSecond)))
}

// pacing is the share of the leg's limit that the next batch gets; 0: no limit. ok is false where it
// has to wait: for the end of another batch, or of a pause.
func (l *leg) pacing() (pace job.Rate, ok bool) {
	now := workflow.Now(l.ctx)
	if now.Before(l.limits.Slowed.From) {
		l.wakeAt(l.limits.Slowed.From)
		return 0, false
	}
	limit := l.limits.at(now)
	if limit == 0 {
		return 0, true
	}
	pace = max(1, limit/job.Rate(needed(limit, l.effort.each(), l.window)))
	if len(l.flying) == 0 {
		return pace, true
	}
	used := job.Rate(0)
	for _, t := range l.flying {
		if t.pace == 0 {
			return 0, false // it was begun before there was a limit
		}
		used += t.pace
	}
	return pace, used+pace <= limit
}

// wakeAt has run look again at a time.
func (l *leg) wakeAt(at time.Time) {
	if at.Equal(l.wakes) {
		return
	}
	l.wakes = at
	timer := workflow.NewTimer(l.batches, at.Sub(workflow.Now(l.ctx)))
	l.selector.AddFuture(timer, func(workflow.Future) {})
}

// slowDown takes in that a batch's handler has asked for less. The leg pauses at once; the job sets
// the rate. Of the batches that ask at about the same time, one is told. Each time costs the job some
// ten events, and it cannot continue as new before its legs have ended. So the n-th is told no sooner
// than n² milliseconds after the one before: 640 of them in a day, 2,000 in a month. Meanwhile the leg
// sets the rate itself.
func (l *leg) slowDown(delay time.Duration) {
	l.result.Totals.SlowDowns++
	delay = max(minDelay, min(delay, maxDelay))
	now := workflow.Now(l.ctx)
	until := now.Add(delay)
	if until.Sub(l.limits.Slowed.From) < delay/2 {
		return
	}
	wish := slowWish{Delay: delay, Observed: l.observed(now)}
	if now.Before(l.tellSlow) {
		l.limits.Slowed.slow(now, delay, wish.ofAll(l.limits.Legs))
		return
	}
	l.wishes++
	l.tellSlow = now.Add(time.Duration(l.wishes*l.wishes) * time.Millisecond)
	l.limits.Slowed.From = until
	l.onSlow(wish)
}

// items is how many items the next execution does; 0: all.
func (t *task) items() int64 {
	take := t.take()
	if t.Portion > 0 && (take == 0 || t.Portion < take) {
		return t.Portion
	}
	return take
}

// portion decides what comes of a task whose execution has done so many items: a handler that asked for
// less before it had done one gets half of them the next time. Otherwise it might never get on: a call
// that is too large for it comes again whole.
func (t *task) portion(done int64, slowDown time.Duration) {
	switch {
	case done > 0 && 2*t.Portion < t.Count:
		t.Portion *= 2
	case done > 0:
		t.Portion = 0
	case slowDown > 0:
		had := t.items()
		if had == 0 {
			had = t.Count
		}
		t.Portion = max(1, had/2)
	}
}

// observed is the leg's rate so far.
func (l *leg) observed(now time.Time) job.Rate {
	return job.Per(l.result.Totals.Done()-l.in.Sofar.Totals.Done(), now.Sub(l.began))
}

// slowWish is what a leg tells the job of a handler's wish.
type slowWish struct {
	Delay    time.Duration `json:"delay"`
	Observed job.Rate      `json:"observed"`
}

// ofAll is what a job of so many legs has done of late, for all that one of them knows.
func (w slowWish) ofAll(legs int) job.Rate {
	return min(w.Observed, job.MaxRate) * job.Rate(max(1, legs))
}

// receiveLimits takes in what has arrived: the last word counts.
func (l *leg) receiveLimits() {
	var told limits
	for l.control.limits.ReceiveAsync(&told) {
		l.setLimits(told)
		told = limits{}
	}
}

func (l *leg) setLimits(told limits) {
	if told.Ask {
		told.Ask = false
		l.answer()
	}
	l.limits = told
	l.watch = told.Watch.watch()
	l.wake.SendAsync(nil)
}

// limits are what legs are told.
func (j *jobRun) limits() limits {
	return limits{Rate: j.spec().JobRate, Slowed: j.state.Slowed, Legs: max(1, len(j.legs)), Watch: j.watchword()}
}

// limited reports whether the job's rate is limited.
func (j *jobRun) limited() bool { return j.limits().at(workflow.Now(j.ctx)) > 0 }

// slow takes in a leg's wish.
func (j *jobRun) slow(wish slowWish) {
	j.state.Slowed.slow(workflow.Now(j.ctx), wish.Delay, wish.ofAll(len(j.legs)))
	j.tellLimits()
}

// tellLimits tells every leg of its limits.
func (j *jobRun) tellLimits() {
	told := j.limits()
	for _, l := range j.legs {
		if l.inline != nil {
			l.inline.setLimits(told)
			continue
		}
		j.signal(l, signalLimits, told, func() {})
	}
}

// throttle tells people of a lowered rate, or of a pause; nil where there is none.
func (j *jobRun) throttle() *job.Throttle {
	now, s := workflow.Now(j.ctx), j.state.Slowed
	rate := s.rate(now)
	if rate == 0 && !now.Before(s.From) {
		return nil
	}
	return &job.Throttle{Rate: rate, Until: s.From}
}
