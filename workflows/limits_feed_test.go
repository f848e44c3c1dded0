package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows/internal/coordinate"
	"github.com/stint-run/stint/workflows/internal/feed"
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
	require.Less(t, a.updates, feed.BusyUpdates)
}

// feedExchanges is how many exchanges TestLimits_Feed simulates: `make limits` runs ten million, in one process after
// the other.
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

// A feed of many exchanges: each of its legs, and a run of its job with as many legs as it has. No run comes near a
// limit of Temporal, and what goes from run to run does not grow with the feed.
func TestLimits_Feed(t *testing.T) {
	t.Parallel()
	exchanges := feedExchanges(t)
	busiest := &accountant{}
	accepted, legs := int64(0), 0
	for first := 0; first < exchanges; legs++ {
		n := min(feed.SealUpdates, exchanges-first)
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
	if feed.SealUpdates >= 100 {
		require.LessOrEqual(t, perExchange, 12.0, "six for the exchange, six for its batch")
	}

	a, carried := runFeedJob(t, nil)
	require.Less(t, carried, 20<<10)
	t.Logf("the job: a run of %d legs: at most %d events, %d bytes, carries %d bytes on", a.Children, a.most(), a.Bytes+EventBytes*a.most(), carried)
	require.Less(t, a.most()/a.Children, 160, "events for a leg")
}

// runFeedJob runs one run of a feed's job, until it continues as new, from a state. It returns how large the next run's
// input is.
func runFeedJob(t *testing.T, from *wire.JobState, change ...func(*scriptedFeed)) (*accountant, int) {
	t.Helper()
	f := setupScripted(t, nil)
	for _, fn := range change {
		fn(f)
	}
	a := &accountant{kind: wire.WorkflowJob}
	f.env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{a}, DeadlockDetectionTimeout: time.Minute})
	f.quick = true
	f.env.ExecuteWorkflow(Job, wire.JobInput{StartInput: wire.StartInput{Spec: f.spec, Version: f.version}, State: from})
	var again *workflow.ContinueAsNewError
	require.True(t, errors.As(f.env.GetWorkflowError(), &again), "after %d legs: %v", feed.LegsARun, f.env.GetWorkflowError())
	a.requireWithin(t)
	return a, len(again.Input.GetPayloads()[0].GetData())
}

// A slow item holds its leg, and no others: a hundred legs in a row that each have one wait for nothing, and the next
// run continues with all of them.
func TestLimits_FeedOfManyOpenLegs(t *testing.T) {
	t.Parallel()
	a, carried := runFeedJob(t, nil, func(f *scriptedFeed) { f.lasting = true })
	require.Equal(t, feed.LegsARun, a.Children)
	perLeg := carried / feed.LegsARun
	t.Logf("%d open legs: %d bytes carried on", feed.LegsARun, carried)
	require.Less(t, perLeg*coordinate.FeedLegs, limitPayload/3)
}

