package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/child"
	"github.com/stint-run/stint/internal/temporal/entry"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdkworker "go.temporal.io/sdk/worker"
)

// Stopping returns a channel that is closed when the call should end: its job is being stopped, or its worker drained.
// ctx is the handler's context, or one derived from it; for any other context the channel is nil. The context itself
// ends only when the grace period is over. Items that the call has not begun by then are not lost: the handler of
// [Each] is just not called for them.
func Stopping(ctx context.Context) <-chan struct{} { return calls.Stopping(ctx) }

// StopNotice returns why the call should end, and when its context will end. It is not ok while the call need not end.
// Both are known when the channel of [Stopping] is closed: the worker asks the server before, as a rule for some
// milliseconds, at most for 4 s. If the server does not answer, the end is that of the job's own grace period.
func StopNotice(ctx context.Context) (reason string, end time.Time, ok bool) {
	notice, ok := calls.StopNotice(ctx)
	return notice.Reason, notice.Deadline, ok
}

// RequestStop asks for a stop of the job whose call ctx belongs to: a plain one if err is nil,
// otherwise one with that error, which makes the job fail if it is the first one and its type is not
// one of the job's clean-stop types. It returns once the server has recorded the request. If the job
// has ended meanwhile, it returns a *jobs.EndedError, which wraps the error.
func RequestStop(ctx context.Context, err error) error {
	stop := job.Stop{Reason: "a handler asked for it"}
	if err != nil {
		fault := calls.FaultOf(err)
		stop = job.Stop{Error: &fault.Err}
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	asked := calls.RequestStop(ctx, stop)
	if _, ended := errors.AsType[*jobs.EndedError](asked); ended && err != nil {
		return fmt.Errorf("%w: %w", asked, err)
	}
	return asked
}

const (
	// stopsLimit bounds the wait for the reports of the pool's jobs when the worker starts. A job whose coordinator was
	// killed in the middle of a workflow task answers when this has timed out, after 10 s.
	stopsLimit = 30 * time.Second
	// legsLimit bounds the wait for the legs of a job that is stopping. They may be in the hands of a dead coordinator,
	// too.
	legsLimit = time.Minute
	// stopPolls is how often a leg is looked at.
	stopPolls = 20 * time.Millisecond
	// askAgainAfter is the wait before a job is asked again for which no worker answers: that can be known at once.
	askAgainAfter = 250 * time.Millisecond
	// askedAtOnce is how many jobs are asked at once: one that does not answer keeps no other one from being asked.
	askedAtOnce = 8
)

// awaitStops returns once the jobs whose items reach the pool have taken in stops that were requested while nobody
// coordinated them. Without it, the first batches that the worker took could be of jobs that are to stop (S17): these
// batches still lie in the pool's queue. It asks each running job for its report, which comes after everything that the
// job has to take in, and waits until the stop has reached the legs. The legs of feeds take it in on this pool's
// workers, so the worker must serve workflows meanwhile.
func (w *Worker) awaitStops(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, w.stopsLimit)
	defer cancel()
	listed, err := w.client.List(asking, math.MaxInt, &jobs.ListFilter{Running: true, Pools: []string{w.pool}})
	if err != nil {
		return nil // who cannot be asked now is no reason not to serve
	}
	places := make(chan struct{}, askedAtOnce)
	var all []<-chan error
	for _, j := range listed {
		places <- struct{}{}
		all = append(all, trap.Go("awaiting a stop", func() error {
			defer func() { <-places }()
			w.awaitStopOf(ctx, w.stoppingLegs(asking, j.Name))
			return nil
		}))
	}
	for _, one := range all {
		if defect := <-one; defect != nil {
			return defect
		}
	}
	return nil
}

