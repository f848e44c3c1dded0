package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/test/jobtest"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
)

// S12: a run that Temporal has ended before it had a workflow task never answers a query. The job continues
// from the outcomes of the earlier runs.
func TestResume_AfterARunThatNeverRan(t *testing.T) {
	t.Parallel()
	c := setup(t)
	input := jobtest.Lines(400)
	type item struct {
		N int `json:"n"`
	}
	var done atomic.Int64
	enough := make(chan struct{})
	first := c.serve(worker.Each(func(_ context.Context, i item) (item, error) {
		if i.N == 100 {
			<-enough // batches come in no certain order
			return i, errors.New("not yet")
		}
		if done.Add(1) == 100 {
			close(enough)
		}
		return i, nil
	}), worker.Options{Slots: 2})
	run, _ := c.start("in.jsonl", input, func(s *job.Spec) { s.BatchItems, s.OnError = 10, job.OnErrorStop })
	_, err := run.Wait(t.Context())
	var failed *jobs.FailedError
	require.ErrorAs(t, err, &failed)
	first.drain()
	first.await()

	client := jobs.NewClient(c.client, nil)
	for range 2 { // the second of them has only the input of the first
		_, err = client.Resume(t.Context(), "job", jobs.ResumeOptions{})
		require.NoError(t, err)
		require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "before any worker came"))
	}
	run, err = client.Resume(t.Context(), "job", jobs.ResumeOptions{})
	require.NoError(t, err)
	c.serve(worker.Each(func(_ context.Context, i item) (item, error) { return i, nil }), worker.Options{Slots: 1})
	report := c.wait(run)
	require.Equal(t, job.Completed, report.State)
	require.GreaterOrEqual(t, report.Resumed, int64(50), "what the first run had done")
	require.EqualValues(t, 399, report.OK)
	require.EqualValues(t, 1, report.Failed, "the item that had failed is recorded")
}

// S12: wherever Temporal ends the runs that continue a job, what any run has done stays done.
func TestResume_TerminatedAtEachEvent(t *testing.T) {
	jobtest.Unraced(t)
	t.Parallel()
	c := setup(t)
	type item struct {
		N int `json:"n"`
	}
	var done atomic.Int64 // calls that have returned a result
	gate := make(chan struct{})
	c.serve(worker.Each(func(ctx context.Context, i item) (item, error) {
		if done.Load() >= 200 {
			if err := pass(ctx, gate); err != nil {
				return i, err
			}
		}
		done.Add(1)
		return i, nil
	}), worker.Options{Slots: 1})
	run, _ := c.start("in.jsonl", jobtest.Lines(400), func(s *job.Spec) { s.BatchItems, s.Expiry = 10, 2*time.Second })
	require.Eventually(t, func() bool { // the outcomes of 20 batches have been accepted, and no leg has committed them
		report, err := run.Report(t.Context())
		return err == nil && report.OK == 200
	}, patience, 10*time.Millisecond)
	require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "test"))
	c.terminateAtEachEvent(25)
	close(gate)
	report := c.wait(c.resume())
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 400, report.OK)
	require.EqualValues(t, 200, report.Resumed, "nothing that was done is run again")
}

// A job that was ended before it began has done nothing, and can be resumed.
func TestResume_AfterAJobThatNeverRan(t *testing.T) {
	t.Parallel()
	c := setup(t)
	_, _ = c.start("in.jsonl", jobtest.Lines(10), nil)
	require.NoError(t, c.client.TerminateWorkflow(t.Context(), "job", "", "before any worker came"))
	run, err := jobs.NewClient(c.client, nil).Resume(t.Context(), "job", jobs.ResumeOptions{})
	require.NoError(t, err)
	c.serve(worker.Each(func(_ context.Context, v any) (any, error) { return v, nil }), worker.Options{Slots: 1})
	report := c.wait(run)
	require.EqualValues(t, 10, report.OK)
}
