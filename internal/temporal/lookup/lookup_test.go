package lookup

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// stopsAt is a client of a server where a workflow's stop is recorded at a time. An answer takes a while, and is as
// old.
type stopsAt struct {
	client.Client
	at    time.Time
	takes func() time.Duration
	asked atomic.Int32
}

func (c *stopsAt) DescribeWorkflowExecution(ctx context.Context, _, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	c.asked.Add(1)
	memo := &common.Memo{}
	if !time.Now().Before(c.at) {
		notice, err := converter.GetDefaultDataConverter().ToPayload(wire.StopNotice{Reason: "enough"})
		if err != nil {
			return nil, err
		}
		memo.Fields = map[string]*common.Payload{wire.MemoStop: notice}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(c.takes()):
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Memo: memo}}, nil
}

func finderOf(c *stopsAt) *StopFinder {
	return &StopFinder{Client: c, Converter: converter.GetDefaultDataConverter()}
}

// A stop reaches all executions of a leg at once: a worker with a thousand slots asks once. The end of the one that
// asks keeps none of the others from the answer.
func TestStopFinder_IsAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &stopsAt{at: time.Now(), takes: func() time.Duration { return time.Second }}
		f := finderOf(c)
		first, end := context.WithCancel(t.Context())
		go f.Find(first, "job/leg-1", "run")
		synctest.Wait()
		end()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				notice, ok := f.Find(t.Context(), "job/leg-1", "run")
				require.True(t, ok)
				require.Equal(t, "enough", notice.Reason)
			})
		}
		all.Wait()
		require.EqualValues(t, 1, c.asked.Load())
		notice, ok := f.Find(t.Context(), "job/leg-1", "run")
		require.True(t, ok)
		require.Equal(t, "enough", notice.Reason)
		require.EqualValues(t, 2, c.asked.Load(), "nothing is remembered")
	})
}

// Whatever other look-ups are under way, who looks once the stop is recorded finds it.
func TestStopFinder_FindsWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			upTo := func(d time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(rnd.Int64N(int64(d)))
			}
			c := &stopsAt{at: time.Now().Add(50 * time.Millisecond), takes: func() time.Duration { return upTo(40 * time.Millisecond) }}
			f := finderOf(c)
			var all sync.WaitGroup
			for range 12 {
				wait := upTo(100 * time.Millisecond)
				all.Go(func() {
					time.Sleep(wait)
					after := !time.Now().Before(c.at)
					if _, ok := f.Find(t.Context(), "job/leg-1", "run"); after {
						require.True(t, ok, "seed %d", seed)
					}
				})
			}
			all.Wait()
		})
	}
}

// A workflow whose batches a pause has taken back says so, until a stop reaches it: that comes first.
func TestFindStop_Withdrawn(t *testing.T) {
	t.Parallel()
	found := func(fields map[string]any) (wire.StopNotice, bool) {
		memo := &common.Memo{Fields: map[string]*common.Payload{}}
		for name, value := range fields {
			payload, err := converter.GetDefaultDataConverter().ToPayload(value)
			require.NoError(t, err)
			memo.Fields[name] = payload
		}
		return FindStop(t.Context(), described{memo: memo}, converter.GetDefaultDataConverter(), "job/leg-1", "run")
	}
	_, ok := found(nil)
	require.False(t, ok)
	notice, ok := found(map[string]any{wire.MemoWithdrawn: true})
	require.True(t, ok)
	require.True(t, notice.Withdrawn)
	notice, ok = found(map[string]any{wire.MemoWithdrawn: true, wire.MemoStop: wire.StopNotice{Reason: "enough"}})
	require.True(t, ok)
	require.Equal(t, wire.StopNotice{Reason: "enough"}, notice)
}

// described is a client of a server with one workflow, which has the memo.
type described struct {
	client.Client
	memo *common.Memo
}

func (d described) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Memo: d.memo}}, nil
}

// A server that does not answer is not waited for.
func TestStopFinder_ServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := finderOf(&stopsAt{at: time.Now(), takes: func() time.Duration { return time.Hour }})
		began := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, ok := f.Find(t.Context(), "job/leg-1", "run")
				require.False(t, ok)
			})
		}
		all.Wait()
		require.LessOrEqual(t, time.Since(began), 2*noticeLimit)
	})
}
