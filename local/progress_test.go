package local_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/local"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// 14.1: items of a batch that runs are reported before it ends, however long it takes.
func TestRun_ReportsItemsOfABatchThatRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var lines []string
	for i := range 100 {
		lines = append(lines, strconv.Itoa(i))
	}
	spec := b.spec(lines...)
	spec.BatchItems = 100
	seen := make(chan struct{})
	var calls atomic.Int64
	handler := worker.Each(func(ctx context.Context, item string) (string, error) {
		if calls.Add(1) > 40 {
			select {
			case <-seen:
			case <-ctx.Done():
			}
		}
		return item, ctx.Err()
	})
	o := b.options()
	o.ProgressInterval = 50 * time.Millisecond
	var once sync.Once
	var atEnd job.Report
	o.Progress = func(r job.Report) {
		if r.OK == 40 {
			once.Do(func() {
				atEnd = r
				close(seen)
			})
		}
	}
	report, err := local.Run(t.Context(), spec, handler, o)
	require.NoError(t, err)
	require.EqualValues(t, 100, report.OK)
	require.Zero(t, report.InHand)
	require.EqualValues(t, 40, atEnd.InHand)
	require.Zero(t, atEnd.Batches, "no batch had ended")
	percent, ok := atEnd.Percent()
	require.True(t, ok)
	require.InDelta(t, 40, percent, 1)
}
