package watchdog

import (
	"time"
)

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
