package activities

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/base/limits"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/data/loops"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/temporal/lookup"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
)

const (
	// awayLimit is how long a worker tries to report an execution while the server does not answer.
	awayLimit = time.Hour
	// awayPause is the time between two tries: the workflow should hear of it soon after the server is back.
	awayPause = time.Second
)

// cutOff reports whether an activity was cancelled because its heartbeats do not reach the server.
func cutOff(ctx context.Context) bool {
	return errors.As(context.Cause(ctx), new(serviceerror.ServiceError)) && !disowned(ctx)
}

// untilAnswered asks the server until it answers, or over is closed, and returns what it says last. It asks for
// awayLimit at most.
func (e *execution) untilAnswered(over <-chan struct{}, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), awayLimit)
	defer cancel()
	for {
		err := ask(ctx)
		if !lookup.Away(err) || ctx.Err() != nil || !backoff.Wait(awayPause, over) {
			return err
		}
	}
}

// answer sends the result to the server, and returns it with [activity.ErrResultPending], which has the SDK send
// nothing. The SDK tries for ten seconds: if the server is away for longer, a batch that has ended would be lost like
// one whose worker has died. The SDK still gets the last try if the worker ends meanwhile, and what the server refuses.
func (e *execution) answer(result wire.ProcessResult) (wire.ProcessResult, error) {
	if e.acts.opts.Complete == nil || !activity.IsActivity(e.ctx) {
		return result, nil
	}
	err := e.untilAnswered(activity.GetWorkerStopChannel(e.ctx), func(ctx context.Context) error {
		return e.acts.opts.Complete(ctx, activity.GetInfo(e.ctx).TaskToken, result, nil)
	})
	if gone := errors.As(err, new(*serviceerror.NotFound)); gone {
		e.cameBack()
	} else if err != nil {
		return result, nil
	}
	return result, activity.ErrResultPending
}

// givenUp has an execution that has failed come back, if its failure may be that the server has given it up.
func (e *execution) givenUp() {
	if disowned(e.ctx) || cutOff(e.ctx) {
		e.cameBack()
	}
}

// cameBack reports an execution that the server has given up, or may have given up, although its worker has it alive:
// the server or the connection was away for longer than the expiry, or this worker was frozen. It returns at once, and
// the report is made when the server can be reached. An execution whose batch had kept it from heartbeating is not
// reported: that one hung.
func (e *execution) cameBack() {
	signal := e.acts.opts.Signal
	if signal == nil || !activity.IsActivity(e.ctx) {
		return
	}
	info := activity.GetInfo(e.ctx)
	if e.watch != nil && !e.watch.Alive(info.HeartbeatTimeout) {
		return
	}
	back := wire.CameBack{Activity: info.ActivityID}
	if back.Clock = e.slotAt((*loops.Slot).Broken); back.Clock != nil {
		back.Clock.Doubt = max(back.Clock.Doubt, back.Clock.Next)
	}
	failed := func(err error) { activity.GetLogger(e.ctx).Error("reporting that a batch is alive", "error", err) }
	trap.Watched("reporting that a batch is alive", failed, func() {
		_ = e.untilAnswered(e.acts.closed, func(ctx context.Context) error {
			return signal(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, wire.SignalCameBack, back)
		})
	})
}

// tellBegun reports to the leg, once, that the execution has begun its last request: another one can use its share of
// limits then.
func (e *execution) tellBegun() {
	signal := e.acts.opts.Signal
	idle := e.allBegun.Load() && e.allow.Paces() && e.allow.Idle()
	before := e.idle // the last item may only have been on its way to its turn
	if e.idle = idle; e.told || signal == nil || !idle || !before {
		return
	}
	e.told = true
	defer e.allow.Release()
	info := activity.GetInfo(e.ctx)
	begun := wire.Begun{Activity: info.ActivityID, NextTurn: e.allow.Next()}
	failed := func(err error) {
		activity.GetLogger(e.ctx).Error("reporting that a batch has begun all its requests", "error", err)
	}
	trap.Watched("reporting that a batch has begun all its requests", failed, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), awayPause)
		defer cancel()
		_ = signal(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, wire.SignalBegun, begun)
	})
}

// ignoresContext is why a call runs on that was left behind.
const ignoresContext = "a Go function that ignores its cancelled context"

// leftCalls are the calls of a worker that it has left behind and that have not returned.
type leftCalls struct {
	mu   sync.Mutex
	jobs map[string][]leftCall // by run ID
}

// leftCall is one of them.
type leftCall struct {
	calls.LeftCall
	job.Straggler
}

// add adds a call of an execution.
func (l *leftCalls) add(e *execution, call calls.LeftCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs == nil {
		l.jobs = map[string][]leftCall{}
	}
	for run, of := range l.jobs { // they are few
		if l.jobs[run] = slices.DeleteFunc(of, leftCall.Returned); len(l.jobs[run]) == 0 {
			delete(l.jobs, run)
		}
	}
	at := call.Place
	l.jobs[e.in.Ref.Run] = append(l.jobs[e.in.Ref.Run], leftCall{call, job.Straggler{
		Batch: e.in.Batch.String(), Worker: at.Worker, Slot: at.Slot, PID: at.PID, Since: e.began.UTC(), Why: ignoresContext,
	}})
}

// take takes out those of a job: each is reported once.
func (l *leftCalls) take(run string) (running []job.Straggler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.jobs[run] {
		if len(running) < limits.MaxForced && !call.Returned() {
			running = append(running, call.Straggler)
		}
	}
	delete(l.jobs, run)
	return running
}

// leftAtStop returns the calls of the job that still run here, if the execution ends because of the job's stop.
func (e *execution) leftAtStop() []job.Straggler {
	if e.ctx.Err() == nil || disowned(e.ctx) {
		return nil
	}
	return e.acts.left.take(e.in.Ref.Run)
}
