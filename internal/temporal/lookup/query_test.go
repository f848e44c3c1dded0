package lookup

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"github.com/stint-run/stint/internal/test/testserver"
)

const (
	hops  = "hops"
	asked = "hopped"
)

// hopping makes a timer for each signal, and answers how many there were.
func hopping(ctx workflow.Context) error {
	n := 0
	if err := workflow.SetQueryHandler(ctx, asked, func() (int, error) { return n, nil }); err != nil {
		return err
	}
	for signals := workflow.GetSignalChannel(ctx, hops); ; n++ {
		signals.Receive(ctx, nil)
		_ = workflow.NewTimer(ctx, time.Hour)
	}
}

// slow lets the next n queries that a worker is to answer from its cache wait for a word, and counts those that it
// cannot answer.
type slow struct {
	n, failed atomic.Int32
	begun     chan chan struct{}
}

func (s *slow) intercept(ctx context.Context, method string, in, out any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	if answer, ok := in.(*workflowservice.RespondQueryTaskCompletedRequest); ok && answer.GetCompletedType() == enums.QUERY_RESULT_TYPE_FAILED {
		s.failed.Add(1)
	}
	err := call(ctx, method, in, out, c, o...)
	task, ok := out.(*workflowservice.PollWorkflowTaskQueueResponse)
	if ok && task.GetQuery() != nil && len(task.GetHistory().GetEvents()) == 0 && s.n.Add(-1) >= 0 {
		word := make(chan struct{})
		s.begun <- word
		<-word
	}
	return err
}

// A worker that answers reads the history anew if the workflow has left its cache, and may find that it has gone on:
// the SDK's replay fails then, although nothing is wrong.
func TestQuery_WhileAWorkflowGoesOn(t *testing.T) {
	server, err := testserver.Start(t.Context())
	require.NoError(t, err)
	defer server.Stop()
	held := &slow{begun: make(chan chan struct{})}
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	dial := func(o ...grpc.DialOption) client.Client {
		c, err := client.Dial(client.Options{
			HostPort: server.Address(), Namespace: testserver.Namespace, Logger: quiet, ConnectionOptions: client.ConnectionOptions{DialOptions: o},
		})
		require.NoError(t, err)
		return c
	}
	own, c := dial(grpc.WithChainUnaryInterceptor(held.intercept)), dial()
	defer own.Close()
	defer c.Close()
	w := worker.New(own, "queue", worker.Options{MaxConcurrentWorkflowTaskPollers: 8})
	w.RegisterWorkflow(hopping)
	require.NoError(t, w.Start())
	defer w.Stop()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "queue"}, hopping)
	require.NoError(t, err)
	hopped := func() (n int, err error) {
		err = Query(ctx, c, "w", "", asked, &n)
		return n, err
	}
	hop := func(n int) {
		require.NoError(t, c.SignalWorkflow(ctx, "w", "", hops, nil))
		require.Eventually(t, func() bool {
			timers := 0
			for events := c.GetWorkflowHistory(ctx, "w", "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
				e, err := events.Next()
				require.NoError(t, err)
				if e.GetEventType() == enums.EVENT_TYPE_TIMER_STARTED {
					timers++
				}
			}
			return timers == n
		}, time.Minute, 10*time.Millisecond)
	}
	hop(1)
	n, err := hopped() // from here on the worker has the workflow in its cache
	require.NoError(t, err)
	require.Equal(t, 1, n)

	held.n.Store(1)
	var asking sync.WaitGroup
	asking.Go(func() { n, err = hopped() })
	word := <-held.begun
	hop(2)
	worker.PurgeStickyWorkflowCache() // as when the workflow ends, or others need its place
	close(word)
	asking.Wait()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Positive(t, held.failed.Load(), "the SDK answers it now: Query need not ask again any more")
}
