package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// A setting of a running feed reaches the leg that takes items.
func TestFeed_SetBatchItems(t *testing.T) {
	t.Parallel()
	c := setup(t)
	sizes, gate := make(chan int, 1000), make(chan struct{})
	c.serve(worker.Batch(func(_ context.Context, all []int) ([]int, error) {
		if len(all) == 1 && all[0] == 0 {
			<-gate // until the others wait
		} else {
			sizes <- len(all)
		}
		return all, nil
	}), worker.Options{Slots: 1})
	f := c.startFeed(func(s *job.Spec) { s.Window = 1 })
	put := func(x wire.Exchange) {
		_, err := f.exchange(x)
		require.NoError(t, err)
	}
	round := func() (counts []int) {
		put(wire.Exchange{Items: values(0, 1)})
		put(wire.Exchange{Items: values(1, 9), Want: true})
		gate <- struct{}{}
		put(wire.Exchange{Wait: 10 * time.Second})
		for sum := 0; sum < 9; {
			size := <-sizes
			sum += size
			counts = append(counts, size)
		}
		return counts
	}
	require.Equal(t, []int{9}, round(), "automatic")
	three := int64(3)
	_, err := f.run.Set(t.Context(), job.Settings{BatchItems: &three})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		counts := round()
		return len(counts) == 3 && counts[0] == 3 && counts[1] == 3
	}, patience, 20*time.Millisecond, "the leg learns of it in a moment")
	f.close()
	require.Equal(t, job.Completed, c.wait(f.run).State)
}
