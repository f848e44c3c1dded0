package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/protocol"
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
	run := c.startFeed(func(s *job.Spec) { s.Window = 1 })
	put := func(id string, x protocol.Exchange) {
		require.Eventually(t, func() bool {
			x.Client = "a"
			_, err := c.exchange(1, id, x)
			return err == nil
		}, patience, 20*time.Millisecond)
	}
	round := func(n int) (counts []int) {
		put(fmt.Sprint("first", n), protocol.Exchange{Items: values(0, 1)})
		put(fmt.Sprint("others", n), protocol.Exchange{Items: values(1, 9), Want: true})
		gate <- struct{}{}
		put(fmt.Sprint("results", n), protocol.Exchange{Wait: 10 * time.Second})
		for sum := 0; sum < 9; {
			size := <-sizes
			sum += size
			counts = append(counts, size)
		}
		return counts
	}
	require.Equal(t, []int{9}, round(0), "automatic")
	three := int64(3)
	_, err := run.Set(t.Context(), job.Settings{BatchItems: &three})
	require.NoError(t, err)
	n := 0
	require.Eventually(t, func() bool {
		n++
		counts := round(n)
		return len(counts) == 3 && counts[0] == 3 && counts[1] == 3
	}, patience, 20*time.Millisecond, "the leg learns of it in a moment")
	c.closeFeed()
	require.Equal(t, job.Completed, c.wait(run).State)
}
