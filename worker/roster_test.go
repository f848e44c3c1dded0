package worker

import (
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stretchr/testify/require"
)

// K4: of several calls that are left behind at once, in a slot without further restarts, the first
// one ends it.
func TestRoster_OutOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := Options{Slots: 1, Concurrency: 2, Restarts: NoRestarts}.withDefaults()
	f.metrics = newMetrics("worker-1", "pool", o.Logger)
	r := newRoster("worker-1", o, newPermits(2), f.note)
	var places []activities.Slot
	for range 2 {
		p, err := r.Take(t.Context(), activities.Occupant{Job: "nightly"})
		require.NoError(t, err)
		places = append(places, p)
	}
	for _, p := range places {
		require.False(t, p.Replace())
	}
	<-r.gone
	require.Len(t, f.happened(SlotOut), 1)
	require.Len(t, f.happened(CallLeft), 2)
	require.Zero(t, f.metrics.restarts.Load())
}

// K4: the first restart in a row comes at once, the others after waits that double, up to a minute.
func TestRestartWait(t *testing.T) {
	t.Parallel()
	for n, want := range []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		require.Equal(t, want, restartWait(n), "restart %d", n)
	}
	require.Equal(t, time.Minute, restartWait(maxRestarts))
}

// K4: the budget is each slot's own: of two, one is out, and the other does all the work.
func TestServe_OneSlotOut(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Restarts = 2, 1
	f.serve(f.program("dies later"))
	pid := f.running(1).pid()
	f.running(0).child.signal(syscall.SIGKILL)
	require.Eventually(t, func() bool { return len(f.happened(SlotOut)) == 1 }, time.Minute, time.Millisecond)
	require.Zero(t, f.happened(SlotOut)[0].Slot)
	for range 3 {
		done, err := f.process(lines("a", "b", "c"))
		require.NoError(t, err)
		require.EqualValues(t, 3, done.Entry.OK)
	}
	require.Equal(t, pid, f.running(1).pid())
	select {
	case <-f.roster.gone:
		require.Fail(t, "the worker has a slot left")
	default:
	}
}
