package worker

import (
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/timers"
	"github.com/stretchr/testify/require"
)

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
	f.running(0).child.Signal(syscall.SIGKILL)
	require.Eventually(t, func() bool { return len(f.happened(slotOut)) == 1 }, 10*time.Minute, time.Millisecond)
	require.Zero(t, f.happened(slotOut)[0].Slot)
	for range 3 {
		done, err := f.process(lines("a", "b", "c"))
		require.NoError(t, err)
		require.EqualValues(t, 3, done.Entry.OK)
	}
	require.Equal(t, pid, f.running(1).pid())
	select {
	case <-f.set.gone:
		require.Fail(t, "the worker has a slot left")
	default:
	}
}

// K10: a program that is killed at the end of a stop's grace has cost its slot nothing, however often
// that happens, and the next one comes at once.
func TestServe_StopsCostNoRestart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Restarts = 1, 1
	f.serve(f.program("yes"))
	for i := range 5 {
		begun := filepath.Join(f.dir, "begun"+strconv.Itoa(i))
		done := f.stopped(lines("begin "+begun), noted(t, begun))
		require.NotNil(t, done.Rest, "the item has not failed")
	}
	require.Eventually(t, func() bool { return len(f.happened(slotReady)) == 6 }, 10*time.Minute, time.Millisecond)
	require.Empty(t, f.happened(slotOut))
	for _, e := range f.happened(slotReplaced) {
		require.True(t, e.Free)
		require.Zero(t, e.Wait)
	}
}

// K10: the same holds for a call that ends because another one in its program has expired.
func TestServe_ExpiryAmongOthersCostsNoRestart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Concurrency, f.options.NoRestarts = 1, 2, true
	f.limits.Timeout, f.limits.Attempts = 2*time.Second, 1
	f.serve(f.program("yes"))
	p := f.running(0)
	at := &callPlace{slot: p.slot}
	var inHand [2]pending
	var ids [2]int64
	for i := range inHand {
		inHand[i].items = 1
		ids[i] = p.begin(t.Context(), &inHand[i], at, func(int) []byte { return []byte(`"hang"`) }, func(int64) {})
	}
	p.end(ending{fault: calls.FaultOf(&timers.ExpiredError{Scope: "the call"}), guilty: ids[0]}, false)
	<-p.ended
	require.Eventually(t, func() bool { return len(f.happened(slotReady)) == 2 }, 10*time.Minute, time.Millisecond)
	require.Empty(t, f.happened(slotOut))
}

// K10: an incarnation that has answered an item has proven itself, though its call never ended: items
// that kill their program in turn with others do not use up the budget.
func TestServe_StreamedResultsMakeTheBudgetWhole(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots, f.options.Restarts, f.options.CallItems = 1, 1, 2
	f.limits.Attempts, f.batch = 1, 1000
	items := slices.Repeat([]string{"stream x", "kill"}, 6)
	o := f.run(f.program("yes"), "in.txt", lines(items...))
	require.Len(t, o.failures, 6)
	require.EqualValues(t, 6, o.totals.OK)
	require.Empty(t, f.happened(slotOut))
	for _, e := range f.happened(slotReplaced) {
		require.Zero(t, e.Wait, "each is the first in a row")
	}
}
