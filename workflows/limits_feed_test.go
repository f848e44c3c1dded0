package workflows

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/protocol"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/dispatch"
	"github.com/stint-run/stint/workflows/internal/intake"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// accountant counts what one run of a workflow has had done, what has reached it, and what all that carries.
type accountant struct {
	interceptor.WorkerInterceptorBase
	kind string // of the workflow
	Commands
	updates int
	largest int // payload
}

func (a *accountant) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &accountIn{interceptor.WorkflowInboundInterceptorBase{Next: next}, a}
}

// most is how many events the run has at most: an update is accepted and completed, in a workflow task of its own.
func (a *accountant) most() int { return a.Most() + (2+3)*a.updates }

func (a *accountant) carry(ctx workflow.Context, values ...any) bool {
	if workflow.GetInfo(ctx).WorkflowType.Name != a.kind {
		return false
	}
	for _, v := range values {
		if payload, err := converter.GetDefaultDataConverter().ToPayload(v); err == nil {
			a.Bytes += len(payload.GetData())
			a.largest = max(a.largest, len(payload.GetData()))
		}
	}
	return true
}

type accountIn struct {
	interceptor.WorkflowInboundInterceptorBase
	a *accountant
}

func (i *accountIn) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&accountOut{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.a})
}

func (i *accountIn) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	i.a.carry(ctx, in.Args...)
	result, err := i.Next.ExecuteWorkflow(ctx, in)
	i.a.carry(ctx, result)
	return result, err
}

func (i *accountIn) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if i.a.carry(ctx) {
		i.a.Received++
	}
	return i.Next.HandleSignal(ctx, in)
}

func (i *accountIn) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	i.a.updates++
	answer, err := i.Next.ExecuteUpdate(ctx, in)
	i.a.carry(ctx, append(in.Args, answer)...)
	return answer, err
}

type accountOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	a *accountant
}

func (o *accountOut) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if o.a.carry(ctx, args...) {
		o.a.Activities++
		o.a.carry(ctx, args...) // the result is no larger: the items come back
	}
	return o.Next.ExecuteActivity(ctx, name, args...)
}

func (o *accountOut) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	if o.a.carry(ctx, args...) {
		o.a.Children++
	}
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}

func (o *accountOut) NewTimer(ctx workflow.Context, d time.Duration) workflow.Future {
	if o.a.carry(ctx) {
		o.a.Timers++
	}
	return o.Next.NewTimer(ctx, d)
}

func (o *accountOut) SignalExternalWorkflow(ctx workflow.Context, id, run, name string, arg any) workflow.Future {
	if o.a.carry(ctx, arg) {
		o.a.Sent++
	}
	return o.Next.SignalExternalWorkflow(ctx, id, run, name, arg)
}

func (o *accountOut) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	if o.a.carry(ctx, memo) {
		o.a.Memos++
	}
	return o.Next.UpsertMemo(ctx, memo)
}

// requireWithin fails unless the run is far within Temporal's limits.
func (a *accountant) requireWithin(t *testing.T) {
	t.Helper()
	const margin = 3 // a leg of a feed does not continue as new
	require.Less(t, a.most(), limitEvents/margin)
	require.Less(t, a.Bytes+EventBytes*a.most(), limitBytes/margin)
	require.Less(t, a.largest, limitPayload/margin)
	require.Less(t, a.updates, busyUpdates)
}

// feedExchanges is how many exchanges TestLimits_Feed simulates: `make limits` runs ten million, in one process after the other.
func feedExchanges(t *testing.T) int {
	t.Helper()
	given := os.Getenv("STINT_LIMITS_EXCHANGES")
	if given == "" {
		return 300
	}
	n, err := strconv.Atoi(given)
	require.NoError(t, err)
	return n
}

// A feed of many exchanges: each of its legs, and a run of its job with as many legs as it has. No run comes near a limit of Temporal,
// and what goes from run to run does not grow with the feed.
func TestLimits_Feed(t *testing.T) {
	t.Parallel()
	exchanges := feedExchanges(t)
	busiest := &accountant{}
	accepted, legs := int64(0), 0
	for first := 0; first < exchanges; legs++ {
		n := min(sealUpdates, exchanges-first)
		a, r := runFeedLeg(t, int64(first), n)
		a.requireWithin(t)
		require.EqualValues(t, first+n, r.Accepted)
		accepted += r.Totals.OK
		if a.most() > busiest.most() {
			busiest = a
		}
		first += n
	}
	require.EqualValues(t, exchanges, accepted)
	perExchange := float64(busiest.most()) / float64(busiest.updates)
	t.Logf("%s exchanges in %s legs; a leg: at most %d events, %.1f an exchange, %d bytes, payloads of %d, %+v", text.Thousands(int64(exchanges)),
		text.Thousands(int64(legs)), busiest.most(), perExchange, busiest.Bytes+EventBytes*busiest.most(), busiest.largest, busiest.Commands)
	if sealUpdates >= 100 {
		require.LessOrEqual(t, perExchange, 12.0, "six for the exchange, six for its batch")
	}

	f := setupScripted(t, nil)
	a := &accountant{kind: protocol.WorkflowJob}
	f.env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{a}, DeadlockDetectionTimeout: time.Minute})
	f.quick = true
	f.env.ExecuteWorkflow(Job, JobInput{Input: job.Input{Spec: f.spec, Version: f.version}})
	var again *workflow.ContinueAsNewError
	require.True(t, errors.As(f.env.GetWorkflowError(), &again), "after %d legs: %v", legsARun, f.env.GetWorkflowError())
	a.requireWithin(t)
	carried := len(again.Input.GetPayloads()[0].GetData())
	t.Logf("the job: a run of %d legs: at most %d events, %d bytes, carries %d bytes on", a.Children, a.most(), a.Bytes+EventBytes*a.most(), carried)
	require.Less(t, a.most()/a.Children, 160, "events for a leg")
	require.Less(t, carried, 20<<10)
}

// runFeedLeg runs a leg that is sealed after so many exchanges of one item each.
func runFeedLeg(t *testing.T, first int64, exchanges int) (*accountant, LegResult) {
	t.Helper()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems = 1 })
	a := &accountant{kind: protocol.WorkflowFeedLeg}
	w.env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{a}, DeadlockDetectionTimeout: time.Minute})
	w.in.Opening = &feedOpening{Opening: intake.Opening{First: first, Session: 1}}
	w.in.State = dispatch.State{Number: 1, Window: 4}
	w.env.OnSignalExternalWorkflow(anything, protocol.LegID("risk", 2), "", signalOpen, anything).Return(nil).Maybe()
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(signalSuccessor, 2) }, time.Millisecond)
	sent := 0
	var next func()
	next = func() { // one after the other: the environment takes no more than a thousand beforehand
		if sent == exchanges {
			w.close(100 * time.Millisecond)
			return
		}
		w.put(0, fmt.Sprint(sent), sent, 1)
		sent++
		w.env.RegisterDelayedCallback(next, 10*time.Millisecond)
	}
	w.env.RegisterDelayedCallback(next, 2*time.Millisecond)
	r := w.run()
	require.Empty(t, w.refused)
	return a, r
}
