package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/facebookgo/clock"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/workflows"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// server is a simulated Temporal server during one run of a job: it has the job's own workflow, with its legs, executed
// in simulated time, and its activities by the simulation's processes. All workflows share one environment of the SDK,
// so that one of them moves at a time, in an order that the schedule alone decides: an interceptor gives each its own
// signals, queries and length of history, and takes activities and children out of the environment's hands.
type server struct {
	*simulation
	env      *testsuite.TestWorkflowEnvironment
	info     *workflow.Info        // of the environment
	running  map[string]*execution // activities, by their IDs
	flows    map[string]*simFlow   // workflows, by their IDs
	moves    int                   // of executions, so far
	sides    []*side               // that have not ended
	steps    int                   // so far
	forgot   error                 // what says that a signal was lost
	inFlight map[string]int        // batches, by stage
	crowded  error                 // what says that these were more than the window of a stage
	over     bool                  // the run has ended, or was terminated
	result   job.Report
	err      error
	open     int // the leg of a feed that takes items
}

// simFlow is a workflow.
type simFlow struct {
	id, parent string
	ctx        workflow.Context
	signals    map[string]workflow.Channel
	queries    map[string]any
	updates    map[string]update
	full       bool // its history is long
	run        int  // the present one, from 0
	ended      bool
	result     any
	err        error
}

type update struct {
	handler   any
	validator any
}

type (
	flowKey struct{}
	runKey  struct{}
)

// over reports whether the run that does something has ended: what is left of it in the environment has no effect.
func (f *simFlow) over(ctx workflow.Context) bool { return f.ended || ctx.Value(runKey{}) != f.run }

func flowOf(ctx workflow.Context) *simFlow {
	f, _ := ctx.Value(flowKey{}).(*simFlow)
	return f
}

const proxyName = "proxy"

// newServer makes the server of one run.
func newServer(s *simulation) *server {
	v := &server{simulation: s, running: map[string]*execution{}, inFlight: map[string]int{}, flows: map[string]*simFlow{}}
	if s.servers == nil {
		s.servers = map[string]*server{}
	}
	s.servers[s.ref.Run] = v
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	v.env = suite.NewTestWorkflowEnvironment()
	v.env.SetTestTimeout(20 * time.Second) // of real time without anything happening
	stopRealTime(v.env)
	v.env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&taker{v: v}}, DeadlockDetectionTimeout: time.Minute})
	v.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "root", TaskQueue: wire.WorkflowQueue})
	v.env.RegisterWorkflowWithOptions(workflows.Job, workflow.RegisterOptions{Name: wire.WorkflowJob})
	v.env.RegisterWorkflowWithOptions(workflows.Leg, workflow.RegisterOptions{Name: wire.WorkflowLeg})
	v.env.RegisterWorkflowWithOptions(workflows.FeedLeg, workflow.RegisterOptions{Name: wire.WorkflowFeedLeg})
	v.env.RegisterWorkflowWithOptions(v.proxy, workflow.RegisterOptions{Name: proxyName})
	return v
}

// stopRealTime stops the environment's clock of real time. While a child is about to start, the environment has its
// next timer wait in real time, and never ends that: with all it belongs to, it stays in memory for as long.
func stopRealTime(env *testsuite.TestWorkflowEnvironment) {
	clockOf := reflect.ValueOf(env).Elem().FieldByName("impl").Elem().FieldByName("wallClock")
	reflect.NewAt(clockOf.Type(), clockOf.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(clock.NewMock()))
}

// maxTime bounds the simulated time of a run: one that takes longer does not end.
const maxTime = 24 * time.Hour

// run runs the job until its end, or until it is terminated. Beside does what clients do.
func (v *server) run(in wire.JobInput, beside func(ctx workflow.Context)) (err error) {
	defer func() {
		if p := recover(); p != nil { // the environment's, if nothing can happen any more
			err = fmt.Errorf("it hangs, or panics: %v\n%s", p, debug.Stack())
		}
	}()
	defer v.endSides()
	v.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		v.info = workflow.GetInfo(ctx)
		v.begin(ctx, v.spec.Name, "", func(ctx workflow.Context, f *simFlow) {
			v.result, v.err = runToEnd(ctx, workflows.Job, in)
			v.over = true
		})
		workflow.Go(ctx, beside)
		if ended, err := workflow.AwaitWithTimeout(ctx, maxTime, func() bool { return v.over }); !ended {
			return errors.Join(fmt.Errorf("nothing has ended it within %v", maxTime), err)
		}
		return workflow.Sleep(ctx, time.Millisecond) // the environment cannot end children that are about to start
	})
	if err := v.env.GetWorkflowError(); err != nil {
		return fmt.Errorf("it hangs, or fails: %w", err)
	}
	// What still runs goes on, though nobody waits for it any more.
	for _, id := range slices.Sorted(maps.Keys(v.running)) {
		e := v.running[id]
		if v.endDead(e); !e.ended && !slices.Contains(v.gone, e) {
			v.gone = append(v.gone, e)
		}
	}
	return errors.Join(v.forgot, v.crowded)
}

