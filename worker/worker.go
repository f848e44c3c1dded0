// Package worker serves a pool: it polls the pool's task queue and runs a handler over the batches
// that it gets. A [Handler] is a Go function ([Each], [Batch]) or a program ([Exec], [Serve]).
//
//	h := worker.Each(func(ctx context.Context, p Photo) (Thumb, error) { ... })
//	client := jobs.NewClient(temporalClient, nil)
//	w, err := worker.New(client, "thumbnails", h, worker.Options{Slots: 8})
//	err = w.Run(ctx)
package worker

// What lies where:
//
//	handler.go, stateful.go            Go handlers: their kinds, state, and items before they are batched
//	exec.go                            a process for each call
//	serve.go, program*.go              programs that serve, as the host sees them: calls, frames
//	programend.go                      the end of a program: its stacks, kills, which call in hand it is blamed on
//	slotserver.go, childmain.go        Go handlers in processes of this program
//	slots.go, concurrency.go           slots and their start, their calls at once
//	restarts.go                        restarts of their programs: which count; processes that cannot be begun for now
//	environment.go                     what a process is given: variables, CPUs, Python's helper; programs that cannot be run
//	worker.go, options.go              the worker; its options, how many items a call gets, what its jobs may reach
//	stopping.go                        a drain; what a handler sees of a stop; stops that a new worker waits for; hooks
//	health.go, metrics.go, events.go   what a worker shows and counts; whether Temporal answers it

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/base/build"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/procs"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/loops"
	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/frames"
	"github.com/stint-run/stint/internal/run/permits"
	"github.com/stint-run/stint/internal/run/watchdog"
	"github.com/stint-run/stint/internal/temporal/entry"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/workflows"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
)

// Worker serves one pool. Make one with [New].
type Worker struct {
	pool    string
	options Options
	client  *jobs.Client
	access  *store.Access
	acts    *activities.Activities
	service service // of the handler; may be nil
	set     *slotSet
	watch   *watchdog.Watchdog
	metrics *metrics
	link    *link
	workers []sdkworker.Worker
	queues  []batchQueue
	inHand  tasksInHand

	stopsLimit time.Duration

	mu      sync.Mutex
	running bool
	fatal   chan error
	ready   chan struct{}
}

