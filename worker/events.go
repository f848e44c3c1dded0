package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/watchdog"
)

// Sink receives a worker's counts (see Options.Sinks). The worker makes one call of a sink at a time.
// A sink that fails, hangs or panics harms neither the worker nor another sink.
type Sink interface {
	// Record takes a snapshot, which the sink may keep. ctx ends after 5 s. An error or a panic is
	// logged and counted, and the snapshot is not repeated: the next one includes its numbers.
	Record(ctx context.Context, s Snapshot) error
}

// SinkFunc is a function as a [Sink].
type SinkFunc func(ctx context.Context, s Snapshot) error

// Record calls the function.
func (f SinkFunc) Record(ctx context.Context, s Snapshot) error { return f(ctx, s) }

// Snapshot holds what a worker has counted until now.
type Snapshot struct {
	Worker string    `json:"worker"`
	Pool   string    `json:"pool"`
	Began  time.Time `json:"began"` // when the worker began
	Since  time.Time `json:"since"` // beginning of the window: the sink's previous snapshot, or Began
	Time   time.Time `json:"time"`
	Last   bool      `json:"last"` // the worker has ended

	JobCounts                      // of all jobs
	Jobs      map[string]JobCounts `json:"jobs"` // by name; those after the first 100 under [OtherJobs]

	Restarts    int64 `json:"restarts"`     // of slots' processes, and calls that were left behind
	Reaps       int64 `json:"reaps"`        // processes and calls that were ended because one of their timers had expired
	FailedReaps int64 `json:"failed_reaps"` // failed attempts to end one
}

// JobCounts are the counts of a job, or of all of them.
type JobCounts struct {
	Total  Counts `json:"total"`  // since the worker began
	Window Counts `json:"window"` // since Snapshot.Since
}

const (
	// sinkLimit bounds a Record; sinkGrace is how much longer one that heeds its context may take.
	sinkLimit = 5 * time.Second
	sinkGrace = 200 * time.Millisecond
)

// sinks feeds a worker's sinks, from one goroutine and a further one for each Record.
type sinks struct {
	interval time.Duration
	take     func() Snapshot // with windows since the last time
	feeders  []*feeder

	quit    chan struct{}
	feeding sync.WaitGroup
}

// feeder feeds one sink. One goroutine uses it at a time.
type feeder struct {
	sink   Sink
	failed func()
	log    *slog.Logger

	since   time.Time         // beginning of the next window
	missing map[string]Counts // windows of snapshots that the sink did not get, by job
	streak  atomic.Int64      // failures in a row

	// Of the last call of the sink.
	deadline time.Time
	ended    chan struct{} // closed when it has; nil: there was none yet
}

func newSinks(all []Sink, interval time.Duration, log *slog.Logger, take func() Snapshot, failed func()) *sinks {
	s := &sinks{interval: interval, take: take, quit: make(chan struct{})}
	for i, sink := range all {
		s.feeders = append(s.feeders, &feeder{
			sink: sink, failed: failed, missing: map[string]Counts{}, log: log.With("sink", fmt.Sprintf("%d (%T)", i, sink)),
		})
	}
	return s
}

// start begins the feeding. The caller must close the sinks.
func (s *sinks) start() {
	if len(s.feeders) == 0 {
		return
	}
	s.feeding.Go(func() {
		if err := trap.Run("feeding sinks", s.keepFeeding); err != nil {
			for _, f := range s.feeders {
				f.fail(err)
			}
		}
	})
}

func (s *sinks) keepFeeding() {
	ticks := time.NewTicker(s.interval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			s.feed()
		case <-s.quit:
			return
		}
	}
}

// feed gives a snapshot to every sink that has finished the previous one. It waits for none.
func (s *sinks) feed() {
	now := s.take()
	for _, f := range s.feeders {
		f.miss(now)
		if f.busy() {
			f.fail(errors.New("it has not finished the previous snapshot"))
			continue
		}
		f.give(f.next(now), now.Time.Add(sinkLimit))
	}
}

// Close ends the feeding with a last snapshot for every sink, all at once. It takes at most as long as one Record may
// take.
func (s *sinks) Close() {
	if len(s.feeders) == 0 {
		return
	}
	close(s.quit)
	s.feeding.Wait()
	now := s.take()
	now.Last = true
	var last sync.WaitGroup
	for _, f := range s.feeders {
		last.Go(func() {
			err := trap.Run("feeding a sink", func() {
				f.miss(now)
				if !f.wait() {
					return
				}
				f.give(f.next(now), now.Time.Add(sinkLimit))
				f.wait()
			})
			if err != nil {
				f.fail(err)
			}
		})
	}
	last.Wait()
}

// miss notes a snapshot's windows for the next one that the sink gets.
func (f *feeder) miss(s Snapshot) {
	for name, j := range s.Jobs {
		window := f.missing[name]
		window.add(j.Window)
		f.missing[name] = window
	}
}

