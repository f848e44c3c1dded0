package workflows

import (
	"maps"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// spy sees every command of every workflow.
type spy struct {
	interceptor.WorkerInterceptorBase
	w *world
}

func (s *spy) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &spyInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, s.w}
}

type spyInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	w *world
}

func (s *spyInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return s.Next.Init(&spyOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, s.w})
}

type spyOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	w *world
}

func (s *spyOutbound) Count(command string) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.commands[command]++
}

func (s *spyOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	s.Count(name)
	options := workflow.GetActivityOptions(ctx)
	s.w.mu.Lock()
	s.w.summaries = append(s.w.summaries, options.Summary)
	switch name {
	case "Hook":
		s.w.hookLimit, s.w.hookEach, s.w.hookQueue = options.ScheduleToCloseTimeout, options.StartToCloseTimeout, options.TaskQueue
	case "Plan":
		s.w.offers = append(s.w.offers, options.ScheduleToStartTimeout)
	}
	s.w.checkLimits(name, options)
	s.w.mu.Unlock()
	if name == "Hook" && s.w.inPlaceOfHook != nil {
		if future := s.w.inPlaceOfHook(ctx); future != nil {
			return future
		}
	}
	if name != "Process" {
		return s.Next.ExecuteActivity(ctx, name, args...)
	}
	x := s.w.dispatch(ctx, args[0].(wire.ProcessInput), options)
	options.ActivityID = x.id
	// The environment ends a cancelled activity at once. A server waits for it to answer.
	detached, _ := workflow.NewDisconnectedContext(workflow.WithActivityOptions(ctx, options))
	future := s.Next.ExecuteActivity(detached, name, args...)
	s.w.watch(ctx, x)
	return future
}

// checkLimits fails the test if an activity of the io queue has other limits than it should have: the time without a
// worker counts for none that a job could reach, except for the errors file of a job that has failed.
func (w *world) checkLimits(name string, options workflow.ActivityOptions) {
	switch name {
	case "Process", "Hook": // see tests of those
	case "WriteFailures":
		assert.Equal(w.t, 5*time.Minute, options.ScheduleToCloseTimeout, name)
	default:
		assert.Equal(w.t, 365*24*time.Hour, options.ScheduleToCloseTimeout, name)
		assert.Equal(w.t, 24*time.Hour, options.StartToCloseTimeout, name)
	}
}

// watch cancels an execution when its context is.
func (w *world) watch(ctx workflow.Context, x *execution) {
	done := ctx.Done()
	w.mu.Lock()
	under := w.watched[done]
	w.watched[done] = append(under, x)
	w.mu.Unlock()
	if len(under) > 0 {
		return // one coroutine for all: every one of them is woken in every workflow task
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		done.Receive(ctx, nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, x := range w.watched[done] {
			x.cancel()
		}
	})
}

func (s *spyOutbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	s.Count("child")
	s.w.mu.Lock()
	if in, ok := args[0].(wire.LegInput); ok {
		s.w.legs = append(s.w.legs, in)
	}
	s.w.summaries = append(s.w.summaries, workflow.GetChildWorkflowOptions(ctx).StaticSummary)
	s.w.mu.Unlock()
	return s.Next.ExecuteChildWorkflow(ctx, name, args...)
}

func (s *spyOutbound) NewTimer(ctx workflow.Context, d time.Duration) workflow.Future {
	s.Count("timer")
	return s.Next.NewTimer(ctx, d)
}

func (s *spyOutbound) SignalExternalWorkflow(ctx workflow.Context, id, run, name string, arg any) workflow.Future {
	s.Count("signal " + name)
	s.Count("signals to " + id)
	if s.w.sent != nil {
		if from, ok := arg.(wire.FromLeg[any]); ok {
			arg = from.Value
		}
		s.w.sent(name, arg)
		future, settable := workflow.NewFuture(ctx)
		settable.Set(nil, nil)
		return future
	}
	if !strings.Contains(id, "/leg-") || s.w.hasStarted(id) || s.w.legs == nil {
		return s.Next.SignalExternalWorkflow(ctx, id, run, name, arg)
	}
	// The environment cannot signal a workflow in the very moment of its start. A server can.
	future, settable := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for !s.w.hasStarted(id) {
			_ = s.Next.NewTimer(ctx, time.Microsecond).Get(ctx, nil)
		}
		settable.Chain(s.Next.SignalExternalWorkflow(ctx, id, run, name, arg))
	})
	return future
}

func (w *world) hasStarted(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started[id]
}

func (s *spyOutbound) SignalChildWorkflow(ctx workflow.Context, id, name string, arg any) workflow.Future {
	s.Count("signal " + name)
	s.Count("signals to " + id)
	return s.Next.SignalChildWorkflow(ctx, id, name, arg)
}

func (s *spyOutbound) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	s.w.listening = true
	return s.Next.SetUpdateHandler(ctx, name, handler, opts)
}

func (s *spyOutbound) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	s.Count("memo")
	s.w.mu.Lock()
	maps.Copy(s.w.memo, memo)
	s.w.mu.Unlock()
	return s.Next.UpsertMemo(ctx, memo)
}

func (s *spyOutbound) GetInfo(ctx workflow.Context) *workflow.Info {
	if s.w.historyLength != nil {
		s.w.env.SetCurrentHistoryLength(s.w.historyLength())
	}
	info := s.Next.GetInfo(ctx)
	if s.w.sent != nil {
		child := *info
		child.ParentWorkflowExecution = &workflow.Execution{ID: s.w.spec.Name}
		return &child
	}
	return info
}
