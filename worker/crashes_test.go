package worker

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// K1, K5: a process that ends while nothing is in hand is replaced in its slot, before anybody asks for
// it; the events say which has ended, of what, and which has come. The other slot is left alone.
func TestServe_ReplacedUnasked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.options.Slots = 2
	f.serve(f.program("yes"))
	first, second := f.running(0).pid(), f.running(1).pid()
	f.running(1).child.Signal(syscall.SIGKILL)
	require.Eventually(t, func() bool { return len(f.happened(slotReady)) == 3 }, 10*time.Minute, time.Millisecond)
	replaced := f.replaced(1)
	require.Equal(t, 1, replaced[0].Slot)
	require.Equal(t, second, replaced[0].PID)
	require.Equal(t, 1, replaced[0].Incarnation)
	require.ErrorContains(t, replaced[0].Err, "signal: killed")
	ready := f.happened(slotReady)[2]
	require.Equal(t, 1, ready.Slot)
	require.Equal(t, 1, ready.Incarnation)
	require.NotEqual(t, second, ready.PID)
	require.True(t, alive(ready.PID))
	require.Equal(t, first, f.running(0).pid())
}

// K6: over any number of crashes, in several slots, every item is counted once, with its outcome.
// A crash counts once, however many calls it ends.
func TestServe_CountsOverManyCrashes(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 4} {
		t.Run(strconv.Itoa(concurrency), func(t *testing.T) {
			t.Parallel()
			countsOverManyCrashes(t, concurrency)
		})
	}
}

func countsOverManyCrashes(t *testing.T, concurrency int) {
	const n = 150
	f := setup(t)
	f.options.Slots, f.options.Concurrency, f.batch, f.limits.Attempts = 2, concurrency, int64(50/concurrency), 2
	random := seeded(t, 6)
	died := filepath.Join(f.dir, "died")
	var items, want []string
	var bad []int64
	for i := range n {
		if random.IntN(40) == 0 {
			items = append(items, "die "+died)
			bad = append(bad, int64(i))
			continue
		}
		items = append(items, strconv.Itoa(i))
		want = append(want, strconv.Quote(strconv.Itoa(i)))
	}
	require.NotEmpty(t, bad)
	o := f.run(f.program("yes"), "in.txt", lines(items...))
	require.Equal(t, lines(want...), o.output)
	require.Equal(t, bad, o.items())
	attempts := 0
	for _, failure := range o.failures {
		require.Equal(t, job.KindCrash, failure.Kind)
		attempts += failure.Attempts
	}
	require.EqualValues(t, n-len(bad), o.totals.OK)
	require.EqualValues(t, len(bad), o.totals.Failed)
	require.EqualValues(t, len(want), o.totals.CallItems, "what was answered")
	crashes := count(died)
	require.EqualValues(t, crashes, o.totals.Crashes)
	f.replaced(crashes)
	require.LessOrEqual(t, crashes, attempts*concurrency, "the fault of one item can be that of another's call, too")
	require.Empty(t, f.happened(slotOut))
}