// stoppingLegs returns the open legs of a job that is stopping. It asks the job alone: legs that nobody serves would
// not answer.
func (w *Worker) stoppingLegs(ctx context.Context, name string) []string {
	for {
		var report wire.Answer
		err := lookup.Query(ctx, w.client.Temporal(), name, "", wire.QueryReport, &report)
		if err != nil && jobs.Unanswered(err) && ctx.Err() == nil {
			backoff.Wait(askAgainAfter, ctx.Done())
			continue
		}
		if report.State != job.Stopping { // as it is without an answer
			return nil
		}
		return report.OpenLegs
	}
}

// awaitStopOf returns once the legs have taken in a stop.
func (w *Worker) awaitStopOf(ctx context.Context, legs []string) {
	ctx, cancel := context.WithTimeout(ctx, legsLimit)
	defer cancel()
	for _, leg := range legs {
		w.awaitStop(ctx, leg)
	}
}

// awaitStop returns once a leg has taken in a stop, or has ended.
func (w *Worker) awaitStop(ctx context.Context, leg string) {
	for ctx.Err() == nil {
		if desc, err := w.client.Temporal().DescribeWorkflowExecution(ctx, leg, ""); err == nil {
			_, stopped := lookup.StopIn(desc, w.client.DataConverter())
			if stopped || desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				return
			}
		}
		backoff.Wait(stopPolls, ctx.Done())
	}
}

// stop stops in reverse order: the batches' rests still find a coordinator.
func (w *Worker) stop(workers []sdkworker.Worker) {
	leaving := leaving{silent: w.link.once, busy: w.inHand.busy, most: w.options.Drain, stop: func() {
		for _, worker := range slices.Backward(workers) {
			worker.Stop()
		}
	}}
	if why := leaving.run(); why != nil {
		w.link.log.Warn("the Temporal server does not answer: the worker ends without its word that no more tasks come", "error", why)
	}
}

const (
	// silenceEvery is the time between two looks at the server while a worker ends.
	silenceEvery = time.Second
	// reportLimit is how long the report of a task that has ended may be under way.
	reportLimit = 10 * time.Second
)

// leaving stops a worker. The SDK waits for what is in hand, and for the server to answer each poll, which a server
// that is frozen does not do: for a minute and more.
type leaving struct {
	stop   func()
	silent func(context.Context) error // an error if the server does not answer
	busy   func() bool                 // something is in hand
	most   time.Duration               // how long that may take
}

// run returns when all has stopped; or, with the error, when the server does not answer, and nothing is in hand or that
// has had its time. What still waits then ends with the connection.
func (l leaving) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begun := time.Now()
	stopped := trap.Go("stopping to poll", func() error { l.stop(); return nil })
	for misses := 0; ; {
		select {
		case err := <-stopped:
			return err
		case <-time.After(silenceEvery):
		}
		select {
		case err := <-stopped:
			return err
		case why := <-trap.Go("asking whether the server answers", func() error { return l.silent(ctx) }):
			if misses++; why == nil {
				misses = 0
			}
			if misses > 1 && (!l.busy() || time.Since(begun) > l.most) { // once may be a busy server
				return why
			}
		}
	}
}

// tasksInHand counts the activities of a worker.
type tasksInHand struct {
	running atomic.Int64
	ended   atomic.Int64 // when the last one did, in Unix nanoseconds
	// namespace is that of the activities, a string; nil: there was none yet. Clients do not say theirs.
	namespace atomic.Value
}

// busy reports whether an activity runs, or may still be reported.
func (t *tasksInHand) busy() bool {
	return t.running.Load() > 0 || time.Since(time.Unix(0, t.ended.Load())) < reportLimit
}

// counted returns the activities, which count while they run.
func (t *tasksInHand) counted(all entry.Activities) entry.Activities {
	counted := entry.Activities{}
	for name, fn := range all {
		counted[name] = func(ctx context.Context, args converter.EncodedValues) (any, error) {
			t.running.Add(1)
			if activity.IsActivity(ctx) {
				t.namespace.Store(activity.GetInfo(ctx).Namespace)
			}
			defer func() {
				t.ended.Store(time.Now().UnixNano())
				t.running.Add(-1)
			}()
			return fn(ctx, args)
		}
	}
	return counted
}