// begin starts a workflow.
func (v *server) begin(ctx workflow.Context, id, parent string, do func(ctx workflow.Context, f *simFlow)) {
	f := &simFlow{id: id, parent: parent, signals: map[string]workflow.Channel{}, queries: map[string]any{}, updates: map[string]update{}}
	v.flows[id] = f
	f.ctx = workflow.WithValue(ctx, flowKey{}, f)
	workflow.Go(f.ctx, func(ctx workflow.Context) {
		do(ctx, f)
		f.ended = true
	})
}

// runToEnd runs a workflow over all its runs.
func runToEnd[In, Out any](ctx workflow.Context, fn func(workflow.Context, In) (Out, error), in In) (out Out, err error) {
	f := flowOf(ctx)
	for {
		if in, err = passed(in); err != nil {
			return out, err
		}
		out, err = fn(workflow.WithValue(ctx, runKey{}, f.run), in)
		again, ok := errors.AsType[*workflow.ContinueAsNewError](err)
		if !ok {
			return out, err
		}
		f.full = false
		f.run++
		in = *new(In)
		if err = converter.GetDefaultDataConverter().FromPayloads(again.Input, &in); err != nil {
			return out, err
		}
	}
}

// payload is what v travels as.
func payload(v any) *common.Payloads {
	data, err := converter.GetDefaultDataConverter().ToPayloads(v)
	if err != nil {
		panic(err)
	}
	return data
}

// passed is v as it arrives at the other end of Temporal.
func passed[T any](v T) (got T, err error) {
	return got, converter.GetDefaultDataConverter().FromPayloads(payload(v), &got)
}

// proxy stands for a leg where its job waits for it.
func (v *server) proxy(ctx workflow.Context, id string) (any, error) {
	workflow.GetSignalChannel(ctx, "ended").Receive(ctx, nil)
	f := v.flows[id]
	return f.result, f.err
}

// taker takes all that workflows ask the server for.
type taker struct {
	interceptor.WorkerInterceptorBase
	v *server
}

func (t *taker) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, t.v}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	v *server
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.v})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	v *server
}

func (o *outbound) GetInfo(ctx workflow.Context) *workflow.Info {
	f := flowOf(ctx)
	if f == nil {
		return o.Next.GetInfo(ctx)
	}
	return o.v.infoOf(f)
}

// infoOf is what a workflow is told of itself. Its history may be found to be long at any time.
func (v *server) infoOf(f *simFlow) *workflow.Info {
	if !f.full && v.bad(2, 2) == 1 {
		v.note("the history of %s is long", f.id)
		f.full = true
	}
	length := 0
	if f.full {
		length = 5000
	}
	v.env.SetCurrentHistoryLength(length)
	v.env.SetContinueAsNewSuggested(f.full)
	info := *v.info
	info.WorkflowExecution = workflow.Execution{ID: f.id, RunID: fmt.Sprint(f.id, "-", v.born)}
	info.FirstRunID = v.ref.Run
	info.WorkflowStartTime = time.UnixMilli(v.born)
	if f.parent != "" {
		info.ParentWorkflowExecution = &workflow.Execution{ID: f.parent}
	}
	return &info
}

func (o *outbound) GetSignalChannel(ctx workflow.Context, name string) workflow.ReceiveChannel {
	f := flowOf(ctx)
	if f == nil {
		return o.Next.GetSignalChannel(ctx, name)
	}
	if f.over(ctx) {
		return workflow.NewChannel(ctx)
	}
	return f.signal(name)
}

func (f *simFlow) signal(name string) workflow.Channel {
	if f.signals[name] == nil {
		f.signals[name] = workflow.NewNamedBufferedChannel(f.ctx, name, 1<<20)
	}
	return f.signals[name]
}

