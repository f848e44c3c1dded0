package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cutOff returns a client of which some calls do not reach the server while cut is set.
func (s *server) cutOff(t *testing.T, cut *atomic.Bool, calls ...string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{
		HostPort: s.address, Logger: log.NewStructuredLogger(quiet),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
				if cut.Load() && slices.Contains(calls, method[strings.LastIndex(method, "/")+1:]) {
					return status.Error(codes.Unavailable, "cut off")
				}
				return invoke(ctx, method, in, out, cc, o...)
			})}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A batch that ends while the server is away has not died, however long that takes: with one attempt, each of its items
// would be tried alone.
func TestD53_BatchesThatEndWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var cut atomic.Bool
	via := s.cutOff(t, &cut, "RecordActivityTaskHeartbeat", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled")
	j := s.newJobVia(t, via, "ends-while-away", 10, "x")
	j.spec.Attempts, j.spec.Expiry = 1, 8*time.Second // the next execution heartbeats within it on a slow machine, too
	begun, reported := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	j.on(func(ctx context.Context, text string) (string, error) {
		switch n := calls.Add(1); {
		case n == 1:
			cut.Store(true)
			close(begun)
		case n > 10: // the batch runs again
			select {
			case <-reported:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return text, nil
	})
	j.start(jobs.StartOptions{})
	<-begun
	some := func(is func(id string) bool) func() bool {
		return func() bool { return is(j.spec.Name) || is(wire.LegID(j.spec.Name, 1)) }
	}
	expired := func(e *history.HistoryEvent) bool { return e.GetActivityTaskTimedOutEventAttributes() != nil }
	require.Eventually(t, some(func(id string) bool { return j.count(id, expired) > 0 }), 10*time.Minute, 20*time.Millisecond, "the server has given the batch up")
	cut.Store(false)
	require.Eventually(t, some(func(id string) bool { return j.hasSignal(id, wire.SignalCameBack) }), 10*time.Minute, 20*time.Millisecond)
	close(reported)
	report := j.completes()
	require.EqualValues(t, 10, report.OK)
	require.Zero(t, report.Expiries)
	require.Zero(t, report.Isolations)
}

// L5: ticks that a slot runs while its worker is cut off, and that the next execution runs again, are counted as
// repeated. The worker has not died.
func TestD54_RepeatedTicksOfASlotThatWasCutOff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for try := range 10 {
		if s.cutOffOnce(t, fmt.Sprintf("loop-cut-off-%d", try)) {
			return
		}
	}
	t.Error("each time another execution was given up when the loop was stopped")
}

// cutOffOnce runs a loop whose worker is cut off. It returns false if the execution that the stop has met was given up,
// as on a machine that is busy: nobody counts its ticks.
func (s *server) cutOffOnce(t *testing.T, name string) bool {
	var cut atomic.Bool
	l := s.newLoop(t, name, 0)
	l.via = s.cutOff(t, &cut, "RecordActivityTaskHeartbeat")
	l.spec.Loop.Slots, l.spec.Loop.Every, l.spec.Expiry = 1, 20*time.Millisecond, time.Second
	t.Cleanup(l.worker(2))
	l.start(jobs.StartOptions{})
	l.await(10)
	cut.Store(true)
	repeated := func() int64 {
		ran := l.ticks(0)
		slices.Sort(ran)
		return int64(len(ran) - len(slices.Compact(ran)))
	}
	retired := func() int { // executions that the cut has ended
		report, err := l.run.Report(t.Context())
		if err != nil || len(report.OpenLegs) == 0 {
			return 0
		}
		desc, err := s.temporal.DescribeWorkflowExecution(t.Context(), report.OpenLegs[0], "")
		if err != nil || len(desc.GetPendingActivities()) == 0 {
			return 0
		}
		n := 0
		_, _ = fmt.Sscanf(desc.GetPendingActivities()[0].GetActivityId(), "batch-1.%d", &n)
		return n - 1
	}
	expired := func() (n int) {
		for _, e := range l.histories(2)["leg-1"].GetEvents() {
			if e.GetActivityTaskTimedOutEventAttributes() != nil {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return retired() >= 2 }, 10*time.Minute, 20*time.Millisecond, "the slot is given up, and its next execution, too")
	cut.Store(false)
	before := int64(len(l.ticks(0)))
	require.Eventually(t, func() bool { return int64(len(l.ticks(0))) > 2*before }, 10*time.Minute, 20*time.Millisecond, "it goes on")
	given := expired()
	require.Positive(t, given)
	report := l.stops()
	if expired() > given {
		return false
	}
	require.NotZero(t, repeated())
	require.GreaterOrEqual(t, report.Loop.Repeated, repeated())
	require.Equal(t, report.Loop.Ticks+repeated(), int64(len(l.ticks(0))), "each tick is in the count once")
	return true
}
