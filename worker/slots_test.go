package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stretchr/testify/require"
)

// K4: of several calls that are left behind at once, in a slot without further restarts, the first
// one ends it.
func TestRoster_OutOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	o := Options{Slots: 1, Concurrency: 2, NoRestarts: true}.withDefaults()
	f.metrics = newMetrics("worker-1", "pool", o.Logger)
	r := newSlotSet("worker-1", o, f.note)
	var places []calls.Place
	for range 2 {
		p, err := r.Take(t.Context(), calls.Occupant{Job: "nightly"})
		require.NoError(t, err)
		places = append(places, p.Place(nil))
	}
	for _, p := range places {
		require.False(t, p.Replace(false))
	}
	<-r.gone
	require.Len(t, f.happened(slotOut), 1)
	require.Len(t, f.happened(callLeft), 2)
	require.Zero(t, f.metrics.restarts.Load())
}

// K4: slots that go out at the same moment find both that none is left. The worker ends once, with the
// error of one of them.
func TestRoster_LastSlotsGoOutTogether(t *testing.T) {
	t.Parallel()
	var r *slotSet
	o := Options{Slots: 2, NoRestarts: true}.withDefaults()
	r = newSlotSet("worker-1", o, func(e slotEvent) {
		if e.Slot == 0 { // between its going out and the look at the others
			r.slots[1].replaced(errExited, false)
		}
	})
	_, ok := r.slots[0].replaced(errExited, false)
	require.False(t, ok)
	<-r.gone
	require.ErrorContains(t, r.why, "no slot is left: slot 1 is out after 0 restarts in a row")
}

// noted returns a channel that is closed once the file has a line.
func noted(t *testing.T, file string) <-chan struct{} {
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for count(file) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	return begun
}

// T16: the heartbeats end of a batch whose program has an expired timer, whether it can be killed or
// not: for those that it has in hand, and for those that reach it before its end.
func TestServe_NobodyVouchesForACondemnedProgram(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Concurrency = 1, 3
	f.serve(f.program("yes"))
	p := f.running(0)
	at := &callPlace{slot: p.slot}
	doubts := make([]int, 2)
	begin := func(i int) {
		c := &pending{items: 1, doubt: func() { doubts[i]++ }}
		p.begin(t.Context(), c, at, func(int) []byte { return []byte(`"hang"`) }, func(int64) {})
	}
	begin(0)
	require.Equal(t, []int{0, 0}, doubts)
	p.condemn("a#1")
	begin(1)
	require.Equal(t, []int{1, 1}, doubts)
	require.NoError(t, p.Reap(t.Context(), watchdog.Expiry{Scope: "load"}))
	<-p.ended
}

// T14: a program that has ended is reaped, also if the watchdog stops just then.
func TestServe_ReapedWhenTheWatchdogStops(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.serve(f.program("yes"))
	p := f.running(0)
	p.child.Kill()
	<-p.exited
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 { // both are ready each time
		require.NoError(t, p.Reap(stopped, watchdog.Expiry{Scope: "load"}))
	}
}

// A panic in one of the worker's goroutines ends as an error, and ends the program that it concerns.
func TestServe_DefectsEndAsErrors(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 1
	defects := make(chan error, 10)
	f.defect = func(err error) { defects <- err }
	f.measuring = func(measurement) { panic("no sink") }
	f.serve(f.program("yes"))
	p := f.running(0)
	f.limits.Attempts = 1
	_, err := f.process(lines("log x")) // which measures something
	require.NoError(t, err)
	require.ErrorContains(t, <-defects, "this is a defect of stint, please report it: reading a program's frames: panic: no sink")
	<-p.ended
}
