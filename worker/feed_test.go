package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/worker"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

// startFeed starts a feed.
func (c *cluster) startFeed(change func(*job.Spec)) *job.Run {
	c.t.Helper()
	spec := job.Spec{Name: "job", Pool: "pool", Source: job.SourceFeed, Output: filepath.Join(c.dir, "out"), Backoff: time.Millisecond}
	if change != nil {
		change(&spec)
	}
	run, err := job.NewClient(c.client).Start(c.t.Context(), spec)
	require.NoError(c.t, err)
	return run
}

func (c *cluster) exchange(leg int, id string, x protocol.Exchange) (protocol.Exchanged, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var a protocol.Exchanged
	h, err := c.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: protocol.LegID("job", leg), UpdateID: id, UpdateName: protocol.UpdateExchange, Args: []any{x}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return a, err
	}
	return a, h.Get(ctx, &a)
}

func (c *cluster) closeFeed() {
	c.t.Helper()
	h, err := c.client.UpdateWorkflow(c.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: "job", UpdateName: protocol.UpdateClose, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(c.t, err)
	require.NoError(c.t, h.Get(c.t.Context(), nil))
}

func values(from, n int) []json.RawMessage {
	var all []json.RawMessage
	for i := range n {
		all = append(all, fmt.Appendf(nil, "%d", from+i))
	}
	return all
}

func TestFeed_Smoke(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.serve(worker.Each(func(_ context.Context, n int) (int, error) {
		if n%7 == 0 {
			return 0, fmt.Errorf("%d is bad", n)
		}
		return 2 * n, nil
	}), worker.Options{Slots: 2})
	run := c.startFeed(nil)
	var a protocol.Exchanged
	require.Eventually(t, func() bool {
		var err error
		a, err = c.exchange(1, "first", protocol.Exchange{Client: "a", Items: values(1, 10), Want: true, Wait: 10 * time.Second})
		return err == nil
	}, patience, 20*time.Millisecond)
	results := a.Results
	for n := 0; a.Pending > 0; n++ {
		var err error
		a, err = c.exchange(1, fmt.Sprint("more", n), protocol.Exchange{Client: "a", Wait: 10 * time.Second})
		require.NoError(t, err)
		results = append(results, a.Results...)
	}
	require.Len(t, results, 10)
	began := time.Now()
	for i := range 20 {
		a, err := c.exchange(1, fmt.Sprint("one", i), protocol.Exchange{Client: "a", Items: values(100+i, 1), Want: true, Wait: 10 * time.Second})
		require.NoError(t, err)
		require.Len(t, a.Results, 1)
	}
	t.Logf("a call: %v", time.Since(began)/20)
	c.closeFeed()
	report := c.wait(run)
	data, _ := json.MarshalIndent(report, "", " ")
	t.Logf("%s", data)
	require.Equal(t, job.Completed, report.State)
	require.EqualValues(t, 30, report.Planned)
	t.Log(c.read("out"))
	t.Log(c.read("out.errors.jsonl"))
}
