package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/temporal/lookup"
)

// Health is the state of a worker: the answer of its endpoint to GET /health.
type Health struct {
	// Healthy: the worker takes batches, and its watchdog checks their timers.
	Healthy bool     `json:"healthy"`
	Why     []string `json:"why,omitempty"` // why it is not healthy

	Worker string `json:"worker"`
	Pool   string `json:"pool"`
	// Connected: Temporal answers.
	Connected bool `json:"connected"`
	// State is "starting", "serving", or "draining" once the worker has been asked to end.
	State    string         `json:"state"`
	Watchdog WatchdogHealth `json:"watchdog"`
	Slots    []SlotHealth   `json:"slots"`
	// Timers are the held ones: the hundred with the earliest deadlines. A timer's worker is the slot of a process, or
	// the batch of a Go handler.
	Timers []TimerHealth `json:"timers"`
}

// liveness is the answer of a worker's endpoint to GET /livez. A worker that drains, starts or is cut off from Temporal is
// alive: to end it would only make it begin again.
type liveness struct {
	Alive bool   `json:"alive"`
	Why   string `json:"why,omitempty"` // why it is not alive
	State string `json:"state"`         // see Health
}

// deadAfter is how long the watchdog of a live worker may be without a round. Meanwhile no batch of the worker is
// heartbeated, so all of them run elsewhere: nothing is lost by ending it.
const deadAfter = time.Minute

func (m *metrics) liveness(now time.Time) liveness {
	l := liveness{Alive: true, State: m.state.Load().(string)}
	if last := m.watchdog.LastRound(); l.State != stateDraining && !last.IsZero() && now.Sub(last) > deadAfter {
		l.Alive, l.Why = false, fmt.Sprintf("the watchdog has not run for %v", now.Sub(last).Round(time.Second))
	}
	return l
}

// TimerHealth is about a timer that is held.
type TimerHealth struct {
	Worker   string        `json:"worker"`
	Scope    string        `json:"scope"`
	After    time.Duration `json:"after"` // nanoseconds
	Deadline time.Time     `json:"deadline"`
}

// shownTimers is the most timers in a Health.
const shownTimers = 100

// WatchdogHealth is about the watchdog of the worker's timers.
type WatchdogHealth struct {
	LastRound time.Time `json:"last_round,omitzero"`
	Age       float64   `json:"age_seconds"` // since the last round
	Healthy   bool      `json:"healthy"`     // it is running, and not late
}

// SlotHealth is about one slot.
type SlotHealth struct {
	Slot int `json:"slot"`
	// State is "busy" if the slot has batches, "ready" if it has none, "starting" while it waits for
	// its process, or none can be begun, and "out" if it runs no calls any more.
	State       string        `json:"state"`
	PID         int           `json:"pid,omitempty"` // of the slot's process, or of the worker
	Incarnation int           `json:"incarnation"`
	Concurrency int           `json:"concurrency"` // calls that it makes at once, at present
	Batches     []BatchHealth `json:"batches"`
	Error       string        `json:"error,omitempty"` // why the slot is out, or nothing can be begun in it
}

// BatchHealth is about a batch that has a slot.
type BatchHealth struct {
	Job   string    `json:"job"`
	Batch string    `json:"batch"`
	Since time.Time `json:"since"`
	Age   float64   `json:"age_seconds"`
}

// States of workers and slots.
const (
	stateStarting = "starting"
	stateServing  = "serving"
	stateDraining = "draining"

	stateReady = "ready"
	stateBusy  = "busy"
	stateOut   = "out"
)

var slotStates = []string{stateReady, stateBusy, stateStarting, stateOut}

// Health returns the present state of the worker. It is safe for concurrent use.
func (w *Worker) Health() Health { return w.metrics.health(time.Now()) }

