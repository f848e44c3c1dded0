package activities

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
)

// execution is one execution of Process, used by one goroutine (its minder has another).
type execution struct {
	acts  *Activities
	in    ProcessInput
	ctx   context.Context
	began time.Time

	dir    store.Dir
	source *Source
	body   io.ReadCloser
	reader *records.Reader
	minder *minder
	slot   Slot
	caller *caller
	hint   atomic.Pointer[job.Hint]

	early    *early   // nil where parts are not joined as they come
	held     [][]byte // all results so far, for early
	overheld bool     // too many for that
	told     RecordStats
	stride   stride

	*chunkBuffers // of the chunk in hand

	// What has been done.
	entry      Entry
	length     int64 // bytes of the range that the items done take
	results    partWriter
	errors     partWriter
	firstError *job.FirstError
}

// chunkBuffers are what a chunk is held in: some MiB for filters, reused over chunks and batches.
type chunkBuffers struct {
	chunk   records.Chunk
	answer  Answer
	items   []Item
	data    []byte // of items that had to be converted
	invalid []invalidItem
}

func (e *execution) open() error {
	a, in := e.acts, e.in
	dir, err := a.opts.Access.Open(e.ctx, in.Ref.Store)
	if err != nil {
		return storeError(job.ErrorOutput, err)
	}
	table, err := a.table(e.ctx, dir, in.Ref.Sources)
	if err != nil {
		return err
	}
	e.early = a.earlyOf(in.Ref.Run, false)
	e.dir, e.source = dir, &table.Sources[in.Batch.Source]
	if e.source.Spool != "" {
		e.body = &spoolReader{ctx: context.WithoutCancel(e.ctx), dir: dir, prefix: e.source.Spool, offset: in.Batch.Offset, left: in.Batch.Length}
	} else {
		if err := a.unchanged(e.ctx, e.source); err != nil {
			return err
		}
		body, err := a.opts.Access.OpenInput(context.WithoutCancel(e.ctx), e.source.URL, in.Batch.Offset, in.Batch.Length)
		if err != nil {
			return storeError(job.ErrorInput, err)
		}
		e.body = body
	}
	e.reader = records.NewReader(e.body, e.source.Shape)
	e.entry = Entry{Batch: in.Batch, Part: newToken()}
	e.entry.Count = 0
	e.results = partWriter{dir: dir, key: resultsKey(in.Ref.Run, e.entry), bulk: e.early != nil} // joined from memory, as a rule
	e.errors = partWriter{dir: dir, key: errorsKey(in.Ref.Run, e.entry)}
	e.minder = mind(e.ctx, e.limits())
	e.caller = &caller{handler: a.opts.Handler, limits: in.Calls, minder: e.minder, slot: e.slot, observer: a.opts.Observer, job: in.Ref.Job}
	return nil
}

// limits are the times of this execution.
func (e *execution) limits() minderLimits {
	limits := minderLimits{
		call: e.in.Calls.Timeout, slice: e.in.Slice, grace: e.in.Grace,
		drain:   e.acts.opts.Drain * 9 / 10, // the rest of it is for the part and the answer
		stopped: e.ctx.Done(), watchdog: e.acts.opts.Watchdog, worker: e.in.Ref.Job + "/" + e.in.Batch.String(),
	}
	if !activity.IsActivity(e.ctx) {
		return limits
	}
	info := activity.GetInfo(e.ctx)
	limits.draining = activity.GetWorkerStopChannel(e.ctx)
	limits.beat = info.HeartbeatTimeout / 4
	if e.acts.opts.Stop != nil {
		limits.request = func(ctx context.Context, stop job.Stop) error { return e.acts.opts.Stop(ctx, e.in.Ref.Job, stop) }
	}
	// A heartbeat with a cancelled context would not be sent: after a stop the calls in hand go on.
	beats := context.WithoutCancel(e.ctx)
	limits.vouch = func() { activity.RecordHeartbeat(beats, e.whereabouts()) }
	limits.notice = func() (job.StopNotice, bool) {
		if disowned(e.ctx) {
			return job.StopNotice{Deadline: time.Now(), Reason: "the batch is not this worker's any more"}, true
		}
		if e.acts.opts.Notice == nil {
			return job.StopNotice{}, false
		}
		return e.acts.opts.Notice(context.WithoutCancel(e.ctx), info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	}
	return limits
}

// disowned reports whether an activity was cancelled because the server knows of it no more: it has
// expired, or its workflow has ended. Nobody will take its result.
func disowned(ctx context.Context) bool {
	var unknown *serviceerror.NotFound
	return errors.As(context.Cause(ctx), &unknown)
}

func (e *execution) close() {
	e.minder.stop()
	_ = e.body.Close() // only read from
	e.results.abort()
	e.errors.abort()
	e.early.release(e.takeHeld())
}

// whereabouts is what heartbeats tell.
func (e *execution) whereabouts() job.Hint {
	hint := job.Hint{Batch: e.in.Batch.String()}
	if h := e.hint.Load(); h != nil {
		hint.First, hint.Count = h.First, h.Count
	}
	hint.Place = e.slot.Describe()
	return hint
}

// hold keeps the chunk's results in memory for the join under way, if it has room for the whole part.
func (e *execution) hold() {
	if len(e.answer.buf) == 0 || e.overheld {
		return
	}
	next, ok := e.early.hold(e.answer.buf)
	if !ok {
		e.overheld = true
		e.early.release(e.takeHeld())
		return
	}
	e.held = append(e.held, e.answer.buf)
	e.answer.buf = next
}

func (e *execution) takeHeld() [][]byte {
	held := e.held
	e.held = nil
	return held
}