func (o *outbound) SignalExternalWorkflow(ctx workflow.Context, id, _, name string, arg any) workflow.Future {
	return o.v.signal(ctx, id, name, arg)
}

func (o *outbound) SignalChildWorkflow(ctx workflow.Context, id, name string, arg any) workflow.Future {
	return o.v.signal(ctx, id, name, arg)
}

var (
	errNotFound = errors.New("there is no such workflow")
	errNotBegun = errors.New("the workflow has not begun")
)

// signal delivers a signal, after a while. As the real server does, it forgets those of a run that has ended meanwhile:
// none may be lost that somebody is there for.
func (v *server) signal(ctx workflow.Context, id, name string, arg any) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	data := payload(arg)
	sender := flowOf(ctx)
	if sender.over(ctx) {
		return future
	}
	v.aside(ctx, func(s *side) {
		s.pause()
		f := v.flows[id]
		if sender.over(ctx) {
			if f != nil && !f.ended {
				v.forgot = fmt.Errorf("the signal %s of %s to %s is lost: the run that has sent it has ended", name, sender.id, id)
			}
			return
		}
		if f == nil || f.ended {
			settable.SetError(errNotFound)
			return
		}
		f.signal(name).SendAsync(data)
		settable.Set(nil, nil)
	})
	return future
}

// pauses are how long things take.
var pauses = []time.Duration{time.Millisecond, 2 * time.Millisecond, 7 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second}

// maxSteps bounds the pauses of a run, of which the longest has some 2,000.
const maxSteps = 30_000

// step returns how long the next pause is. A run that has had too many does not end.
func (v *server) step() time.Duration {
	if v.steps++; v.steps > maxSteps && !v.over {
		v.over, v.err = true, fmt.Errorf("nothing has ended it after %d steps", maxSteps)
	}
	return pauses[v.pick(len(pauses), 40)]
}

// pause lets the others continue: it is for coroutines of the environment.
func (v *server) pause(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	_ = workflow.Sleep(ctx, v.step())
	v.stay(ctx)
}

// stay lets nobody do anything after the end.
func (v *server) stay(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(ctx, func() bool { return !v.over })
}

func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	v, options := o.v, workflow.GetChildWorkflowOptions(ctx)
	v.stay(ctx)
	id := options.WorkflowID
	v.begin(ctx, id, flowOf(ctx).id, func(ctx workflow.Context, f *simFlow) {
		f.result, f.err = v.leg(ctx, name, args[0])
		f.ended = true
		_ = v.env.SignalWorkflowByID(id, "ended", nil)
	})
	options.ParentClosePolicy = enums.PARENT_CLOSE_POLICY_TERMINATE
	return o.Next.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options), proxyName, id)
}

func (v *server) leg(ctx workflow.Context, name string, arg any) (any, error) {
	switch name {
	case wire.WorkflowLeg:
		return runToEnd(ctx, workflows.Leg, arg.(wire.LegInput))
	case wire.WorkflowFeedLeg:
		return runToEnd(ctx, workflows.FeedLeg, arg.(wire.FeedLegInput))
	}
	return nil, fmt.Errorf("no workflow %s", name)
}

func (o *outbound) SetQueryHandler(ctx workflow.Context, name string, handler any) error {
	f := flowOf(ctx)
	if f == nil {
		return o.Next.SetQueryHandler(ctx, name, handler)
	}
	f.queries[name] = handler
	return nil
}

func (o *outbound) SetUpdateHandler(ctx workflow.Context, name string, handler any, opts workflow.UpdateHandlerOptions) error {
	flowOf(ctx).updates[name] = update{handler, opts.Validator}
	return nil
}

func (o *outbound) UpsertMemo(_ workflow.Context, memo map[string]any) error {
	if leg, ok := memo[wire.MemoLeg].(int); ok {
		o.v.open = leg
	}
	return nil
}

func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, _ string, _ ...any) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	settable.Set(payload(wire.LocateResult{}), nil)
	return future
}

// query asks a workflow. There must be an answer.
func query[T any](v *server, id, name string, args ...any) (answer T, err error) {
	f := v.flows[id]
	if f == nil {
		return answer, errNotFound
	}
	handler := reflect.ValueOf(f.queries[name])
	if !handler.IsValid() {
		return answer, fmt.Errorf("%s: %w", id, errNotBegun)
	}
	in := make([]reflect.Value, handler.Type().NumIn())
	for i := range in {
		at := reflect.New(handler.Type().In(i))
		if i < len(args) { // a handler gets a copy, perhaps of another type
			if err := converter.GetDefaultDataConverter().FromPayloads(payload(args[i]), at.Interface()); err != nil {
				return answer, err
			}
		}
		in[i] = at.Elem()
	}
	out := handler.Call(in)
	if err, _ := out[1].Interface().(error); err != nil {
		return answer, err
	}
	return answer, converter.GetDefaultDataConverter().FromPayloads(payload(out[0].Interface()), &answer)
}