// next makes the sink's own snapshot of one of the worker's.
func (f *feeder) next(s Snapshot) Snapshot {
	if f.since.IsZero() {
		f.since = s.Began
	}
	s.Since, f.since = f.since, s.Time
	all := s.Jobs
	s.Jobs, s.JobCounts = make(map[string]JobCounts, len(all)), JobCounts{}
	for name, j := range all {
		j.Window = f.missing[name]
		s.Jobs[name] = j
		s.Total.add(j.Total)
		s.Window.add(j.Window)
	}
	clear(f.missing)
	return s
}

func (f *feeder) busy() bool {
	return f.ended != nil && !calls.Closed(f.ended)
}

// wait waits until the sink has finished its snapshot. It returns false if it never will.
func (f *feeder) wait() bool {
	if !f.busy() {
		return true
	}
	select {
	case <-f.ended:
		return true
	case <-time.After(time.Until(f.deadline) + sinkGrace):
		f.fail(errors.New("it does not heed its context and is left behind"))
		return false
	}
}

// give calls the sink, in the background.
func (f *feeder) give(s Snapshot, deadline time.Time) {
	ended := make(chan struct{})
	f.deadline, f.ended = deadline, ended
	go func() {
		err := errors.New("it ended its goroutine (runtime.Goexit) instead of returning")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			f.settle(err)
			close(ended)
		}()
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		err = f.sink.Record(ctx, s)
	}()
}

func (f *feeder) settle(err error) {
	if err != nil {
		f.fail(err)
		return
	}
	if n := f.streak.Swap(0); n > 0 {
		f.log.Info("the sink takes snapshots again", "failed", n)
	}
}

// fail counts a snapshot that the sink has not taken, and logs the first in a row.
func (f *feeder) fail(err error) {
	f.failed()
	if f.streak.Add(1) == 1 {
		f.log.Warn("the sink has not taken a snapshot; further failures in a row are only counted", "error", err)
	}
}

// slotEvent is something that has happened to a slot.
type slotEvent struct {
	Kind        slotEventKind
	Slot        int
	PID         int           // of the process that the event is about; with slotReplaced the old one
	Incarnation int           // with slotReplaced the next one
	Err         error         // why
	Wait        time.Duration // with slotReplaced and slotShort, how long the next process waits before it starts
	Free        bool          // the replacement does not count as a restart: stint itself has ended the process, or a fault was being narrowed down
}

// slotEventKind is the kind of a slotEvent.
type slotEventKind int

// The events of a slot.
const (
	slotReady    slotEventKind = iota // its process can be called
	slotReplaced                      // its process has ended, and is replaced
	slotOut                           // it has been replaced too often in a row
	timerExpired                      // a timer of its process has expired
	callLeft                          // a Go handler's call did not return, and was left behind
	slotShort                         // no process can be begun: its calls wait, and no item fails; said once in 30 s for all slots
	slotAble                          // after that, one has been begun; Wait is how long that took
)

var kindNames = [...]string{"ready", "replaced", "out", "timer expired", "call left behind",
	"nothing can be begun; no item fails, and it is tried again", "processes can be begun again"}

// String returns the kind in words.
func (k slotEventKind) String() string { return kindNames[k] }

// logEvents writes events to a log, and passes them on.
func logEvents(log *slog.Logger, next func(slotEvent)) func(slotEvent) {
	return func(e slotEvent) {
		next(e)
		args := []any{"slot", e.Slot}
		if e.PID != 0 {
			args = append(args, "pid", e.PID)
		}
		args = append(args, "incarnation", e.Incarnation)
		switch e.Kind {
		case slotReplaced, slotShort:
			args = append(args, "wait", e.Wait)
		case slotAble:
			args = append(args, "after", e.Wait)
		}
		if e.Err != nil {
			args = append(args, "error", e.Err)
		}
		switch e.Kind {
		case slotReady, slotAble:
			log.Info("slot: "+e.Kind.String(), args...)
		case slotOut:
			log.Error("slot: "+e.Kind.String(), args...)
		default:
			log.Warn("slot: "+e.Kind.String(), args...)
		}
	}
}

var ownPID = os.Getpid()

// logTimerEvent writes an event of the watchdog to a log.
func logTimerEvent(log *slog.Logger, level slog.Level, e watchdog.Event) {
	args := []any{}
	if e.Worker != "" {
		args = append(args, "holder", e.Worker, "scope", e.Scope, "after", e.After, "overdue", e.Overdue)
	}
	if e.Err != nil {
		args = append(args, "error", e.Err)
	}
	log.Log(context.Background(), level, "timers: "+e.Kind.String(), args...)
}

// repeats counts failed attempts to end the same holder: a process that may not be killed fails ten times a second. It
// is for one goroutine, that of a watchdog's events.
type repeats map[string]int

// mostRepeats is how many holders are counted.
const mostRepeats = 1000

// often reports whether the event is a failure which need not be logged again: the 1st, 2nd, 4th, 8th and so on in a
// row are.
func (r *repeats) often(e watchdog.Event) bool {
	key := e.Worker + " " + e.Scope
	switch e.Kind {
	case watchdog.EventReaped:
		delete(*r, key)
		return false
	case watchdog.EventReapFailed:
	default:
		return false
	}
	if *r == nil || len(*r) >= mostRepeats {
		*r = repeats{}
	}
	(*r)[key]++
	n := (*r)[key]
	return n&(n-1) != 0
}