// New returns a worker of the pool that runs h. It checks the options and that the handler can run,
// but does not poll yet. The caller closes the Temporal client. A Worker that is never run must be
// closed.
func New(c *jobs.Client, pool string, h Handler, o Options) (*Worker, error) {
	if err := childMain.check(); err != nil {
		return nil, err
	}
	if err := limits.CheckName("pool", pool); err != nil {
		return nil, err
	}
	if err := h.Check(o); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	o.Version = cmp.Or(o.Version, h.version(o.Dir))
	if o.Processes && h.inside {
		number, err := childMain.numberOf(h)
		if err != nil {
			return nil, err
		}
		h = inProcesses(h, number)
		if err := h.Check(o); err != nil {
			return nil, err
		}
	}
	metrics := newMetrics(workerName(o), pool, o.Logger)
	name, log := metrics.worker, metrics.log
	watchdog := watchdog.New(watchdog.Options{MaxScope: frames.MaxScope, MaxTimers: frames.MaxTimers, OnEvent: metrics.timerEvent})
	set := newSlotSet(name, o, logEvents(log, metrics.slotEvent))
	w := &Worker{pool: pool, options: o, client: c, set: set, watch: watchdog, metrics: metrics, stopsLimit: stopsLimit, fatal: make(chan error, 1), ready: make(chan struct{})}
	temporal := c.Temporal()
	stops := &lookup.StopFinder{Client: temporal, Converter: c.DataConverter()}
	handler, service, err := h.open(dependencies{
		options: o, worker: name, log: log, set: set, info: o.slotInfo(name), watchdog: watchdog, observe: set.observe, measure: metrics.measure,
		requestStop: stopper(c), defect: func(err error) { w.defect(log, err) },
	})
	if err != nil {
		return nil, err
	}
	handler, observer := o.sampled(handler, set.observed(metrics))
	w.access, w.service = o.access(h), service
	w.link = &link{log: log, ask: func(ctx context.Context) error {
		_, err := temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}}
	metrics.link = w.link
	w.acts = activities.New(activities.Options{
		Access: w.access, Handler: handler, Stdin: o.Stdin, Drain: o.Drain, Joiner: o.joiner(w.access), Slots: set, Watchdog: watchdog, Observer: observer,
		Takers: func(ctx context.Context, id, run string, activities []string) ([]wire.ActivitySlot, error) {
			return lookup.Takers(ctx, temporal, id, run, activities)
		},
		Places: func(ctx context.Context, id, run string) ([]wire.ActivitySlot, error) {
			return lookup.Places(ctx, temporal, c.DataConverter(), id, run)
		},
		Hooks: o.hooks(name), Worker: name, Version: o.Version, Tracer: o.tracer, Capacity: set.capacity, Limiter: calls.NewLimiter(o.Rate), Stop: stopper(c),
		Pollers: func(ctx context.Context, pool string, logic int) (int, error) {
			found, err := lookup.Pollers(ctx, temporal, enums.TASK_QUEUE_TYPE_ACTIVITY, wire.AtLogic(wire.PoolQueue(pool), logic), wire.AtLogic(wire.IOQueue(pool), logic))
			return len(found), err
		},
		Pending: func(ctx context.Context, id, run string, offset int) (piece []byte, err error) {
			if err := lookup.Query(ctx, temporal, id, run, wire.QueryPending, &piece, offset); err != nil {
				return nil, fmt.Errorf("asking %s what it had not committed: %w", id, err)
			}
			return piece, nil
		},
		Notice: stops.Find, Heartbeat: temporal.RecordActivityHeartbeat, Complete: temporal.CompleteActivity, Signal: temporal.SignalWorkflow,
	})
	_, programs := service.(*host)
	if err := errors.Join(metrics.open(o, set, watchdog, programs), w.build(temporal, set.permits)); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// stopper asks for stops of jobs.
func stopper(c *jobs.Client) func(context.Context, string, job.Stop) error {
	return func(ctx context.Context, name string, stop job.Stop) error { return c.Get(name).Stop(ctx, stop) }
}

// workerName identifies this worker, as Temporal's clients do: by the name that it is given, or its host, and its
// process.
func workerName(o Options) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := fmt.Sprintf("%s-%d", cmp.Or(o.Name, host), ownPID)
	if o.label != "" { // it is one of several in this process
		name += "-" + o.label
	}
	return name
}

// build makes a worker for each task queue, of all versions of the logic: the batches come last, to be stopped first.
func (w *Worker) build(c client.Client, p *permits.Permits) error {
	for _, logic := range wire.Logics() {
		if !w.options.NoWorkflows {
			w.workers = append(w.workers, w.coordinator(c, logic))
		}
		if !w.options.NoIO {
			w.workers = append(w.workers, w.io(c, logic))
		}
	}
	for _, logic := range wire.Logics() {
		w.queues = append(w.queues, batchQueue{name: wire.AtLogic(wire.PoolQueue(w.pool), logic)})
		if !w.options.alone { // of 'stint run': no job is pinned
			w.queues = append(w.queues, batchQueue{name: wire.AtLogic(wire.PinnedQueue(w.pool, w.options.Version), logic), pinned: true})
		}
	}
	for _, queue := range w.queues {
		batches, err := w.batches(c, queue, p)
		if err != nil {
			return err
		}
		w.workers = append(w.workers, batches)
	}
	return nil
}

// coordinator makes the worker that runs jobs and their legs.
func (w *Worker) coordinator(c client.Client, logic int) sdkworker.Worker {
	coordinator := sdkworker.New(c, wire.AtLogic(wire.WorkflowQueue, logic), w.sdkOptions(sdkworker.Options{
		DisableEagerActivities: true, LocalActivityWorkerOnly: true,
		Identity:                     wire.Identity{Worker: w.set.worker, Pool: w.pool}.String(),
		StickyScheduleToStartTimeout: sticky,
	}))
	entry.Workflows{
		wire.WorkflowJob:     entry.Workflow(workflows.Job),
		wire.WorkflowLeg:     entry.Workflow(workflows.Leg),
		wire.WorkflowLoopLeg: entry.Workflow(workflows.LoopLeg),
	}.Watched(w.options.traceWorkflow()).Register(coordinator)
	coordinator.RegisterActivityWithOptions(w.acts.Locate, activity.RegisterOptions{Name: string(wire.ActivityLocate)})
	return coordinator
}