// remains is what a job that is terminated now leaves for the run that resumes it, as clients find it.
func (v *server) remains(in wire.StartInput) (report job.Report, salvage []json.RawMessage, err error) {
	report, err = query[job.Report](v, v.spec.Name, wire.QueryReport)
	if err != nil {
		return report, nil, err
	}
	salvage = slices.Clone(in.Salvage[max(0, len(in.Salvage)-report.Salvage):])
	for _, id := range append([]string{v.spec.Name}, report.OpenLegs...) {
		if v.spec.Feed != nil && id != v.spec.Name { // the next run asks it
			leg, _ := json.Marshal(map[string]string{"workflow": id, "run": v.ref.Run})
			salvage = append(salvage, leg)
			continue
		}
		some, err := query[[]json.RawMessage](v, id, wire.QueryPending)
		if errors.Is(err, errNotFound) {
			continue // it was never started
		}
		if err != nil {
			return report, nil, err
		}
		salvage = append(salvage, some...)
	}
	return report, salvage, nil
}

// pendingOf is [activities.Options].Pending.
func (s *simulation) pendingOf(_ context.Context, id, run string, offset int) ([]byte, error) {
	v := s.servers[run]
	if v == nil {
		v = s.servers[s.ref.Run] // a leg of the job that asks
	}
	piece, err := query[[]byte](v, id, wire.QueryPending, offset)
	if errors.Is(err, errNotFound) {
		return nil, serviceerror.NewNotFound(id)
	}
	return piece, err
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	options := workflow.GetActivityOptions(ctx)
	arg := payload(args[0])
	leave := o.v.enter(args[0])
	o.v.aside(ctx, func(s *side) {
		result, err := o.v.perform(s, name, arg, options)
		leave()
		if err != nil {
			settable.SetError(err)
			return
		}
		settable.Set(payload(result), nil)
	})
	return future
}

// enter notes that a batch is given to a stage, of which no more may be in flight than its window. It returns how to note
// its end.
func (v *server) enter(arg any) (leave func()) {
	in, ok := arg.(wire.ProcessInput)
	if !ok || in.Stage == nil {
		return func() {}
	}
	stage := in.Stage.Name
	v.inFlight[stage]++
	for _, s := range v.spec.StagePools() {
		if s.Name == stage && s.Window > 0 && v.inFlight[stage] > s.Window && v.crowded == nil {
			v.crowded = fmt.Errorf("%d batches are in flight in stage %s, whose window is %d", v.inFlight[stage], stage, s.Window)
		}
	}
	return func() { v.inFlight[stage]-- }
}

// perform has an activity done as a server does it, with what its retry policy says.
func (v *server) perform(s *side, name string, arg *common.Payloads, options workflow.ActivityOptions) (any, error) {
	once := options.RetryPolicy != nil && options.RetryPolicy.MaximumAttempts == 1
	for attempt := 0; ; attempt++ {
		s.pause() // until a worker takes it
		if s.ctx.Err() != nil {
			return nil, temporal.NewCanceledError()
		}
		if name == "Plan" && attempt > 0 && v.afresh {
			v.change()
		}
		result, err := v.attempt(s, name, arg, once)
		var app *temporal.ApplicationError
		switch {
		case err == nil && !once && v.bad(2, 4) == 1:
			v.note("the result of %s is lost", name)
		case err == nil, once, temporal.IsCanceledError(err), errors.As(err, &app) && (app.NonRetryable() || app.Type() == wire.ErrorOrphaned):
			if err == nil {
				v.accept(result)
			}
			return result, err
		default:
			v.note("%s fails: %v", name, err)
			if attempt > 100 {
				return nil, fmt.Errorf("%s fails for ever: %w", name, err)
			}
		}
	}
}

// maxMoves bounds a schedule: one that takes more does not end.
const maxMoves = 20_000

