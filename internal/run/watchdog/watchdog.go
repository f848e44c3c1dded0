package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/timers"
)

// Watchdog looks after the timers of all clients of a process: in rounds, it finds the timers that
// have expired and has their workers reaped. It is safe for concurrent use. One is enough for a
// process.
type Watchdog struct {
	options Options
	began   time.Time // all times are counted from here, on the monotonic clock
	events  queue

	on    atomic.Bool
	round atomic.Int64 // when the last round was; 0: never started

	life sync.Mutex // starts and stops
	run  *run       // nil: not running

	mu      sync.Mutex
	clients []*Client
	due     []*Client // of the round under way
}

// run is the time from a start to a stop.
type run struct {
	ctx     context.Context // of everything that is done for it
	cancel  context.CancelFunc
	rounds  sync.WaitGroup
	reaping sync.WaitGroup
}

// stopLimit bounds a stop, whatever reapers and listeners do.
const stopLimit = 5 * time.Second

// New returns a watchdog that is not running yet.
func New(o Options) *Watchdog {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.MaxScope = cmp.Or(o.MaxScope, defaultMaxScope)
	o.MaxTimers = cmp.Or(o.MaxTimers, defaultMaxTimers)
	// A moment before now, so that no round is at 0.
	return &Watchdog{options: o, began: time.Now().Add(-1), events: queue{listener: o.OnEvent}}
}

// Client returns a client for a worker's timers; when one of them expires, the reaper ends the worker. The name is for
// events and errors: clients of equal names are independent. Without a reaper (nil) all timers are [ReportOnly]. The
// client must be closed when the worker is gone.
func (w *Watchdog) Client(worker string, r Reaper) *Client {
	c := &Client{watchdog: w, worker: worker, reaper: r, named: map[string]*timer{}}
	c.next.Store(int64(never))
	w.mu.Lock()
	defer w.mu.Unlock()
	c.index = len(w.clients)
	w.clients = append(w.clients, c)
	return c
}

// remove forgets a client; it is idempotent.
func (w *Watchdog) remove(c *Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.index < 0 {
		return
	}
	last := len(w.clients) - 1
	w.clients[c.index] = w.clients[last]
	w.clients[c.index].index = c.index
	w.clients[last] = nil
	w.clients = w.clients[:last]
	c.index = -1
}

// Start begins the rounds. It is idempotent, and after a stop it starts the watchdog again: timers that are still held
// count from when they were acquired.
func (w *Watchdog) Start() {
	w.life.Lock()
	defer w.life.Unlock()
	if w.run != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{ctx: ctx, cancel: cancel}
	w.run = r
	w.round.Store(int64(w.now()))
	w.on.Store(true)
	w.events.put(Event{Kind: EventStarted})
	r.rounds.Go(func() { w.rounds(r) })
}

// Stop ends the rounds: after it has returned nobody is reaped. It cancels the contexts of reapings under way, and
// waits for them and for unreported events, for 5 s together; what takes longer is left behind. Timers stay held, but
// are not checked. Stop is idempotent, and does nothing if the watchdog was never started.
func (w *Watchdog) Stop() {
	w.life.Lock()
	defer w.life.Unlock()
	r := w.run
	if r == nil {
		return
	}
	limit, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	w.on.Store(false)
	r.cancel()
	r.rounds.Wait()
	reaped := make(chan struct{})
	go func() { // lasts as long as a reaper that ignores its context
		r.reaping.Wait()
		close(reaped)
	}()
	select {
	case <-reaped:
	case <-limit.Done():
	}
	w.run = nil
	w.events.put(Event{Kind: EventStopped})
	select {
	case <-w.events.reported():
	case <-limit.Done():
	}
}

// LastRound returns when the last round was, or the last start if there was no round since. It is zero if
// the watchdog was never started.
func (w *Watchdog) LastRound() time.Time {
	round := w.round.Load()
	if round == 0 {
		return time.Time{}
	}
	return w.began.Add(time.Duration(round))
}

// Lost returns how many events OnEvent has not taken: too many were waiting, or it panicked.
func (w *Watchdog) Lost() int64 { return w.events.lost.Load() }

func (w *Watchdog) now() time.Duration { return time.Since(w.began) }

func (w *Watchdog) rounds(r *run) {
	ticks := time.NewTicker(w.options.Interval)
	defer ticks.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-ticks.C:
			w.look(r)
		}
	}
}

// look is one round. It calls no code of other packages and waits for nobody, so nothing can end the watchdog or make
// it late.
func (w *Watchdog) look(r *run) {
	now := w.now()
	w.mu.Lock()
	for _, c := range w.clients {
		if time.Duration(c.next.Load()) <= now {
			w.due = append(w.due, c)
		}
	}
	w.mu.Unlock()
	for _, c := range w.due {
		c.look(now, r)
	}
	clear(w.due)
	w.due = w.due[:0]
	w.round.Store(int64(now))
}

// A watchdog whose last round is older than ten intervals, and a second, is late.
const (
	lateRounds = 10
	lateLeast  = time.Second
)

// Healthy reports whether the watchdog can be relied on: it is running, and its last round is
// younger than ten intervals, or a second if that is longer.
func (w *Watchdog) Healthy() bool {
	_, away := w.away(w.now())
	return !away
}

// away reports whether the watchdog cannot be relied on; late is 0 if it is not running.
func (w *Watchdog) away(now time.Duration) (late time.Duration, away bool) {
	if !w.on.Load() {
		return 0, true
	}
	late = now - time.Duration(w.round.Load())
	return late, late >= max(lateRounds*w.options.Interval, lateLeast)
}

// Options tune a watchdog. The zero value of a field means its default.
type Options struct {
	// Interval is the time between rounds, and so how late an expiry may be noticed. Default
	// 100 ms.
	Interval time.Duration
	// OnEvent is called with each event, by one goroutine at a time and in order. It may be slow,
	// call the watchdog and its clients, and even panic: rounds do not wait for it, only Stop
	// does, for a limited time. Up to 16,384 events wait for it; more are lost and counted
	// by [Watchdog.Lost]. Default: none.
	OnEvent func(Event)
	// MaxScope is the most bytes of a scope's name. Default 200.
	MaxScope int
	// MaxTimers is the most timers that one client holds at once. Default 10,000.
	MaxTimers int
}

const (
	defaultInterval  = 100 * time.Millisecond
	defaultMaxScope  = 200
	defaultMaxTimers = 10_000
)

// maxSignal is the highest signal of any system.
const maxSignal = 64

// check returns an error if a timer cannot be held.
func (o Options) check(t timers.Timer) error {
	switch {
	case t.Named && t.Scope == "":
		return &timers.ScopeError{Reason: fmt.Sprintf("the name is empty: use 1 to %d bytes", o.MaxScope)}
	case t.Named && len(t.Scope) > o.MaxScope:
		return &timers.ScopeError{Scope: t.Scope, Reason: fmt.Sprintf("the name has %d bytes: use 1 to %d", len(t.Scope), o.MaxScope)}
	case t.Signal < 0 || t.Signal > maxSignal:
		return &timers.ScopeError{Scope: t.Scope, Reason: fmt.Sprintf("invalid signal %d: use 1 to %d", int(t.Signal), maxSignal)}
	}
	return nil
}
