// Package worker serves a pool: it polls the pool's task queue and runs a handler over the batches
// that it gets. A [Handler] is a Go function ([Each], [Batch]) or a program ([Exec],
// [Serve]).
//
//	h := worker.Each(func(ctx context.Context, p Photo) (Thumb, error) { ... })
//	w, err := worker.New(temporalClient, "thumbnails", h, worker.Options{Slots: 8})
//	err = w.Run(ctx)
package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/frames"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/timers"
	"github.com/stint-run/stint/workflows"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Worker serves one pool. Make one with [New].
type Worker struct {
	pool    string
	options Options
	access  *store.Access
	acts    *activities.Activities
	service service // of the handler; may be nil
	roster  *roster
	watch   *timers.Watchdog
	metrics *metrics
	workers []sdkworker.Worker

	mu      sync.Mutex
	running bool
	fatal   chan error
}

// New returns a worker of the pool that runs h. It checks the options and that the handler can
// run, but does not poll yet. The Temporal client stays the caller's. A Worker that is never run
// must be closed.
func New(c client.Client, pool string, h Handler, o Options) (*Worker, error) {
	if err := job.CheckName("pool", pool); err != nil {
		return nil, err
	}
	if err := h.Check(o); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if o.Isolate && h.inside {
		if isolatedIn != nil && os.Getenv(isolatedPool) == pool {
			serveIsolated(h, o)
		}
		h = isolate(h, pool)
		if err := h.Check(o); err != nil {
			return nil, err
		}
	}
	metrics := newMetrics(workerName(), pool, o.Logger)
	name, log := metrics.worker, metrics.log
	watchdog, err := timers.New(timers.Options{MaxScope: frames.MaxScope, MaxTimers: frames.MaxTimers, OnEvent: metrics.timerEvent})
	if err != nil {
		return nil, err
	}
	permits := newPermits(o.Slots * o.Concurrency)
	roster := newRoster(name, o, permits, logEvents(log, metrics.slotEvent))
	handler, service, err := h.open(surroundings{
		options: o, worker: name, log: log, roster: roster, info: o.slotInfo(name), watchdog: watchdog, observe: roster.observe, measure: metrics.measure,
		requestStop: stopper(c),
	})
	if err != nil {
		return nil, err
	}
	access := &store.Access{Allow: o.Allow}
	w := &Worker{
		pool: pool, options: o, access: access, service: service, roster: roster, watch: watchdog, metrics: metrics, fatal: make(chan error, 1),
		acts: activities.New(activities.Options{
			Access: access, Handler: handler, Stdin: o.Stdin, Drain: o.Drain, Alone: o.Alone, Slots: roster, Watchdog: watchdog, Observer: metrics,
			Places: job.NewClient(c).Places, Hooks: o.hooks(name), Worker: name, Limiter: activities.NewLimiter(o.Rate), Stop: stopper(c),
			Notice: func(ctx context.Context, id, run string) (job.StopNotice, bool) { return notice(ctx, c, id, run) },
		}),
	}
	_, programs := service.(*host)
	if err := errors.Join(metrics.open(o, roster, watchdog, programs), w.build(c, permits)); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// stopper asks for stops of jobs.
func stopper(c client.Client) func(context.Context, string, job.Stop) error {
	return func(ctx context.Context, name string, stop job.Stop) error {
		return job.NewClient(c).Get(name).Stop(ctx, stop)
	}
}

// workerName tells this worker from others: as Temporal's clients do.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, ownPID)
}

