package dispatch

import (
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/workflows/internal/pool"
	"go.temporal.io/sdk/workflow"
)

// RateBatches is how many batches should have ended to show the handler's speed.
const RateBatches = 4

// learning is what a dispatcher finds out of its pool. The job hears of it at once, but of news that come one after the
// other ever more rarely: the n-th no sooner than 10·n³ milliseconds after the one before. That is ten in
// half a minute, 77 in a day, 180 in a month.
type learning struct {
	sample       pool.Sample
	known        int64 // calls that the workers make at once that the job has heard of
	speedAwaited bool
	news         int       // that the job has heard
	quietUntil   time.Time // it does not hear of any before
}

func newLearning(s wire.LegState) learning {
	return learning{known: s.Known, news: s.News, speedAwaited: s.SpeedAwaited}
}

// learn notes what the end of a batch shows of the pool, and reports it to the job if that matters to it.
func (d *Dispatcher) learn(t task, r wire.ProcessResult) {
	now := workflow.Now(d.ctx)
	workers, _ := pool.Workers(d.sofar.Pool).With(wire.PoolWorker{Name: r.Worker, Capacity: r.Capacity, Last: now.Unix()})
	d.sofar.Pool = workers
	if t.limited && r.Started > 0 && d.spec.Window == 0 {
		d.sample.Add(t.started, time.UnixMilli(r.Started), now)
	}
	n := wire.PoolNews{Since: d.sample.Waiting()}
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
	d.news++
	d.quietUntil = now.Add(10 * time.Millisecond * time.Duration(d.news*d.news*d.news))
	d.known = max(d.known, calls)
	d.speedAwaited = d.speedAwaited && n.Speed.Items == 0
	if !n.Since.IsZero() {
		d.sample.Reported(now)
	}
	d.link.Heard(n)
}
