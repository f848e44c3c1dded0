package watchdog

import (
	"cmp"
	"slices"
	"time"
)

// Held is a timer that is held.
type Held struct {
	Worker   string        `json:"worker"` // as the client's was named
	Scope    string        `json:"scope"`
	After    time.Duration `json:"after"` // nanoseconds
	Deadline time.Time     `json:"deadline"`
}

// Timers returns the timers that the client holds, expired ones too, the earliest deadline first. The
// timers of a client whose watchdog is in another process are listed there, and not here.
func (c *Client) Timers() []Held {
	if c.remote != nil {
		return nil
	}
	now, wall := c.watchdog.now(), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var held []Held
	for _, t := range slices.Concat(c.expired, c.running) {
		held = append(held, Held{Worker: c.worker, Scope: t.scope, After: t.after, Deadline: wall.Add(t.deadline - now)})
	}
	sortHeld(held)
	return held
}

// Timers returns the timers of all clients, expired ones too, the earliest deadline first.
func (w *Watchdog) Timers() []Held {
	w.mu.Lock()
	clients := slices.Clone(w.clients)
	w.mu.Unlock()
	var held []Held
	for _, c := range clients {
		held = append(held, c.Timers()...)
	}
	sortHeld(held)
	return held
}

func sortHeld(held []Held) {
	slices.SortStableFunc(held, func(a, b Held) int {
		return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Scope, b.Scope))
	})
}
