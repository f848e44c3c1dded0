package dispatch

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/throttle"
)

// window is a leg's share of the job's window: how many batches it may have in flight.
type window struct {
	places   int  // negative: the job's window has become smaller, and what is in flight has to end first
	last     bool // no other leg has a use for places
	handed   int  // how often places were handed back since some were granted
	share    int  // least number of places worth that
	underWay int  // hand-backs that have not been delivered
}

// MaxHandBacks is how often at most a leg hands places back to the job, for each time that it was granted some.
const MaxHandBacks = 4

// granted adds places; a negative number means that the job's window has shrunk.
func (w *window) granted(places int) {
	w.places += places
	if places > 0 {
		w.handed, w.share = 0, 0
	}
}

// Grant adds places; a negative number takes some away, as batches end.
func (d *Dispatcher) Grant(places int) {
	d.window.granted(places)
	d.Wake()
}

// KeepPlaces has the dispatcher hand back no more places: no other leg has a use for them.
func (d *Dispatcher) KeepPlaces() { d.window.last = true }

// Places takes the grants that have arrived, and returns how many places of the window the dispatcher holds.
func (d *Dispatcher) Places() int {
	d.receiveGrants()
	return d.window.places
}

// handBack gives places that this leg has no more batches for to the job, in at most MaxHandBacks portions: first what
// is free when the batches run out, then a quarter of what is in flight at a time. The job has all that it holds at its
// end.
func (d *Dispatcher) handBack() {
	w := &d.window
	if w.last || d.Halted() || !d.Supply.Ended() || d.waiting() > 0 || len(d.delayed) > 0 || len(d.flying) == 0 || w.handed == MaxHandBacks {
		return
	}
	if w.share == 0 {
		w.share = max(1, (len(d.flying)+MaxHandBacks-2)/(MaxHandBacks-1))
	}
	free := w.places - len(d.flying)
	if free < 1 || w.handed > 0 && free < w.share {
		return
	}
	w.handed++
	w.underWay++
	w.places -= free
	d.selector.AddFuture(d.Link.HandBack(free), func(workflow.Future) { w.underWay-- })
}

// RateBatches is how many batches should have ended to show the handler's speed.
const RateBatches = 4

// learning is what a dispatcher finds out of its pool. The job hears of it at once, but of reports that come one after
// the other ever more rarely: the n-th no sooner than 10·n³ milliseconds after the one before. That is ten in half a
// minute, 77 in a day, 180 in a month.
type learning struct {
	sample       pool.Sample
	known        int64 // calls that the workers make at once that the job has heard of
	speedAwaited bool
	reports      int       // that the job has heard
	quietUntil   time.Time // it does not hear of any before
}

// learn notes what the end of a batch shows of the pool, and reports it to the job if that matters to it.
func (d *Dispatcher) learn(t task, r wire.ProcessResult) {
	now := workflow.Now(d.ctx)
	workers, _ := pool.Workers(d.sofar.Pool).With(wire.PoolWorker{Name: r.Worker, Capacity: r.Capacity, Last: now.Unix()})
	d.sofar.Pool = workers
	if t.limited && r.Started > 0 && d.Spec.Window == 0 {
		d.sample.Add(t.started, time.UnixMilli(r.Started), now)
	}
	n := wire.PoolReport{Since: d.sample.Waiting()}
	if d.speedAwaited && d.sofar.Totals.Batches >= RateBatches {
		n.Speed = d.sofar.Speed
	}
	calls := workers.Calls()
	if calls > d.known {
		n.Workers = d.sofar.Pool
	}
	if n.Workers == nil && n.Since.IsZero() && n.Speed.Items == 0 || now.Before(d.quietUntil) {
		return
	}
	d.reports++
	d.quietUntil = now.Add(10 * time.Millisecond * time.Duration(d.reports*d.reports*d.reports))
	d.known = max(d.known, calls)
	d.speedAwaited = d.speedAwaited && n.Speed.Items == 0
	if !n.Since.IsZero() {
		d.sample.Reported(now)
	}
	d.Link.ReportPool(n)
}

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
	wakes    time.Time       // when the wait ends for which a timer runs
	requests int             // to slow down, that the job has heard of
	quiet    time.Time       // the job does not hear of requests before
	turns    []freeTurn      // of shares of limits that are free
	values   job.Rate        // for how many values of a field a batch has made requests
	turnless map[string]bool // stages that make no requests
	asked    bool            // for more of the budget, since the job has sent these limits
	// requesting are stages that have made requests: they do, although a batch may need none.
	requesting map[string]bool
}

// pacing returns the share of the limit that the next batch gets; 0: no limit. ok is false if the batch has to
// wait: for the end of another batch, or of a slow-down.
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

// pacingLeft returns the pace of the next batch while a lowered rate grows: batches in flight keep theirs, so the next
// one gets what has been added since, unless that is little.
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

// slowDown applies the request of a batch's handler to slow down. The leg waits at once; the job sets
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
	paused := d.Paused()
	d.rate.limits, d.rate.asked = l, false
	if d.Paused() != paused {
		d.pauseOrGoOn()
	}
	d.report.set(l.Report)
	d.Wake()
}
