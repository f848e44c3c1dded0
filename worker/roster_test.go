package worker

import (
	"testing"

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