// Hook is run for a job: as its init before the first batch, as its shutdown when a stop is
// requested, as its cleanup when everything has ended. Its context ends with the job's call timeout.
// After an error, or a panic, it is repeated, as often as the job's attempts allow. It may also be
// repeated because its worker was lost: HookCall.Key identifies the repetitions.
type Hook func(ctx context.Context, call HookCall) error

// HookCall describes to a hook the job that it runs for.
type HookCall struct {
	Job   string
	Run   string // the job's run; a resumed job has another one
	Pool  string // the job's
	Stage string // "init", "shutdown" or "cleanup"
	// Key is the idempotency key: the same in every repetition of this hook, and unique to it.
	Key string
	// State is the job's state, Reason why it was stopped, if it was.
	State  job.State
	Reason string
	// Worker is the name of the worker that runs the hook.
	Worker string

	env []string // of child processes
	dir string
	log *slog.Logger
}

// HookCommand makes a hook of a program, which must end with status 0. It gets the environment of the
// worker's other child processes, and STINT_JOB, STINT_RUN, STINT_STAGE, STINT_KEY, STINT_STATE and
// STINT_REASON. The end of its standard error is part of its error.
//
// Processes that it leaves in its session (on other systems than Linux: in its process group) are killed within
// seconds. Those that have begun a session of their own, as daemons do (see setsid), are not waited for and stay: also
// if the hook fails or is ended, and after the job and the worker. A cleanup hook can end them. Such a process needs
// another standard error than the hook's: nobody reads that any more, and writing to it would end the process.
func HookCommand(argv ...string) Hook {
	return func(ctx context.Context, call HookCall) error {
		if len(argv) == 0 {
			return errors.New("the hook's command is empty")
		}
		children, err := child.NewDaemonStarter(cmp.Or(call.log, slog.Default()))
		if err != nil {
			return err
		}
		defer children.Close()
		path, err := Options{Dir: call.dir, Env: call.env}.runnable(argv)
		if err != nil {
			return fmt.Errorf("hook: %w", err)
		}
		var stderr child.Tail
		cmd := &exec.Cmd{Path: path, Args: argv, Env: call.environ(), Dir: call.dir, Stderr: &stderr, SysProcAttr: child.GroupAttributes(), WaitDelay: hookOutput}
		process, err := children.Start(cmd, nil)
		if err != nil {
			return fmt.Errorf("starting hook %s: %w", argv[0], err)
		}
		defer trap.OnDone(ctx, "ending a hook", nil, process.Kill)()
		if err := process.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return endFault(err, stderr.Text())
		}
		return nil
	}
}

// hookOutput bounds how long a hook's standard error is read after its end: a daemon may hold it open.
const hookOutput = time.Second

func (c HookCall) environ() []string {
	return append(slices.Clip(c.env),
		"STINT_JOB="+c.Job, "STINT_RUN="+c.Run, "STINT_STAGE="+c.Stage, "STINT_KEY="+c.Key,
		"STINT_STATE="+string(c.State), "STINT_REASON="+c.Reason, "STINT_WORKER="+c.Worker)
}

// hooks returns the worker's hooks, as its activities call them.
func (o Options) hooks(worker string) map[string]activities.Hook {
	hooks := map[string]activities.Hook{}
	for name, hook := range o.Hooks {
		hooks[name] = func(ctx context.Context, in wire.HookInput) error {
			return hook(ctx, HookCall{
				Job: in.Ref.Job, Run: in.Ref.Run, Pool: in.Pool, Stage: in.Stage, Key: in.Key,
				State: in.State, Reason: in.Reason, Worker: worker, env: o.childEnv(), dir: o.Dir, log: o.Logger,
			})
		}
	}
	return hooks
}