// io makes the worker of what runs outside the slots.
func (w *Worker) io(c client.Client, logic int) sdkworker.Worker {
	io := sdkworker.New(c, wire.AtLogic(wire.IOQueue(w.pool), logic), w.sdkOptions(sdkworker.Options{
		DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: ioActivities,
		Identity: w.identity().String(),
	}))
	all := entry.Activities{}
	entry.Offer(all, wire.ActivityPlan, w.acts.Plan)
	entry.Offer(all, wire.ActivityPlanRedrive, w.acts.PlanRedrive)
	entry.Offer(all, wire.ActivityFinishRedrive, w.acts.FinishRedrive)
	entry.Offer(all, wire.ActivityPlanFeed, w.acts.PlanFeed)
	entry.Offer(all, wire.ActivityPlanLoop, w.acts.PlanLoop)
	entry.Offer(all, wire.ActivityCommit, w.acts.Commit)
	entry.Offer(all, wire.ActivityCommitFeed, w.acts.CommitFeed)
	entry.Offer(all, wire.ActivitySalvageFeed, w.acts.SalvageFeed)
	entry.Offer(all, wire.ActivityFinish, w.acts.Finish)
	entry.OfferAction(all, wire.ActivityWriteReport, w.acts.WriteReport)
	entry.Offer(all, wire.ActivityWriteFailures, w.acts.WriteFailures)
	entry.Offer(all, wire.ActivityServed, w.acts.Served)
	entry.OfferAction(all, wire.ActivityHook, w.acts.Hook)
	w.inHand.counted(all).Register(io)
	return io
}

// identity is what the worker says of itself where it polls for activities.
func (w *Worker) identity() wire.Identity {
	return wire.Identity{Worker: w.set.worker, Slots: w.options.Slots, Program: build.This().Short(), Version: w.options.Version, Process: procs.Own()}
}

// batchQueue is a task queue of batches.
type batchQueue struct {
	name   string
	pinned bool // they need this worker's version of the handler; legs of feeds are not among them
}

// batches makes the worker of a task queue of batches. Those of all queues share the slots.
func (w *Worker) batches(c client.Client, queue batchQueue, p *permits.Permits) (sdkworker.Worker, error) {
	tuner, err := permits.NewTuner(p.Queue())
	if err != nil {
		return nil, fmt.Errorf("making %d slots: %w", w.options.Slots, err)
	}
	batches := sdkworker.New(c, queue.name, w.sdkOptions(sdkworker.Options{
		DisableWorkflowWorker: queue.pinned,
		Tuner:                 tuner, WorkerStopTimeout: w.options.Drain, Identity: w.identity().String(),
		StickyScheduleToStartTimeout: sticky, MaxEagerActivityReservationsPerWorkflowTask: new(eager),
		MaxHeartbeatThrottleInterval: loops.BeatTime, // what sends fewer does so by itself
	}))
	process := entry.Activities{}
	entry.Offer(process, wire.ActivityProcess, w.acts.Process)
	w.inHand.counted(process).Register(batches)
	if queue.pinned {
		return batches, nil
	}
	// The legs of feeds run beside their batches.
	entry.Workflows{wire.WorkflowFeedLeg: entry.Workflow(workflows.FeedLeg)}.Watched(w.options.traceWorkflow()).Register(batches)
	batches.RegisterActivityWithOptions(w.acts.Locate, activity.RegisterOptions{Name: string(wire.ActivityLocate)})
	return batches, nil
}

const (
	// ioActivities is how many Plans, Commits and Finishes a worker runs at once.
	ioActivities = 20
	// sticky is how long the coordination of a job waits for its last worker, which may have died, before another one
	// takes over. The SDK's default is 5 s.
	sticky = 2 * time.Second
	// eager is how many batches of a feed start at once because their leg's workflow task was answered here.
	eager = 100
	// deadlock is how long workflow code may run without waiting before that is taken for an endless loop. The SDK's
	// default of 1 s is also reached where handlers take all processors.
	deadlock = 30 * time.Second
	// ioDrain is how long they may take once the worker ends; all of them can be repeated.
	ioDrain = 5 * time.Second
)

