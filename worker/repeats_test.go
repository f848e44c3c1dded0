package worker

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stretchr/testify/require"
)

// A program that may not be killed fails to end ten times a second, for hours: the log says so less and less often.
func TestR21_AProgramThatMayNotBeKilledFloodsNoLog(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.serve(f.answers(""))
	failed := watchdog.Event{Kind: watchdog.EventReapFailed, Worker: "slot 0", Scope: "a#1", Err: errors.New("operation not permitted")}
	count := func() int { return strings.Count(f.log.String(), "reaping failed") }
	for range 1024 {
		f.metrics.timerEvent(failed)
	}
	require.Equal(t, 11, count(), "1, 2, 4, … 1,024")
	require.EqualValues(t, 1024, f.metrics.failedReaps.Load(), "each is counted")
	f.metrics.timerEvent(watchdog.Event{Kind: watchdog.EventReaped, Worker: "slot 0", Scope: "a#1"})
	f.metrics.timerEvent(failed)
	require.Equal(t, 12, count(), "another one is said again")

	p := f.running(0)
	p.child.Kill()
	<-p.exited
	for range 10 {
		_ = p.Reap(t.Context(), watchdog.Expiry{Scope: "a#1", After: time.Second, Signal: syscall.SIGKILL})
	}
	require.Len(t, f.happened(timerExpired), 1)
}
