package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/records"
	"github.com/stint-run/stint/internal/store"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
)

// ProcessInput is one batch to run.
type ProcessInput struct {
	Ref   Ref           `json:"ref"`
	Batch job.Batch     `json:"batch"`
	Calls CallLimits    `json:"calls"`
	Grace time.Duration `json:"grace"`           // of a stop that does not tell its own
	Slice time.Duration `json:"slice,omitempty"` // after which the batch returns its rest; 0: never
	// Take is how many of the batch's items are done; the others are its rest. 0: all.
	Take int64 `json:"take,omitempty"`
	// OnError is the job's: see [job.Spec].
	OnError string `json:"on_error,omitempty"`
	// Pace is the most items begun in a time; 0: no limit.
	Pace job.Rate `json:"pace,omitempty"`
	// Verdict, where there is one, is what those items have failed with: the handler is not called.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Verdict is why items are recorded as failed without being tried again: every worker that had them
// in hand has died.
type Verdict struct {
	Kind     string    `json:"kind"` // one of job.Kind…
	Error    job.Error `json:"error"`
	Attempts int       `json:"attempts"`
}

// ProcessResult is an execution's answer. Only when the workflow has accepted it does its part count.
type ProcessResult struct {
	// Entry is what has been done: the first items of the batch, perhaps none.
	Entry Entry `json:"entry"`
	// Rest is what has not been done: the other items of the batch; nil where there are none.
	Rest       *job.Batch      `json:"rest,omitempty"`
	Totals     job.Totals      `json:"totals"`
	FirstError *job.FirstError `json:"first_error,omitempty"`
	// Started is when the worker took the batch from the pool's queue, in Unix milliseconds of the
	// server's clock.
	Started int64 `json:"at,omitempty"`
	// Worker is who has done it.
	Worker string `json:"worker,omitempty"`
	// Paced is the time spent waiting for the pace; part of Totals.Busy.
	Paced time.Duration `json:"paced,omitempty"`
	// SlowDown is how long the handler wants nothing to be begun; 0: it is content.
	SlowDown time.Duration `json:"slow_down,omitempty"`
}

// Process runs the handler over one batch: it reads the range, calls the handler, and writes the
// results and errors to a part of its own. It ends before the last item, with a rest, when the job
// stops, when its worker drains and when it has run for its slice of time.
func (a *Activities) Process(ctx context.Context, in ProcessInput) (result ProcessResult, err error) {
	e := &execution{acts: a, in: in, ctx: ctx, began: time.Now()}
	e.slot, err = a.opts.Slots.Take(ctx, Occupant{Job: in.Ref.Job, Batch: in.Batch.String()})
	if errors.Is(err, ErrNoSlot) {
		return ProcessResult{Rest: &in.Batch}, nil // for another worker: this one ends
	}
	if err != nil {
		return ProcessResult{}, fmt.Errorf("taking a slot: %w", err)
	}
	defer e.slot.Leave()
	a.opts.Observer.BatchBegan(in.Ref.Job)
	defer func() { a.opts.Observer.BatchEnded(in.Ref.Job, err) }()
	if err := e.open(); err != nil {
		return ProcessResult{}, err
	}
	defer e.close()
	if err := e.run(); err != nil {
		return ProcessResult{}, err
	}
	e.slot.Leave()
	result, err = e.commit()
	if err == nil {
		e.early.offer(result.Entry, e.takeHeld())
	}
	return result, err
}

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

type invalidItem struct {
	index int // in the chunk
	fault *Fault
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

// run does chunk after chunk until the batch's end, or until it should end.
func (e *execution) run() error {
	e.chunkBuffers = e.acts.buffers.Get().(*chunkBuffers)
	defer func() {
		if !e.caller.tainted {
			e.acts.buffers.Put(e.chunkBuffers)
		}
	}()
	e.caller.answer = &e.answer
	e.stride.pace = e.in.Pace
	for !e.minder.ending.Load() && e.left() > 0 {
		size := e.acts.opts.Handler.CallSize()
		size.Items = e.stride.portion(size.Items)
		e.reserve(size)
		err := e.reader.Read(&e.chunk, int(min(int64(size.Items), e.left())), size.Bytes)
		if err == io.EOF {
			return e.checkComplete()
		}
		if err != nil {
			return storeError(job.ErrorInput, fmt.Errorf("reading %s: %w", e.source.URL, err))
		}
		e.prepare()
		e.hint.Store(&job.Hint{First: e.in.Batch.First + e.entry.Count, Count: int64(len(e.chunk.Items))})
		err = e.settle()
		recorded := e.record()
		e.tell()
		if recorded != nil {
			return recorded
		}
		if errors.Is(err, errEnding) || e.in.OnError == job.OnErrorStop && e.firstError != nil {
			return nil
		}
		e.stride.pass(e.minder, len(e.chunk.Items))
		if e.caller.tainted {
			e.chunkBuffers = &chunkBuffers{}
			e.caller.answer, e.caller.tainted = &e.answer, false
		}
	}
	return nil
}

// left is how many items are still to be done. At the end of a whole batch it is one more: that the
// range holds nothing else is seen by reading on.
func (e *execution) left() int64 {
	if e.in.Take > 0 && e.in.Take < e.in.Batch.Count {
		return e.in.Take - e.entry.Count
	}
	return e.in.Batch.Count - e.entry.Count + 1
}

// settle gives each of the chunk's items its outcome, up to where the batch ends early.
func (e *execution) settle() error {
	v := e.in.Verdict
	if v == nil {
		return e.caller.run(e.items)
	}
	for range e.items {
		e.answer.Fail(&Fault{Kind: v.Kind, Err: v.Error}, v.Attempts)
	}
	return nil
}

// reserve makes room for a chunk of the size, or for what the batch has left.
func (e *execution) reserve(size CallSize) {
	items := int(min(int64(size.Items), e.in.Batch.Count-e.entry.Count))
	e.chunk.Reserve(items, int(min(int64(size.Bytes), e.in.Batch.Length-e.length))+1)
	if items > cap(e.chunkBuffers.items) {
		e.chunkBuffers.items = make([]Item, 0, items)
	}
}

// checkComplete fails where the range did not hold what was planned.
func (e *execution) checkComplete() error {
	if e.entry.Count == e.in.Batch.Count {
		return nil
	}
	return permanent(job.ErrorChanged, fmt.Errorf(
		"input %s changed while the job ran: %d bytes from offset %d held %d items when they were planned, and now hold %d; start anew with --fresh",
		e.source.URL, e.in.Batch.Length, e.in.Batch.Offset, e.in.Batch.Count, e.entry.Count))
}

// prepare turns the chunk into the items of a call, and sets the invalid ones aside.
func (e *execution) prepare() {
	e.items, e.data, e.invalid = e.items[:0], e.data[:0], e.invalid[:0]
	e.answer.reset()
	form := e.acts.opts.Handler.Traits().Form
	first := e.in.Batch.First + e.entry.Count
	at := 0
	for i := range e.chunk.Items {
		item := &e.chunk.Items[i]
		data, err := e.convert(item, form)
		if err != nil {
			e.invalid = append(e.invalid, invalidItem{i, invalidFault(err)})
			continue
		}
		e.items = append(e.items, Item{Ordinal: first + int64(i), Data: data, at: at})
		at += len(data) + 1
	}
	e.caller.block = nil
	if form == Lines && e.source.Shape.Format != records.CSV && len(e.invalid) == 0 {
		e.caller.block = e.chunk.Lines()
	}
}

// convert gives an item the form that the handler wants.
func (e *execution) convert(item *records.Item, form Form) ([]byte, error) {
	if item.Err != nil {
		return nil, item.Err
	}
	shape := &e.source.Shape
	switch {
	case form == CheckedJSON && shape.Format == records.JSONL:
		return item.Raw, shape.CheckLine(item)
	case form == JSONValues && shape.Format == records.JSONL && utf8.Valid(item.Raw):
		return item.Raw, nil // the handler's own decoder checks the rest
	case form == Lines && shape.Format != records.CSV:
		return item.Raw, shape.CheckLine(item)
	}
	start := len(e.data)
	var err error
	if form == Lines {
		e.data, err = shape.AppendLine(e.data, item)
	} else {
		e.data, err = shape.AppendJSON(e.data, item)
	}
	if err != nil {
		e.data = e.data[:start]
		return nil, err
	}
	return e.data[start:len(e.data):len(e.data)], nil
}

// record writes the outcomes of the chunk's first items, up to the first without one.
func (e *execution) record() error {
	base := e.results.bytes
	if err := e.results.write(context.WithoutCancel(e.ctx), e.answer.buf); err != nil {
		return err
	}
	done := len(e.chunk.Items)
	if len(e.invalid) > 0 || e.answer.special > 0 || e.answer.count < len(e.items) {
		var err error
		if done, err = e.recordEach(base); err != nil {
			return err
		}
	} else {
		e.entry.OK += int64(done)
	}
	if done > 0 {
		last := &e.chunk.Items[done-1]
		e.length = min(last.Offset+last.Size+1, e.in.Batch.Length)
	}
	e.entry.Count += int64(done)
	e.hold()
	return nil
}

// recordEach counts outcomes one by one and writes the errors among them. It returns how many of
// the chunk's items have an outcome before the first without one.
func (e *execution) recordEach(base int64) (done int, err error) {
	invalid := e.invalid
	at := base // where the next result is, or would be
	note := func(o outcome) {
		switch {
		case err != nil:
		case o.fault != nil:
			err = e.fail(done, o, at)
		case o.drop:
			e.entry.Dropped++
			e.entry.OK++
			err = e.noteDrop(at)
		default:
			e.entry.OK++
		}
		done++
	}
	takeInvalid := func() {
		for len(invalid) > 0 && invalid[0].index == done {
			fault := invalid[0].fault
			invalid = invalid[1:]
			note(outcome{fault: fault, tries: 1})
		}
	}
	e.answer.each(func(o outcome) {
		takeInvalid()
		note(o)
		at = base + int64(o.end)
	})
	takeInvalid()
	return done, err
}

func (e *execution) fail(index int, o outcome, at int64) error {
	item := &e.chunk.Items[index]
	failure := job.Failure{
		Item:     e.in.Batch.First + e.entry.Count + int64(index),
		Source:   e.source.URL,
		Offset:   e.in.Batch.Offset + item.Offset,
		Input:    failureInput(&e.source.Shape, item),
		Kind:     o.fault.Kind,
		Error:    o.fault.Err,
		Attempts: int(o.tries),
	}
	if e.firstError == nil {
		e.firstError = firstErrorOf(failure)
		if err := e.nameOriginal(e.firstError); err != nil {
			return err
		}
	}
	e.entry.Failed++
	if e.in.OnError == job.OnErrorDrop {
		return nil
	}
	return e.note(failureLine{At: at, Failure: failure, again: runAgain(&e.source.Shape, item, failure.Input)})
}

// note adds a line to the part's errors.
func (e *execution) note(line failureLine) error {
	data, err := line.encode()
	if err != nil {
		return err
	}
	return e.errors.write(context.WithoutCancel(e.ctx), data)
}

// maxFirstError keeps the one error message that travels through history short.
const maxFirstError = 500

func firstErrorOf(f job.Failure) *job.FirstError {
	short := f.Error
	short.Message, short.Stack = cutText(short.Message, maxFirstError), ""
	return &job.FirstError{Item: f.Item, Kind: f.Kind, Error: short}
}

func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}

// commit makes the part durable and answers.
func (e *execution) commit() (ProcessResult, error) {
	if e.source.Spool == "" {
		if err := e.acts.unchanged(context.WithoutCancel(e.ctx), e.source); err != nil {
			return ProcessResult{}, err
		}
	}
	if err := errors.Join(e.results.commit(), e.errors.commit()); err != nil {
		return ProcessResult{}, err
	}
	var result ProcessResult
	if e.entry.Count == e.in.Batch.Count {
		e.length = e.in.Batch.Length // blank lines at the end included
	}
	if e.entry.Count < e.in.Batch.Count {
		rest := e.in.Batch.After(e.entry.Count, e.length)
		result.Rest = &rest
	}
	e.entry.Length = e.length
	e.entry.Bytes, e.entry.Sum = e.results.bytes, e.results.sum
	e.entry.ErrBytes, e.entry.ErrSum = e.errors.bytes, e.errors.sum
	result.Entry, result.FirstError = e.entry, e.firstError
	if activity.IsActivity(e.ctx) {
		result.Started = activity.GetInfo(e.ctx).StartedTime.UnixMilli()
	}
	result.Worker, result.Paced, result.SlowDown = e.acts.opts.Worker, e.stride.waited, e.minder.slowedDown()
	c := e.caller
	result.Totals = job.Totals{
		OK: e.entry.OK, Failed: e.entry.Failed, Dropped: e.entry.Dropped,
		Batches: 1, Retries: c.retries, Crashes: c.crashes, Expiries: c.expiries, Isolations: c.isolations,
		Calls: c.calls, CallItems: c.callItems, CallMin: c.callMin, CallMax: c.callMax,
		InputBytes: e.length, Busy: time.Since(e.began),
	}
	return result, nil
}