func (w *Worker) sdkOptions(o sdkworker.Options) sdkworker.Options {
	o.WorkerStopTimeout = cmp.Or(o.WorkerStopTimeout, ioDrain)
	o.OnFatalError, o.DeadlockDetectionTimeout = w.end, deadlock
	return o
}

// Run polls until ctx ends, drains, and closes the worker. During the drain, running batches finish
// the call in hand and return their rest, within Options.Drain. It returns nil after that, or the
// error that ended it earlier. If the server does not answer meanwhile it returns as soon as nothing is in hand, at the
// latest after the drain; what the SDK still waits for ends once the client is closed.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.running {
		w.mu.Unlock()
		return errors.New("the worker is running already, or has been closed")
	}
	w.running = true
	w.mu.Unlock()
	defer w.free()
	w.metrics.start()
	w.watch.Start()
	began := time.Now()
	if w.service != nil {
		if err := w.service.start(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // it was to end before its programs were ready
			}
			return err
		}
	}
	if w.options.sampler != nil {
		w.options.sampler.Ready(time.Since(began))
	}
	if !w.options.alone { // its server is in this process
		watching, enough := context.WithCancel(ctx)
		watched := trap.Go("watching the connection", func() error { w.link.watch(watching); return nil })
		defer func() {
			enough()
			<-watched
		}()
	}
	yielding, enough := context.WithCancel(ctx)
	yielded := trap.Go("making room for other priorities", func() error { w.set.makeRoom(yielding, w.waiting); return nil })
	defer func() {
		enough()
		<-yielded
	}()
	w.set.permits.Shut()
	for i, sdk := range w.workers {
		if err := sdk.Start(); err != nil {
			w.stop(w.workers[:i])
			return fmt.Errorf("polling for pool %s: %w", w.pool, err)
		}
	}
	defer w.stop(w.workers)
	if err := w.awaitStops(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	w.set.permits.Open()
	w.metrics.state.Store(stateServing)
	close(w.ready)
	defer w.metrics.state.Store(stateDraining)
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.fatal:
		return fmt.Errorf("serving pool %s: %w", w.pool, err)
	case <-w.set.gone:
		return fmt.Errorf("serving pool %s: %w", w.pool, w.set.why)
	}
}

// Ready is closed once Run takes batches, when the programs of all slots are ready.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// dependencies are what a handler gets from its worker.
type dependencies struct {
	options     Options
	json        JSON // of the Go functions
	worker      string
	log         *slog.Logger
	set         *slotSet
	info        func(slot, incarnation int) SlotInfo
	watchdog    *watchdog.Watchdog
	requestStop func(ctx context.Context, job string, stop job.Stop) error
	observe     func(slotEvent)
	measure     func(name string, gauge bool, slot int, value float64)
	// defect ends the worker with an error, because one of its goroutines has panicked.
	defect func(error)
}

// run runs fn, in a goroutine of the worker. If fn panics the worker ends, with an error that says so,
// and cleanup, which may be nil, is called.
func (s dependencies) run(where string, fn, cleanup func()) {
	err := trap.Run(where, fn)
	if err == nil {
		return
	}
	s.defect(err)
	if cleanup != nil {
		cleanup()
	}
}

// service is the part of a handler that lives as long as its worker. It may be nil.
type service interface {
	// start is called once before the first call. If it returns an error, nothing of it is left.
	start(ctx context.Context) error
	// Close ends what it holds. It is idempotent, and may be called without a start.
	Close()
}

// end makes Run return the error.
func (w *Worker) end(err error) {
	select {
	case w.fatal <- err:
	default: // the first one counts
	}
}

// defect makes Run return the error, whose stack goes to the log.
func (w *Worker) defect(log *slog.Logger, err error) {
	if defect, ok := errors.AsType[*trap.DefectError](err); ok {
		log.Error(err.Error(), "stack", string(defect.Stack))
	}
	w.end(err)
}

// Close frees what a worker that has never run holds. It is idempotent; after Run it does nothing.
func (w *Worker) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return
	}
	w.running = true
	w.free()
}

func (w *Worker) free() {
	w.acts.Close()
	if w.service != nil {
		w.service.Close()
	}
	w.watch.Stop()
	w.metrics.Close()
	_ = w.access.Close() // buckets are only handles
}
