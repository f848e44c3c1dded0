package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/protocol"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
)

// The window is exact: never more in flight, over legs that overlap and places that are handed on,
// and it is used.
func TestWindow_NeverExceeded(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 2, 7, 64} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			w := setup(t, 8000)
			w.spec.Window, w.pageLimit = window, 150
			w.process = uneven
			report := w.mustRun()
			require.GreaterOrEqual(t, report.Legs, 5)
			require.Equal(t, window, w.most)
			for leg := 1; leg < report.Legs; leg++ {
				require.LessOrEqual(t, w.commands["signals to "+protocol.LegID("nightly", leg)], 8, "leg %d", leg)
			}
		})
	}
}

// The end of a leg is not a gap: its free places work for the next leg while its last batches run.
func TestWindow_NoGapBetweenLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 10_000)
	w.spec.Window, w.pageLimit, w.took = 10, 150, time.Millisecond
	w.process = uneven
	report := w.mustRun()
	require.GreaterOrEqual(t, report.Legs, 7)
	var work time.Duration
	for _, x := range w.all {
		work += x.took
	}
	last := w.all[len(w.all)-1]
	took := last.at.Add(last.took).Sub(w.all[0].at)
	require.Less(t, took, work/time.Duration(w.spec.Window)*5/4, "all places work nearly all of the time")
}

// A batch that takes very long keeps its own place and no other: legs after it work on, whether it
// runs in the job itself or in a leg, and although later legs end before its own.
func TestWindow_SlowBatchHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]int64{"in the job": 30, "in a leg": 300, "at the end of a leg": 16*10 + 50*10 - 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 4000)
			w.spec.Window, w.pageLimit, w.took = 4, 50, time.Second
			w.process = func(x *execution) {
				if x.in.Batch.First == slow {
					x.took = 10 * time.Hour
				}
			}
			w.mustRun()
			last := w.all[len(w.all)-1]
			// 400 batches of a second with three or four places.
			require.Less(t, last.seconds(), 200.0, "when the last batch was dispatched")
		})
	}
}

// The same with two slow batches in two legs: as both are open, no other leg can be, but the places
// are not lost for those that follow.
func TestWindow_PlacesSurviveTwoSlowLegs(t *testing.T) {
	t.Parallel()
	w := setup(t, 3000)
	w.spec.Window, w.pageLimit, w.took = 4, 50, time.Second
	w.process = func(x *execution) {
		if first := x.in.Batch.First; first == 200 || first == 700 {
			x.took = time.Hour
		}
	}
	w.mustRun()
	last := w.all[len(w.all)-1]
	require.Less(t, last.seconds(), time.Hour.Seconds()+200)
}

// Places that nobody took stay.
func TestLeg_HandingFails(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 4, time.Second
	w.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(errors.New("it has ended"))
	w.process = func(x *execution) { x.took *= time.Duration(x.number) }
	in := w.legInput(8)
	in.Next = protocol.LegID("nightly", 2)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 4, result.Window)
	require.LessOrEqual(t, w.commands["signal grant"], maxHandOvers)
}

// The next leg may end before this one: the places are then for the one after it, as soon as that
// is there.
func TestLeg_HandsOnToTheOneAfterTheNext(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 4
	w.env.OnSignalExternalWorkflow(mock.Anything, protocol.LegID("nightly", 2), mock.Anything, mock.Anything, mock.Anything).
		Return(errors.New("it has ended"))
	granted := 0
	w.env.OnSignalExternalWorkflow(mock.Anything, protocol.LegID("nightly", 3), mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			granted += arg.(int)
			return nil
		}).Maybe()
	w.process = func(x *execution) {
		x.took = time.Duration(x.number) * time.Second
		if x.number == 4 {
			x.took = time.Hour
		}
	}
	w.at(10*time.Second, func() { w.env.SignalWorkflow(signalNext, protocol.LegID("nightly", 3)) })
	w.at(time.Minute, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, 3, granted)
	})
	in := w.legInput(4)
	in.Next = protocol.LegID("nightly", 2)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 1, result.Window)
}

// While a repetition waits the leg keeps its places: it will need one.
func TestLeg_HandsNothingOnWhileARepetitionWaits(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window = 4
	w.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			require.Len(t, w.tries(0), 2, "not before the failed batch runs again")
			return nil
		}).Maybe()
	w.process = func(x *execution) {
		if x.in.Batch.First == 0 && len(w.tries(0)) == 1 {
			x.fails(transient("once"))
		}
		if x.in.Batch.First > 0 {
			x.took = time.Minute
		}
	}
	in := w.legInput(4)
	in.Next = protocol.LegID("nightly", 2)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.EqualValues(t, 40, result.Totals.OK)
}

// Places that were granted during a run, and the next leg's name, are there in the new run.
func TestLeg_ContinuesAsNewWithPlaces(t *testing.T) {
	t.Parallel()
	w := setup(t, 0)
	w.spec.Window, w.took = 3, time.Second
	w.historyLength = func() int {
		if w.runs == 1 {
			return legEvents * min(1, len(w.all)/20)
		}
		return 0
	}
	granted := 0
	w.onEnv = func() {
		w.env.OnSignalExternalWorkflow(mock.Anything, protocol.LegID("nightly", 2), "", signalGrant, mock.Anything).
			Return(func(_, _, _, _ string, arg any) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				granted += arg.(int)
				return nil
			})
	}
	w.onEnv()
	w.at(1500*time.Millisecond, func() { w.env.SignalWorkflow(signalGrant, 4) })
	w.at(1600*time.Millisecond, func() { w.env.SignalWorkflow(signalNext, protocol.LegID("nightly", 2)) })
	// These arrive while the last batches of the first run are under way, or its commit.
	w.commitTook = 10 * time.Second
	w.commit = func(activities.CommitInput) error {
		if len(w.commits) == 1 {
			w.later(5*time.Second, func() { w.env.SignalWorkflow(signalGrant, 2) })
		}
		return nil
	}
	in := w.legInput(60)
	in.Next = protocol.LegID("nightly", 1)
	result, err := w.runLeg(in)
	require.NoError(t, err)
	require.Equal(t, 2, w.runs)
	require.EqualValues(t, 600, result.Totals.OK)
	require.Equal(t, 9, w.most, "3 at first, 4 granted in time, 2 during the commit")
	require.Equal(t, 9, granted+result.Window, "no place is lost")
	require.Positive(t, granted, "the next leg's name is known to the second run")
	require.LessOrEqual(t, w.commands["signal grant"], maxHandOvers)
}
