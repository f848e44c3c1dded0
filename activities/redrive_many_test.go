package activities

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/calls/callstest"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// watchHeap returns a function that tells by how many bytes the heap has grown at most since.
func watchHeap() (most func() uint64) {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, peak := inUse(), uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				peak = max(peak, inUse())
			case <-done:
				return
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		return max(peak, before) - before
	}
}

// However many items have failed: memory holds some of them at a time.
func TestRedrive_ManyFailedItemsInLittleMemory(t *testing.T) { // not parallel: others would count
	if testing.Short() {
		t.Skip("100,000 failed items")
	}
	const n, size = 100_000, 500
	f := setup(t, "in.txt", "")
	file, err := os.Create(f.path("in.txt"))
	require.NoError(t, err)
	for i := range n {
		_, err := fmt.Fprintf(file, "%d %s\n", i, strings.Repeat("x", size))
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is held, not what was, shall be seen
	f.spec.BatchItems = 5000
	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}, Each: func(c *calls.Call, _ calls.Item) {
		c.Answer.Fail(&calls.Fault{Kind: job.KindError, Err: job.Error{Message: "broken"}}, 1)
	}}, Options{})
	first := f.finish(f.commit(nil, f.processAll(f.plan())...))
	require.EqualValues(t, n, first.Books.Failed)
	f.redrive = &job.Redrive{
		Manifests: []string{f.keys("run-1/manifests/")[0]}, Output: first.Output, Planned: n, Runs: []string{"run-1"},
	}

	f.serve(&callstest.Handler{As: calls.Traits{Form: calls.Lines}}, Options{})
	f.newRun("run-2")
	most := watchHeap()
	batches := f.plan()
	require.Less(t, most(), uint64(16<<20), "Plan, of %d MiB", n*size>>20)
	require.Greater(t, len(f.keys("run-2/spool-")), 5, "the copy has many chunks")
	head := f.commit(nil, f.processAll(batches)...)
	most = watchHeap()
	result := f.finish(head)
	require.Less(t, most(), uint64(16<<20), "Finish, of %d MiB", n*size>>20)
	require.Zero(t, result.Books.Failed)
	require.True(t, f.read("in.txt") == f.read("out.jsonl"), "the whole input is the output")
}
