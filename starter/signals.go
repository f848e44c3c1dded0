package starter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-run/stint/job"
)

// onceMore is the time within which further signals count as the first one: wrappers such as `timeout` send two.
const onceMore = time.Second

// secondSignal waits for a second request to end, after one that has come just now. It returns false once ended is closed.
func (p *Program) secondSignal(ended <-chan struct{}) bool {
	first := time.Now()
	for {
		select {
		case <-ended:
			return false
		case <-p.Signals:
			if time.Since(first) >= onceMore {
				return true
			}
		}
	}
}

// handleSignals answers the first request to end with a stop, and the second at once.
func (r *running) handleSignals(ended <-chan struct{}, stop context.CancelCauseFunc) {
	select {
	case <-ended:
		return
	case s := <-r.p.Signals:
		grace := "their grace period"
		if len(r.spec.Inputs()) > 0 {
			grace = max(0, r.spec.WithDefaults().Grace).String()
		}
		r.show.note("stopping (%v): running calls get %v; once more to end at once. %s", s, grace, r.later())
		stop(fmt.Errorf("interrupted (%v)", s))
	}
	if r.p.secondSignal(ended) {
		r.show.note("ended at once. %s", r.later())
		r.p.Exit(ExitInterrupted)
	}
}

// later says what the same command does after an interruption.
func (r *running) later() string {
	if slices.Contains(r.spec.Inputs(), job.StandardInput) {
		return "The same command continues later if the standard input has been read to its end by then, and starts afresh otherwise."
	}
	return "The same command continues later."
}