// F11: a feed that takes items at its full rate for a year: by what a leg and a run of the job are measured to have, no
// limit of Temporal is near at any time, and the last run is like the first.
func TestLimits_OfAFeedForAYear(t *testing.T) {
	t.Parallel()
	const (
		rate      = 20_000 // items a second
		list      = 100    // items of 100 bytes in an exchange
		exchanges = 100
		year      = 365 * 24 * 3600 // seconds
		seal      = 1500            // sealUpdates, which tests change
		runs      = 100             // legsARun, which they change, too

		limitSignals  = 10_000
		limitID       = 1000    // characters of a workflow ID
		leastBetween  = 1.0     // seconds between the beginnings of two runs of a workflow ID
		exactNumber   = 1 << 53 // up to which readers of JSON know integers exactly
		margin        = 3
		backlogEvents = 6 * 1000 // of what a sealed leg has still to do: a batch has at least a thousandth of it
	)
	leg := runFullLeg(t, exchanges, list)
	events, size := float64(leg.most())/exchanges, float64(leg.Bytes+EventBytes*leg.most())/exchanges
	perLeg := min(seal, feed.SealEvents/events, feed.SealBytes/size)
	life := perLeg * list / rate
	require.Less(t, perLeg*events+backlogEvents, float64(limitEvents)/margin)
	require.Less(t, perLeg, float64(feed.BusyUpdates))
	require.Less(t, leg.largest, limitPayload*3/4, "a commit, in Base64")
	require.Greater(t, life, 0.5, "its successor is ready by then")

	first, _ := runFeedJob(t, nil)
	perRun := min(runs, suggestEvents*first.Children/first.most())
	require.Less(t, (perRun+coordinate.FeedLegs)*first.Received/first.Children, limitSignals/margin)
	require.Greater(t, float64(perRun)*life, 10*leastBetween, "the job may continue as new as often")

	const ordinals = rate * year
	legs := int(year / life)
	t.Logf("an exchange: %.1f events, %.0f bytes; a leg: %.0f exchanges, %.1f s; a run of the job: %d legs; in a year %s items, %s legs, %s runs", events, size, perLeg, life,
		perRun, text.Thousands(ordinals), text.Thousands(int64(legs)), text.Thousands(int64(legs/perRun)))
	require.Less(t, int64(ordinals), int64(exactNumber)/margin)
	require.Less(t, len(wire.LegID(strings.Repeat("x", 200), legs)), limitID/margin)
	last, _ := runFeedJob(t, &wire.JobState{
		Portions: legs, Batches: ordinals / list, Heads: []string{"run/manifests/0123456789abcdef.jsonl"},
		Work: wire.WorkState{Feed: &wire.FeedWorkState{Planned: true, Accepted: ordinals, Session: int64(legs), Began: 1, Wanted: 2, Latest: 0, Segments: legs}},
		Report: job.Report{
			Job: "risk", State: job.Running, Planned: ordinals, Legs: legs,
			Outcomes: job.Outcomes{Totals: job.Totals{OK: ordinals, Batches: ordinals / list, Calls: ordinals, CallItems: ordinals}},
		},
	})
	require.LessOrEqual(t, last.most(), first.most()+10, "events")
	require.Less(t, last.Bytes, 2*first.Bytes, "its numbers are longer")
}

// runFullLeg runs a leg that takes lists of items of 100 bytes at its full rate, and gives all results back with the
// answers.
func runFullLeg(t *testing.T, exchanges, list int) *accountant {
	t.Helper()
	w := setupFeed(t, func(s *job.Spec) { s.Feed.Capacity = 10 * list })
	a := &accountant{kind: wire.WorkflowFeedLeg}
	w.env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{a}, DeadlockDetectionTimeout: time.Minute})
	w.in.LegState = wire.LegState{Number: 1, Window: 4}
	items := make([]json.RawMessage, list)
	for i := range items {
		items[i] = fmt.Appendf(nil, "\"%098d\"", i)
	}
	sent := 0
	var next func()
	next = func() {
		if sent == exchanges {
			w.close(time.Second)
			return
		}
		w.exchange(0, fmt.Sprint(sent), wire.Exchange{Client: fmt.Sprint("client-", sent%4), Items: items, Want: true, Wait: time.Second})
		sent++
		w.env.RegisterDelayedCallback(next, 5*time.Millisecond)
	}
	w.env.RegisterDelayedCallback(next, time.Millisecond)
	r := w.run()
	require.Empty(t, w.refused)
	require.EqualValues(t, exchanges*list, r.Totals.OK)
	return a
}

// runFeedLeg runs a leg that is sealed after so many exchanges of one item each.
func runFeedLeg(t *testing.T, first int64, exchanges int) (*accountant, wire.LegResult) {
	t.Helper()
	w := setupFeed(t, func(s *job.Spec) { s.BatchItems = 1 })
	a := &accountant{kind: wire.WorkflowFeedLeg}
	w.env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{a}, DeadlockDetectionTimeout: time.Minute})
	w.in.Opening = &wire.FeedOpening{Opening: wire.Opening{First: first, Session: 1}}
	w.in.LegState = wire.LegState{Number: 1, Window: 4}
	w.env.OnSignalExternalWorkflow(anything, wire.LegID("risk", 2), "", wire.SignalOpen, anything).Return(nil).Maybe()
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(wire.SignalSuccessor, 2) }, time.Millisecond)
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
