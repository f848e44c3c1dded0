// Package pool holds the arithmetic of automatic windows: what a job knows of the workers of its pool, whether their
// slots wait for batches, and how large the window should be. It is pure: workflows replay it, so it uses
// integers and no clock of its own.
package pool

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/wire"
)

const (
	// MaxWorkers is how many workers are remembered, those heard of last: 100 bytes each.
	MaxWorkers = 64
	// forget is how much later than from a worker one may have heard from another one before the first is taken
	// for gone. It is no time of a clock: while no batch ends nobody is forgotten.
	forget = 10 * time.Minute
)

// Workers are those heard of lately, at most [MaxWorkers], by name.
type Workers []wire.PoolWorker

// With returns the workers together with others: what was heard last of each counts. forgotten says that some are
// left out because they have not been heard of for long.
func (w Workers) With(others ...wire.PoolWorker) (all Workers, forgotten bool) {
	all = slices.Clone(w)
	for _, o := range others {
		if o.Name == "" || o.Slots == 0 {
			continue
		}
		i, known := slices.BinarySearchFunc(all, o.Name, func(w wire.PoolWorker, name string) int { return cmp.Compare(w.Name, name) })
		switch {
		case !known:
			all = slices.Insert(all, i, o)
		case o.Last >= all[i].Last:
			all[i] = o
		}
	}
	newest := int64(0)
	for _, w := range all {
		newest = max(newest, w.Last)
	}
	old := func(o wire.PoolWorker) bool { return o.Last+int64(forget/time.Second) < newest }
	all, forgotten = slices.DeleteFunc(all, old), slices.ContainsFunc(w, old)
	if len(all) > MaxWorkers {
		slices.SortStableFunc(all, func(a, b wire.PoolWorker) int { return cmp.Compare(b.Last, a.Last) })
		all = all[:MaxWorkers]
		slices.SortFunc(all, func(a, b wire.PoolWorker) int { return cmp.Compare(a.Name, b.Name) })
	}
	return all, forgotten
}

// Calls returns how many calls the workers make at once.
func (w Workers) Calls() int64 { return w.batches(1) }

// Slots returns how many slots they have, and Concurrency the most calls that one makes at once.
func (w Workers) Slots() (slots, concurrency int) {
	for _, one := range w {
		slots, concurrency = slots+one.Slots, max(concurrency, one.Concurrency)
	}
	return slots, concurrency
}

// batches returns how many batches of so many items keep all their slots busy.
func (w Workers) batches(items int64) int64 {
	sum := int64(0)
	for _, one := range w {
		sum += one.Batches(items)
	}
	return sum
}

// View is a [wire.PoolView] that can be computed with.
type View wire.PoolView

// Of returns a view as what computes with it: both are one object.
func Of(v *wire.PoolView) *View { return (*View)(v) }

// Window returns the automatic window, [limits.LeastAutoWindow] … [limits.MaxWindow]: twice the batches that keep busy
// all slots known of. So when a batch ends its slot finds the next one in the queue, and has time until the job has
// answered. A batch of at least as many items as a slot makes calls at once keeps the slot busy; of smaller ones it
// takes several. If slots wait nevertheless, the window doubles (see [Sample]): not every worker is known, or batches
// are over before the job can answer.
//
// A window that is too large costs little and so is not avoided by all means: batches wait in the pool's queue
// rather than in the job. A stop takes them back (three events each), and their sizes are as old as the page is
// either way. But another job of the same pool gets its turn behind them, which is why it is not larger to begin with.
func (v View) Window() int {
	known := min(2*Workers(v.Workers).batches(max(1, v.Items)), limits.MaxWindow)
	return min(max(limits.LeastAutoWindow, int(known), v.Grown), limits.MaxWindow)
}

// FeedWindow returns the automatic window of a feed: as many batches as the known workers make calls at once, so that
// none is sent to wait in a queue where it cannot grow. Without a known worker it is one batch.
func (v View) FeedWindow() int { return int(min(max(1, Workers(v.Workers).Calls()), limits.MaxWindow)) }

// Hear notes what has been heard of workers. If some have dropped out, what the window has grown by goes, too: it
// grows again if need be.
func (v *View) Hear(workers ...wire.PoolWorker) {
	all, forgotten := Workers(v.Workers).With(workers...)
	v.Workers = all
	if forgotten {
		v.Grown = 0
	}
}

// Waited doubles the window because slots have waited for batches that were dispatched from a time on, unless it had
// just changed: while new places are filled, idle slots take the first batches at once, and these end first.
func (v *View) Waited(since time.Time) {
	if !since.Before(v.Changed.Add(settle)) {
		v.Grown = min(2*v.Window(), limits.MaxWindow)
	}
}

const (
	// settle is how long it takes until the places of a larger window are filled.
	settle = 2 * time.Second
	// leastSample batches at least show whether slots wait, dispatched over at least the time that one of them runs: of
	// batches that are dispatched together, idle slots take the first at once, and these end first.
	leastSample = 8
	// atOnce is how long a batch may have been in the queue if a slot waited for it: what the server and the poll take.
	atOnce = 100 * time.Millisecond
)

// Sample gathers whether slots wait for batches. The zero value is ready to use.
type Sample struct {
	seen, waited int
	since        time.Time // when the first of them was dispatched
	from         time.Time // batches dispatched before do not count
	waiting      time.Time // since when slots wait, as the last full sample has shown; zero: they do not
}

// Add counts a batch that was dispatched when the window was full, in the place of another one, was then taken from the
// queue, and has ended.
func (s *Sample) Add(dispatched, taken, ended time.Time) {
	if dispatched.Before(s.from) {
		return
	}
	if s.seen == 0 || dispatched.Before(s.since) {
		s.since = dispatched
	}
	s.seen++
	if taken.Sub(dispatched) <= atOnce {
		s.waited++
	}
	if s.seen < leastSample || dispatched.Sub(s.since) < ended.Sub(taken) {
		return
	}
	s.waiting = time.Time{}
	if 4*s.waited >= 3*s.seen {
		s.waiting = s.since
	}
	s.seen, s.waited = 0, 0
}

// Waiting says that slots wait for batches, three of four of the last ones, dispatched since a time; zero: they do not.
func (s *Sample) Waiting() (since time.Time) { return s.waiting }

// Reported begins anew with the batches that are dispatched from now on: the window is about to grow.
func (s *Sample) Reported(now time.Time) { *s = Sample{from: now} }
