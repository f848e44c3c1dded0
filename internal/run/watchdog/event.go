package watchdog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// EventKind says what has happened.
type EventKind int

const (
	// EventStarted and EventStopped are about the watchdog.
	EventStarted EventKind = iota + 1
	EventStopped
	// EventExpired: a timer has expired. Unless Event.ReportOnly is set, its worker is
	// reaped next. A timer that turned out to have been released in time raises none.
	EventExpired
	// EventReaped: the worker was reaped, and all its timers have ended.
	EventReaped
	// EventReapFailed: the worker could not be reaped (Event.Err says why). It is tried
	// again in the next round.
	EventReapFailed
	// EventReaperPanicked is an alarm: the reaper is broken (Event.Err has its stack). A panic of Reap counts as
	// reaped, since trying again would panic again; somebody should check whether the worker has ended. A panic of
	// Settle is followed by the reaping.
	EventReaperPanicked
)

var eventKinds = map[EventKind]string{
	EventStarted:        "watchdog started",
	EventStopped:        "watchdog stopped",
	EventExpired:        "timer expired",
	EventReaped:         "reaped",
	EventReapFailed:     "reaping failed",
	EventReaperPanicked: "reaper panicked",
}

func (k EventKind) String() string {
	if s, ok := eventKinds[k]; ok {
		return s
	}
	return fmt.Sprintf("event %d", int(k))
}

// Event is something that a watchdog reports. Events of the watchdog's start and stop have only a kind and a
// time.
type Event struct {
	Kind EventKind
	Time time.Time

	Worker     string
	Scope      string        // of the timer that expired
	After      time.Duration // the time that the timer was acquired for
	Overdue    time.Duration // since the timer's deadline
	ReportOnly bool          // of EventExpired: nobody is reaped for this timer
	Err        error
}

// maxEvents is how many events wait for OnEvent. All the timers that a client holds by default can
// expire at once.
const maxEvents = 16_384

// queue passes events to a listener in order, from a goroutine that exists only while there are
// any.
type queue struct {
	listener func(Event) // nil: none
	lost     atomic.Int64

	mu      sync.Mutex
	waiting []Event
	idle    chan struct{} // closed once nothing waits; nil while nothing does
}

// put never waits for the listener.
func (q *queue) put(e Event) {
	if q.listener == nil {
		return
	}
	e.Time = time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxEvents {
		q.lost.Add(1)
		return
	}
	q.waiting = append(q.waiting, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.report()
	}
}

func (q *queue) report() {
	done := false
	defer func() {
		if !done { // the listener has panicked, or ended its goroutine
			_ = recover()
			q.lost.Add(1)
			go q.report()
		}
	}()
	for e, ok := q.take(); ok; e, ok = q.take() {
		q.listener(e)
	}
	done = true
}

func (q *queue) take() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		close(q.idle)
		q.idle, q.waiting = nil, nil
		return Event{}, false
	}
	e := q.waiting[0]
	q.waiting[0] = Event{}
	q.waiting = q.waiting[1:]
	return e, true
}

// reported returns a channel that is closed once the listener has returned from all events so far.
func (q *queue) reported() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil {
		return q.idle
	}
	none := make(chan struct{})
	close(none)
	return none
}
