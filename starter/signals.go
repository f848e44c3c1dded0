package starter

import (
	"context"
	"fmt"
)

// handleSignals answers the first request to end with a stop, and the second at once.
func (r *running) handleSignals(ended <-chan struct{}, stop context.CancelCauseFunc) {
	select {
	case <-ended:
		return
	case s := <-r.p.Signals:
		grace := "their grace period"
		if len(r.spec.Input) > 0 {
			grace = max(0, r.spec.WithDefaults().Grace).String()
		}
		r.show.note("stopping (%v): running calls get %v; once more to end at once. The same command continues later.", s, grace)
		stop(fmt.Errorf("interrupted (%v)", s))
	}
	select {
	case <-ended:
	case <-r.p.Signals:
		r.show.note("ended at once; the same command continues %s", r.spec.Name)
		r.p.Exit(ExitInterrupted)
	}
}