// build makes a worker for each task queue: the batches come last, to be stopped first.
func (w *Worker) build(c client.Client, p *permits) error {
	tuner, err := newTuner(p)
	if err != nil {
		return fmt.Errorf("making %d slots: %w", w.options.Slots, err)
	}
	if !w.options.NoWorkflows {
		coordinator := sdkworker.New(c, job.WorkflowQueue, w.sdkOptions(sdkworker.Options{
			DisableEagerActivities: true, LocalActivityWorkerOnly: true, DeadlockDetectionTimeout: deadlock,
			StickyScheduleToStartTimeout: sticky,
		}))
		coordinator.RegisterWorkflowWithOptions(workflows.Job, workflow.RegisterOptions{Name: job.WorkflowJob})
		coordinator.RegisterWorkflowWithOptions(workflows.Leg, workflow.RegisterOptions{Name: job.WorkflowLeg})
		coordinator.RegisterActivityWithOptions(w.acts.Locate, activity.RegisterOptions{Name: job.ActivityLocate})
		w.workers = append(w.workers, coordinator)
	}
	if !w.options.NoIO {
		io := sdkworker.New(c, job.IOQueue(w.pool), w.sdkOptions(sdkworker.Options{
			DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: ioActivities,
		}))
		io.RegisterActivityWithOptions(w.acts.Plan, activity.RegisterOptions{Name: "Plan"})
		io.RegisterActivityWithOptions(w.acts.Commit, activity.RegisterOptions{Name: "Commit"})
		io.RegisterActivityWithOptions(w.acts.Finish, activity.RegisterOptions{Name: "Finish"})
		io.RegisterActivityWithOptions(w.acts.WriteReport, activity.RegisterOptions{Name: "WriteReport"})
		io.RegisterActivityWithOptions(w.acts.Hook, activity.RegisterOptions{Name: "Hook"})
		w.workers = append(w.workers, io)
	}
	batches := sdkworker.New(c, job.PoolQueue(w.pool), w.sdkOptions(sdkworker.Options{
		DisableWorkflowWorker: true, Tuner: tuner, WorkerStopTimeout: w.options.Drain, Identity: w.roster.worker,
	}))
	batches.RegisterActivityWithOptions(w.acts.Process, activity.RegisterOptions{Name: job.ActivityProcess})
	w.workers = append(w.workers, batches)
	return nil
}

const (
	// ioActivities is how many Plans, Commits and Finishes a worker runs at once.
	ioActivities = 20
	// deadlock leaves legs the time that they take over a workflow task (see package workflows).
	deadlock = 10 * time.Second
	// sticky is how long the coordination of a job waits for the worker that had it last, which may
	// have died: then another one takes it up. By default it would wait for 5 s each time.
	sticky = 2 * time.Second
	// ioDrain is how long they may take once the worker ends; they can all be repeated.
	ioDrain = 5 * time.Second
)

func (w *Worker) sdkOptions(o sdkworker.Options) sdkworker.Options {
	if o.WorkerStopTimeout == 0 {
		o.WorkerStopTimeout = ioDrain
	}
	o.OnFatalError = func(err error) {
		select {
		case w.fatal <- err:
		default: // the first one counts
		}
	}
	return o
}

// Run polls until ctx ends, drains, and closes the worker. Draining, running batches finish the
// call in hand and return their rest, within Options.Drain. It returns nil after that, or the
// error that kept it from polling.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.running {
		w.mu.Unlock()
		return errors.New("the worker runs already, or has been closed")
	}
	w.running = true
	w.mu.Unlock()
	defer w.free()
	w.metrics.start()
	w.watch.Start()
	if w.service != nil {
		if err := w.service.start(ctx); err != nil {
			return err
		}
	}
	for i, sdk := range w.workers {
		if err := sdk.Start(); err != nil {
			w.stop(w.workers[:i])
			return fmt.Errorf("polling for pool %s: %w", w.pool, err)
		}
	}
	w.metrics.state.Store(stateServing)
	defer w.stop(w.workers)
	defer w.metrics.state.Store(stateDraining)
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.fatal:
		return fmt.Errorf("serving pool %s: %w", w.pool, err)
	case <-w.roster.gone:
		return fmt.Errorf("serving pool %s: %w", w.pool, w.roster.why)
	}
}

// stop stops in reverse order: the batches' rests still find a coordinator.
func (w *Worker) stop(workers []sdkworker.Worker) {
	for i := len(workers) - 1; i >= 0; i-- {
		workers[i].Stop()
	}
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
		w.service.close()
	}
	w.watch.Stop()
	w.metrics.close()
	_ = w.access.Close() // buckets are only handles
}

// noticeLimit bounds the look-up of a stop's deadline: without it, the job's own grace counts.
const noticeLimit = 2 * time.Second

// notice finds a stop in the memo of the workflow whose batch it is.
func notice(ctx context.Context, c client.Client, id, run string) (job.StopNotice, bool) {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	var n job.StopNotice
	desc, err := c.DescribeWorkflowExecution(ctx, id, run)
	if err != nil {
		return n, false
	}
	payload := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[job.MemoStop]
	if payload == nil {
		return n, false
	}
	err = converter.GetDefaultDataConverter().FromPayload(payload, &n)
	return n, err == nil
}
