package calls

import (
	"slices"
	"time"

	"github.com/stint-run/stint/internal/watchdog"
)

// fine looks at the calls of all lanes, and reports whether the batch may heartbeat.
func (m *Watch) fine(now time.Time) bool {
	fine := m.limits.Watchdog == nil || m.limits.Watchdog.Healthy()
	m.eachLane(func(l *Lane) {
		if !l.expire(now) || l.condemned() || l.inDoubt() {
			fine = false
		}
	})
	return fine
}

// Alive reports whether the batch was fine within the last d: it was not the batch that had no heartbeats sent.
func (m *Watch) Alive(d time.Duration) bool {
	withheld := m.withheld.Load()
	return withheld == nil || time.Since(*withheld) > d
}

// Timers returns the timers that the handler holds for the calls in hand, the earliest deadline first.
func (m *Watch) Timers() []watchdog.Held {
	var held []watchdog.Held
	m.eachLane(func(l *Lane) {
		if client := l.call.Load().client; client != nil {
			held = append(held, client.Timers()...)
		}
	})
	slices.SortStableFunc(held, func(a, b watchdog.Held) int { return a.Deadline.Compare(b.Deadline) })
	return held
}