func (m *metrics) health(now time.Time) Health {
	h := Health{
		Worker: m.worker, Pool: m.pool, State: m.state.Load().(string), Slots: []SlotHealth{}, Timers: []TimerHealth{},
		Watchdog: WatchdogHealth{LastRound: m.watchdog.LastRound(), Healthy: m.watchdog.Healthy()},
	}
	if last := h.Watchdog.LastRound; !last.IsZero() {
		h.Watchdog.Age = now.Sub(last).Seconds()
	}
	for _, s := range m.set.slots {
		h.Slots = append(h.Slots, s.health(now, m.programs))
	}
	if since, why := m.link.cutOff(); why != nil {
		h.Why = append(h.Why, fmt.Sprintf("cut off from Temporal since %s: %v", since.UTC().Format(time.DateTime), why))
	} else {
		h.Connected = true
	}
	if h.State != stateServing {
		h.Why = append(h.Why, "it is "+h.State)
	}
	if !h.Watchdog.Healthy {
		h.Why = append(h.Why, "the watchdog is late or does not run")
	}
	if !slices.ContainsFunc(h.Slots, func(s SlotHealth) bool { return s.State != stateOut }) {
		h.Why = append(h.Why, "no slot is left")
	} else if !slices.ContainsFunc(h.Slots, func(s SlotHealth) bool { return s.Error == "" }) {
		h.Why = append(h.Why, "no process can be begun: "+h.Slots[0].Error)
	}
	held := m.watchdog.Timers()
	for _, timer := range held[:min(len(held), shownTimers)] {
		h.Timers = append(h.Timers, TimerHealth(timer))
	}
	h.Healthy = len(h.Why) == 0
	return h
}

// health returns the state of the slot; programs: it needs its own process.
func (s *slot) health(now time.Time, programs bool) SlotHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := SlotHealth{Slot: s.number, State: stateReady, Incarnation: s.incarnation, Concurrency: s.set.concurrency(), Batches: []BatchHealth{}}
	for t := range s.executions {
		h.Batches = append(h.Batches, BatchHealth{Job: t.occupant.Job, Batch: t.occupant.Batch, Since: t.since, Age: now.Sub(t.since).Seconds()})
	}
	slices.SortFunc(h.Batches, func(a, b BatchHealth) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Batch, b.Batch)) })
	switch {
	case s.out != nil:
		h.State, h.Error = stateOut, s.out.Error()
	case programs && s.program == nil, s.short.why != nil:
		if h.State = stateStarting; s.short.why != nil {
			h.Error = s.short.why.Error()
		}
	case s.busy > 0:
		h.State = stateBusy
	}
	switch {
	case h.State == stateOut:
	case s.program != nil:
		h.PID = s.program.pid()
	case !programs:
		h.PID = ownPID
	}
	return h
}

// link is the connection to Temporal, as a worker shows it: it is asked for a sign of life every few seconds. The work
// itself notices nothing of an outage but that no answers come. A nil link is connected.
type link struct {
	log *slog.Logger
	ask func(context.Context) error

	mu    sync.Mutex
	why   error     // why it is cut off; nil: it is not
	since time.Time // the last sign of life before
}

const (
	// linkEvery is how often the server is asked, and linkLimit how long it may take.
	linkEvery = 3 * time.Second
	linkLimit = 3 * time.Second
)

// watch asks until ctx ends. A server that has not answered twice in a row is away.
func (l *link) watch(ctx context.Context) {
	misses, last := 0, time.Now()
	for backoff.Wait(linkEvery, ctx.Done()) {
		err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			misses, last = 0, time.Now()
			l.restored()
			continue
		}
		if misses++; misses == 2 {
			l.lost(last, err)
		}
	}
}

// once returns an error if the server does not answer. Any answer is one.
func (l *link) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	if err := l.ask(ctx); lookup.Away(err) {
		return err
	}
	return nil
}

func (l *link) lost(since time.Time, why error) {
	l.mu.Lock()
	l.why, l.since = why, since
	l.mu.Unlock()
	l.log.Warn("cut off from Temporal: calls in hand continue, nothing new comes, and batches that are not reported before their job's expiry run again",
		"since", since.UTC().Format(time.RFC3339), "error", why)
}

func (l *link) restored() {
	l.mu.Lock()
	was, since := l.why, l.since
	l.why = nil
	l.mu.Unlock()
	if was != nil {
		l.log.Info("Temporal answers again", "after", time.Since(since).Round(time.Second))
	}
}

// cutOff returns since when and why the worker is cut off; nil if it is not.
func (l *link) cutOff() (since time.Time, why error) {
	if l == nil {
		return since, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.why
}
