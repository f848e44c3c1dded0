package timers

import (
	"fmt"
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

// AwayError reports that no timer can be held, because nobody would notice its expiry: the watchdog is
// not running, or its last round is too long ago (see [Watchdog.Healthy]).
type AwayError struct {
	Worker string        // whose client asked
	Scope  string        // what for
	Late   time.Duration // time since the last round; 0: the watchdog is not running
}

func (e *AwayError) Error() string {
	if e.Late == 0 {
		return fmt.Sprintf("scope %s of worker %s: the watchdog is not running", shorten(e.Scope), e.Worker)
	}
	return fmt.Sprintf("scope %s of worker %s: the watchdog has not looked for %v", shorten(e.Scope), e.Worker, e.Late.Round(time.Millisecond))
}