// attempt is one attempt at an activity, by one of the processes.
func (v *server) attempt(s *side, name string, arg *common.Payloads, batch bool) (result any, err error) {
	i := v.pick(len(v.processes), 30)
	work, err := v.work(name, arg)
	if err != nil {
		return nil, err
	}
	if work.away {
		return nil, temporal.NewApplicationError("a simulated outage", job.ErrorOutage)
	}
	p := v.processes[i]
	if work.deadly {
		v.note("process %d dies of %s", i, work.name)
		v.kill(i)
		s.pause()
		return nil, v.lost(batch)
	}
	broken := breakage(v.bad(int(breakages), 2))
	if broken != 0 {
		v.note("%s: %v", work.name, broken)
	}
	e := v.start(p, broken, func(ctx context.Context) (err error) {
		got, err := work.do(ctx, acts(p))
		if err == nil {
			result = got
		}
		return err
	})
	id := fmt.Sprint(len(v.log), "/", v.moves, "/", work.name)
	v.running[id] = e
	err = v.follow(s, e, i, work, batch)
	delete(v.running, id) // not deferred: what still runs when the run ends goes on
	return result, err
}

// follow moves an attempt on process i, and those that were given up beside it, to its end, or until it is lost. It
// returns the error that the workflow gets.
func (v *server) follow(s *side, e *execution, i int, work *work, batch bool) error {
	told := false
	for !e.ended {
		if v.moves++; v.moves > maxMoves {
			return temporal.NewNonRetryableApplicationError("the schedule does not end", "Endless", nil)
		}
		if batch && s.ctx.Err() != nil && !told && v.pick(2, 30) == 0 {
			told = true
			e.cancel() // the stop has reached the worker
		}
		if e.process.dead.Load() {
			v.endDead(e)
			return v.lost(batch)
		}
		who := v.whoMoves(e)
		if who == nil { // somebody holds the lock
			s.pause()
			continue
		}
		fault := v.fault(work)
		switch fault {
		case 3:
			v.note("%s loses its process", work.name)
			v.kill(i)
			continue
		case 4:
			v.note("%s is given up", work.name)
			v.gone = append(v.gone, e)
			s.pause()
			return temporal.NewHeartbeatTimeoutError(v.beaten(batch)...)
		}
		if fault > 0 {
			v.note("an operation of %s: fault %d", work.name, fault)
		}
		who.move(fault)
		v.gone = slices.DeleteFunc(v.gone, func(e *execution) bool { return e.ended })
		if v.pick(4, 30) > 0 {
			s.pause()
		}
	}
	if e.process.dead.Load() {
		return v.lost(batch)
	}
	return v.raised(e.err)
}

// whoMoves is the execution that moves next: as a rule the given one, or one that was given up. Nil: it waits for a
// lock of one that runs.
func (v *server) whoMoves(e *execution) *execution {
	if n := len(v.gone); n > 0 {
		if k := v.pick(n+1, 20); k > 0 && v.free(v.gone[k-1]) {
			return v.gone[k-1]
		}
	}
	if v.free(e) {
		return e
	}
	if at := slices.IndexFunc(v.gone, v.free); at >= 0 {
		return v.gone[at]
	}
	return nil
}

// fault is what goes wrong with the next operation. A batch of which the items are suspected dies of them alone.
func (v *server) fault(w *work) int {
	fault := v.bad(5, 2)
	if fault > 2 && w.narrowed {
		return 0
	}
	return fault
}

// lost is the error of an execution whose process has died.
func (v *server) lost(batch bool) error {
	beaten := v.beaten(batch)
	if batch && v.pick(2, 40) == 1 {
		return temporal.NewNonRetryableApplicationError("the process that ran this has ended", wire.ErrorOrphaned, nil, beaten...)
	}
	return temporal.NewHeartbeatTimeoutError(beaten...)
}

// beaten is what the last heartbeat said that has reached the server: often nothing, and sometimes what was so long
// before.
func (v *server) beaten(batch bool) []any {
	if batch && v.pick(2, 20) == 1 {
		v.note("while it waits for a place, as far as the server knows")
		return []any{wire.Hint{Waiting: true}}
	}
	return nil
}

// raised is an activity's error as the workflow gets it.
func (v *server) raised(err error) error {
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &app):
		return temporal.NewApplicationErrorWithOptions(app.Message(), app.Type(), temporal.ApplicationErrorOptions{NonRetryable: app.NonRetryable()})
	case errors.Is(err, context.Canceled):
		return temporal.NewCanceledError()
	}
	return temporal.NewApplicationError(err.Error(), "simulated")
}
