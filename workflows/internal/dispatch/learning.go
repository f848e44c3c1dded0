package dispatch

import (
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/workflows/internal/pool"
	"github.com/stint-run/stint/workflows/internal/throttle"
	"go.temporal.io/sdk/workflow"
)

// PoolNews is what a leg reports of its pool: the argument of SignalPool.
type PoolNews struct {
	Workers pool.Workers `json:"workers,omitempty"`
	// Since is from when on slots have waited for batches; zero: they have not.
	Since time.Time      `json:"since,omitzero"`
	Speed throttle.Speed `json:"speed,omitzero"` // of the handler; zero: not asked for
}

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

func newLearning(s State) learning {
	return learning{known: s.Known, news: s.News, speedAwaited: s.SpeedAwaited}
}

// learn notes what the end of a batch shows of the pool, and reports it to the job if that matters to it.
func (d *Dispatcher) learn(t Task, r activities.ProcessResult) {
	now := workflow.Now(d.ctx)
	d.sofar.Pool, _ = d.sofar.Pool.With(pool.Worker{Name: r.Worker, Capacity: r.Capacity, Last: now.Unix()})
	if t.limited && r.Started > 0 && d.spec.Window == 0 {
		d.sample.Add(t.started, time.UnixMilli(r.Started), now)
	}
	n := PoolNews{Since: d.sample.Waiting()}
	if d.speedAwaited && d.sofar.Totals.Batches >= RateBatches {
		n.Speed = d.sofar.Speed
	}
	calls := d.sofar.Pool.Calls()
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
