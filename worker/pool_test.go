package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// TestWorker_LateBinding (W12): a batch waits in the pool's queue, never in one worker's: while the one
// worker is busy, one that has just come gets all that waits.
func TestWorker_LateBinding(t *testing.T) {
	t.Parallel()
	const n, batch = 40, 2
	c := setup(t)
	var busy, other atomic.Int64 // items that they have been given
	held := make(chan struct{})
	c.serve(worker.Each(func(_ context.Context, i int) (int, error) {
		busy.Add(1)
		<-held
		return i, nil
	}), worker.Options{Slots: 1})
	var input strings.Builder
	for i := range n {
		fmt.Fprintln(&input, i)
	}
	run, _ := c.start("in.jsonl", input.String(), func(s *job.Spec) { s.BatchItems, s.Expiry = batch, time.Hour })
	require.Eventually(t, func() bool { return busy.Load() == 1 }, patience, pollEvery)
	c.serve(worker.Each(func(_ context.Context, i int) (int, error) {
		other.Add(1)
		return i, nil
	}), worker.Options{Slots: 1})
	require.Eventually(t, func() bool { return other.Load() == n-batch }, patience, pollEvery)
	require.EqualValues(t, 1, busy.Load())
	close(held)
	require.Equal(t, job.Completed, c.wait(run).State)
	require.Equal(t, input.String(), c.read("out"))
	require.EqualValues(t, batch, busy.Load())
}

// TestWorker_WithoutSlots (K4, K8): a worker whose slots are out ends with an error that says why; its
// batches go to another worker, without waiting for an expiry.
func TestWorker_WithoutSlots(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	h := worker.Serve("/proc/self/exe")
	options := worker.Options{Slots: 1, NoRestarts: true, Env: []string{"STINT_TEST_PROGRAM=yes", "GORACE"}, Logger: silent}
	w, err := worker.New(jobs.NewClient(c.client, nil), "pool", h, options)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	run, spec := c.start("in.txt", "a\nb\nexit 3\nc\n", func(s *job.Spec) { s.BatchItems, s.Expiry = 4, time.Hour })
	select {
	case err = <-ended:
	case <-time.After(patience):
		require.FailNow(t, "the worker does not end")
	}
	require.ErrorContains(t, err, "serving pool pool: no slot is left: slot 0 is out after 0 restarts in a row")
	require.ErrorContains(t, err, "crash: exit 3")
	options.NoRestarts = false
	c.serve(h, options)
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 3, report.OK)
	require.EqualValues(t, 1, report.Failed)
	require.Zero(t, report.Expiries)
	require.Equal(t, "\"a\"\n\"b\"\n\"c\"\n", c.read("out"))
	require.Contains(t, c.read(strings.TrimPrefix(spec.WithDefaults().Errors, c.dir+"/")), `"kind":"crash"`)
}
