package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/timers"
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
	// Timers are the held ones: the hundred with the earliest deadlines. A timer's worker is the slot of a process, or the batch of a Go handler.
	Timers []timers.Held `json:"timers"`
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
		Worker: m.worker, Pool: m.pool, State: m.state.Load().(string), Slots: []SlotHealth{}, Timers: []timers.Held{},
		Watchdog: WatchdogHealth{LastRound: m.watchdog.LastRound(), Healthy: m.watchdog.Healthy()},
	}
	if last := h.Watchdog.LastRound; !last.IsZero() {
		h.Watchdog.Age = now.Sub(last).Seconds()
	}
	for _, s := range m.roster.slots {
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
	h.Timers = append(h.Timers, held[:min(len(held), shownTimers)]...)
	h.Healthy = len(h.Why) == 0
	return h
}

// health returns the state of the slot; programs: it needs its own process.
func (s *slot) health(now time.Time, programs bool) SlotHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := SlotHealth{Slot: s.number, State: stateReady, Incarnation: s.incarnation, Concurrency: s.roster.concurrency(), Batches: []BatchHealth{}}
	for t := range s.tenants {
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
