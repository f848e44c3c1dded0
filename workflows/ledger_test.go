package workflows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Commands counts what a run of a workflow has had done, and what has reached it.
type Commands struct {
	Activities, Timers, Children, Sent, Received, Memos int
	// Bytes are those of all payloads.
	Bytes int
}

// Events is how many events these are in a history, without workflow tasks: an activity is
// scheduled, started and completed, a timer started and fired, a child initiated, started and
// completed, a signal initiated and delivered, or received; and the run starts and ends.
func (c Commands) Events() int {
	return 2 + 3*c.Activities + 2*c.Timers + 3*c.Children + 2*c.Sent + c.Received + c.Memos
}

// Most is how many events there are at most, if each that reaches the run has a workflow task of
// its own.
func (c Commands) Most() int {
	const task = 3 // scheduled, started, completed
	return c.Events() + task*(1+c.Activities+c.Timers+2*c.Children+c.Sent+c.Received)
}

// EventBytes is what an event takes in a history beside its payloads: at most, as measured on a server.
const EventBytes = 150

// LegEvents is how many events a leg costs besides its batches' three and workflow tasks, in its own
// history and in the job's: its start and end and its signals; Plan, Commit, the child and its places.
const LegEvents = 30

// ledger counts the commands of every run in a world, and measures what they carry.
type ledger struct {
	interceptor.WorkerInterceptorBase
	w *world
	// leg, if it is set, runs in the place of each leg.
	leg func(workflow.Context, wire.LegInput) wire.LegResult

	mu      sync.Mutex
	runs    map[string]*Commands // by workflow and number of the job's run
	largest map[string]int       // payload in bytes, by what it is
	waiting map[string]int       // Plan, Commit and Finish under way, by run
	most    int                  // of them in one run
}

// account has a ledger keep count of a world's runs.
func (w *world) account() *ledger {
	l := &ledger{w: w, runs: map[string]*Commands{}, largest: map[string]int{}, waiting: map[string]int{}}
	attach := func() {
		w.env.SetWorkerOptions(sdkworker.Options{
			Interceptors: []interceptor.WorkerInterceptor{l, &spy{w: w}}, DeadlockDetectionTimeout: time.Minute,
		})
	}
	attach()
	w.onEnv = attach
	return l
}

// run is the account of a run. The caller holds mu.
func (l *ledger) run(info *workflow.Info) *Commands {
	id := fmt.Sprintf("%s, run %d of the job", info.WorkflowExecution.ID, l.w.runs)
	if l.runs[id] == nil {
		l.runs[id] = &Commands{}
	}
	return l.runs[id]
}

// book adds to a run's account what a command carries.
func (l *ledger) book(info *workflow.Info, what string, count func(*Commands), carried ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.run(info)
	count(c)
	for _, v := range carried {
		c.Bytes += l.measure(what, v)
	}
}

// measure encodes what travels. The caller holds mu.
func (l *ledger) measure(what string, v any) int {
	if v == nil {
		return 0
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(v)
	if err != nil {
		panic(err) // everything that a workflow carries can be encoded
	}
	size := len(payload.GetData())
	l.largest[what] = max(l.largest[what], size)
	return size
}

func (l *ledger) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &ledgerInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, l}
}

func (l *ledger) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &ledgerActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, l}
}

type ledgerActivity struct {
	interceptor.ActivityInboundInterceptorBase
	l *ledger
}

func (a *ledgerActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := a.Next.ExecuteActivity(ctx, in)
	info := activity.GetInfo(ctx)
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if errors.Is(err, activity.ErrResultPending) { // it ends later: see world.sleep
		a.l.waiting[info.WorkflowExecution.ID]--
	}
	if err == nil {
		a.l.waiting[info.WorkflowExecution.ID]--
		a.l.runs[fmt.Sprintf("%s, run %d of the job", info.WorkflowExecution.ID, a.l.w.runs)].Bytes += a.l.measure(info.ActivityType.Name+" result", result)
	}
	return result, err
}

type ledgerInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	l *ledger
}

func (i *ledgerInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&ledgerOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.l})
}

