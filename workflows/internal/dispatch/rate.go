package dispatch

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// Every batch gets a pace, at which its worker starts items. The paces of all batches in flight add up to
// the limit at most, so it holds whatever the workers do. To make use of it, no more batches are in
// flight than that rate needs, by what one item has taken so far (Little's law): each of them then runs
// nearly as fast as its worker can.

// At is the limit of one of the legs at a time; 0: none.
func LimitAt(l wire.LegLimits, now time.Time) job.Rate {
	rate := l.Rate
	if s := throttle.Of(&l.Slowed).Rate(now); s > 0 && (rate == 0 || s < rate) {
		rate = s
	}
	if rate == 0 {
		return 0
	}
	return max(1, rate/job.Rate(max(1, l.Legs)))
}

// rateControl is what a dispatcher knows of the rate that it may work at.
type rateControl struct {
	limits   wire.LegLimits
	effort   wire.Speed // of the handler, without waits for its pace
	began    time.Time
	wakes    time.Time // when the pause ends for which a timer runs
	requests int       // to slow down, that the job has heard of
	quiet    time.Time // the job does not hear of requests before
}

// pacing is the share of the limit that the next batch gets; 0: no limit. ok is false if the batch has to
// wait: for the end of another batch, or of a pause.
func (d *Dispatcher) pacing() (pace job.Rate, ok bool) {
	now, r := workflow.Now(d.ctx), &d.rate
	if now.Before(r.limits.Slowed.From) {
		d.wakeAt(r.limits.Slowed.From)
		return 0, false
	}
	limit := LimitAt(r.limits, now)
	if limit == 0 {
		return 0, true
	}
	pace = max(1, limit/job.Rate(throttle.Needed(limit, r.effort.Each(), d.window.places)))
	if len(d.flying) == 0 {
		return pace, true
	}
	used := job.Rate(0)
	for _, t := range d.flying {
		if t.pace == 0 {
			return 0, false // it started before there was a limit
		}
		used += t.pace
	}
	if used+pace > limit && throttle.Of(&r.limits.Slowed).Rate(now) > 0 {
		return d.pacingLeft(limit, limit-used)
	}
	return pace, used+pace <= limit
}

// pacingLeft is the pace of the next batch while a lowered rate grows: batches in flight keep theirs, so the next one
// gets what has been added since, unless that is little.
func (d *Dispatcher) pacingLeft(limit, left job.Rate) (pace job.Rate, ok bool) {
	if left >= max(1, limit/8) {
		return left, true
	}
	d.wakeAt(throttle.Of(&d.rate.limits.Slowed).Next(workflow.Now(d.ctx)))
	return 0, false
}

// wakeAt has run look again at a time.
func (d *Dispatcher) wakeAt(at time.Time) {
	if at.Equal(d.rate.wakes) {
		return
	}
	d.rate.wakes = at
	timer := workflow.NewTimer(d.batches, at.Sub(workflow.Now(d.ctx)))
	d.selector.AddFuture(timer, func(workflow.Future) {})
}

// slowDown applies the request of a batch's handler to slow down. The leg pauses at once; the job sets
// the rate. Of batches that ask at about the same time, one is reported. Each report costs the job some
// ten events, and it cannot continue as new before its legs have ended. So the n-th is sent no sooner
// than n² milliseconds after the one before: 640 of them in a day, 2,000 in a month. Meanwhile the leg
// sets the rate itself.
func (d *Dispatcher) slowDown(t task, asked time.Duration) {
	d.sofar.Totals.SlowDowns++
	now, r := workflow.Now(d.ctx), &d.rate
	delay := throttle.Delay(asked)
	until := now.Add(delay)
	if until.Sub(r.limits.Slowed.From) < delay/2 {
		return
	}
	observed := wire.Per(d.sofar.Totals.Done()-d.Config.Sofar.Totals.Done(), now.Sub(r.began))
	request := wire.SlowDownRequest{Delay: delay, Began: t.started, Observed: observed}
	if now.Before(r.quiet) {
		throttle.Of(&r.limits.Slowed).SlowDown(now, t.started, delay, request.OfAll(r.limits.Legs))
		return
	}
	r.requests++
	r.quiet = now.Add(time.Duration(r.requests*r.requests) * time.Millisecond)
	r.limits.Slowed.From = until
	d.Link.SlowDown(request)
}

// SetLimits applies new limits.
func (d *Dispatcher) SetLimits(l wire.LegLimits) {
	if l.Ask {
		l.Ask = false
		d.answerCounts()
	}
	if l.Number < d.rate.limits.Number {
		return // they have been overtaken
	}
	d.rate.limits = l
	d.report.set(l.Report)
	d.Wake()
}