func (i *ledgerInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info := workflow.GetInfo(ctx)
	kind := info.WorkflowType.Name
	i.l.book(info, kind+" input", func(*Commands) {}, in.Args...)
	if i.l.leg != nil && kind == wire.WorkflowLeg {
		return i.l.leg(ctx, in.Args[0].(wire.LegInput)), nil
	}
	result, err := i.Next.ExecuteWorkflow(ctx, in)
	var again *workflow.ContinueAsNewError
	switch {
	case errors.As(err, &again):
		i.l.book(info, kind+" carried on", func(c *Commands) { c.Bytes += len(again.Input.GetPayloads()[0].GetData()) })
	case err == nil:
		i.l.book(info, kind+" result", func(*Commands) {}, result)
	}
	return result, err
}

func (i *ledgerInbound) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if in.SignalName != "wake" { // the world's own
		i.l.book(workflow.GetInfo(ctx), "signal", func(c *Commands) { c.Received++ })
	}
	return i.Next.HandleSignal(ctx, in)
}

type ledgerOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	l *ledger
}

// GetInfo gives the run under test the length that its history would have, and says when to continue as new.
func (o *ledgerOutbound) GetInfo(ctx workflow.Context) *workflow.Info {
	info := o.Next.GetInfo(ctx)
	if info.ParentWorkflowExecution == nil {
		o.l.mu.Lock()
		c := o.l.run(info)
		if flying, ok := o.l.w.inFlight(); ok {
			const yetToCome = 5 // of the six events of a batch: its start, its end and a workflow task
			o.l.w.env.SetCurrentHistoryLength(c.Most() - yetToCome*flying)
		}
		o.l.w.env.SetContinueAsNewSuggested(c.Most() >= suggestEvents || c.Bytes+EventBytes*c.Most() >= suggestBytes)
		o.l.mu.Unlock()
	}
	return info
}

// inFlight is how many batches are; not ok if the world itself asks, in the middle of something.
func (w *world) inFlight() (n int, ok bool) {
	if !w.mu.TryLock() {
		return 0, false
	}
	defer w.mu.Unlock()
	return w.flying, true
}

func (o *ledgerOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	info := o.Next.GetInfo(ctx)
	o.l.book(info, name+" input", func(c *Commands) { c.Activities++ }, append(args, workflow.GetActivityOptions(ctx).Summary)...)
	if name != string(wire.ActivityProcess) {
		o.l.mu.Lock()
		o.l.waiting[info.WorkflowExecution.ID]++
		o.l.most = max(o.l.most, o.l.waiting[info.WorkflowExecution.ID])
		o.l.mu.Unlock()
		return o.Next.ExecuteActivity(ctx, name, args...)
	}
	future := o.Next.ExecuteActivity(ctx, name, args...)
	o.l.w.mu.Lock()
	result := o.l.w.all[len(o.l.w.all)-1].result
	o.l.w.mu.Unlock()
	o.l.book(info, "Process result", func(*Commands) {}, result)
	return future
}

func (o *ledgerOutbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	o.l.book(o.Next.GetInfo(ctx), "Leg input", func(c *Commands) { c.Children++ }, args...)
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}

func (o *ledgerOutbound) NewTimer(ctx workflow.Context, d time.Duration) workflow.Future {
	o.l.book(o.Next.GetInfo(ctx), "timer", func(c *Commands) { c.Timers++ })
	return o.Next.NewTimer(ctx, d)
}

func (o *ledgerOutbound) SignalExternalWorkflow(ctx workflow.Context, id, run, name string, arg any) workflow.Future {
	o.l.book(o.Next.GetInfo(ctx), "signal", func(c *Commands) { c.Sent++ }, arg)
	return o.Next.SignalExternalWorkflow(ctx, id, run, name, arg)
}

func (o *ledgerOutbound) SignalChildWorkflow(ctx workflow.Context, id, name string, arg any) workflow.Future {
	o.l.book(o.Next.GetInfo(ctx), "signal", func(c *Commands) { c.Sent++ }, arg)
	return o.Next.SignalChildWorkflow(ctx, id, name, arg)
}

func (o *ledgerOutbound) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	o.l.book(o.Next.GetInfo(ctx), "memo", func(c *Commands) { c.Memos++ }, memo)
	return o.Next.UpsertMemo(ctx, memo)
}
