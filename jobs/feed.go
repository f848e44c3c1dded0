package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.temporal.io/api/enums/v1"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// Limits of what a client of a feed sends.
const (
	// MaxPutItems and MaxPutBytes bound one list of items, as JSON; MaxPutBytes bounds a single item, too.
	MaxPutItems = wire.MaxExchangeItems
	MaxPutBytes = wire.MaxExchangeBytes
	// MaxLinger bounds FeedOptions.Linger. Longer waits are the feed's: see job.Feed.
	MaxLinger = 99 * time.Millisecond
	// DefaultFeedLimit is how long the methods of a [Feed] that ask the feed take at most, if their context has no
	// deadline.
	DefaultFeedLimit = 60 * time.Second
)

// FeedOptions may be left zero.
type FeedOptions struct {
	// Linger is how long a list of items waits in the client for others, so that they are sent together: 0 …
	// [MaxLinger]; values outside are set to the nearest bound. Default 0: lists are sent together only if they come
	// while others are under way.
	Linger time.Duration
	// Session is the one that items are for: once another is open they are refused ([CodeSession]). Default 0: items
	// are for whichever session is open.
	Session int64
	// Store reads results that do not come with an answer, because a batch has more than 64 KiB of them, or because
	// they were not asked for in time: package feedstore has one. It may be shared; the Feed does not close it.
	// Default: none, and such an item has the error [CodeStored].
	Store FeedStore
}

// Feed is a client of a feed: a job whose items are put by clients (see [SourceFeed]). In is what is put, encoded by
// encoding/json; Out is what a result is decoded into. Use json.RawMessage for either to have the JSON itself, and
// string for In if the feed's format is text.
//
// A Feed is safe for concurrent use, and made to be shared: what hundreds of goroutines put and call goes to the feed
// in a few exchanges. It has no goroutine while nothing is under way. Release it after use.
//
// Its methods return these errors, in addition to those that each names:
//   - *[NotFoundError]: there is no job of the name; *[FailedError]: the feed has failed;
//   - a *[FeedError]: [CodeNotFeed], [CodeClosed], [CodeStopped], [CodeUnserved], [CodeSilent] or [CodeReleased];
//   - the context's error.
type Feed[In, Out any] struct {
	name   string
	client *feedclient.Client
	store  FeedStore
	report func(context.Context) (job.Report, error) // the job's own
	shared shared

	capacity atomic.Int64 // 0: not known yet
}

// NewFeed returns a client of the feed of that name. It does not ask the server, so the feed need not exist.
func NewFeed[In, Out any](c *Client, name string, o FeedOptions) *Feed[In, Out] {
	run := c.Get(name)
	f := newFeed[In, Out](feedclient.Temporal(c.temporal, name, &feedJob{run: run}), name, o)
	f.report = run.ownReport
	return f
}

func newFeed[In, Out any](legs feedclient.Legs, name string, o FeedOptions) *Feed[In, Out] {
	linger := max(0, min(o.Linger, MaxLinger))
	return &Feed[In, Out]{name: name, store: o.Store, shared: shared{lock: make(chan struct{}, 1)}, client: feedclient.New(legs, feedclient.Options{Linger: linger, Session: o.Session})}
}

// Name returns the feed's name.
func (f *Feed[In, Out]) Name() string { return f.name }

// Release ends what is under way: methods that wait return the error [CodeReleased]. It returns when the Feed's
// goroutines have ended, and can be repeated. The feed itself continues, and does what it has accepted.
func (f *Feed[In, Out]) Release() { f.client.Release() }

// Put gives items to the feed: all of them are accepted, or none. It never waits for room. Accepted items are executed
// and recorded once, whatever ends meanwhile; refused ones leave no trace. It returns within the context's deadline, or
// [DefaultFeedLimit].
//
// Errors: [CodeFull] if they do not fit at present; [CodeTooLarge] if they never will; [CodeInvalidItem] if one cannot
// be encoded; [CodeUncertain], which wraps one of a Feed's other errors, if it is not known whether they have been
// accepted; [CodeTimeout] if they have not been sent within the deadline.
func (f *Feed[In, Out]) Put(ctx context.Context, items ...In) error {
	return f.PutWait(ctx, 0, items...)
}

// PutWait is Put, but waits for room, for at most the limit (0: not at all), which counts from the call. The error
// [CodeFull] then has the time waited.
func (f *Feed[In, Out]) PutWait(ctx context.Context, limit time.Duration, items ...In) error {
	if len(items) == 0 {
		return nil
	}
	encoded, err := encodeItems(items)
	if err != nil {
		return err
	}
	start := time.Now()
	ctx, cancel := limited(ctx, DefaultFeedLimit+max(0, limit))
	defer cancel()
	err = f.client.PutWithin(ctx, limit, encoded)
	waited := time.Duration(0) // that a refusal names
	if limit > 0 {
		waited = time.Since(start)
	}
	return f.typed(err, waited)
}

// Call puts an item and returns its result. It returns within the context's deadline, or [DefaultFeedLimit]; an item
// that has been accepted keeps its place then, and its outcome is recorded.
//
// Errors: those of Put; [CodeTimeout]; [CodeItem] if the item has failed; [CodeDropped] if the handler gave no result;
// [CodeDiscarded] if the session has ended; [CodeStored] if the result is in the feed's store, and cannot be read from
// there (see FeedOptions.Store); [CodeDecode] if it cannot be decoded.
func (f *Feed[In, Out]) Call(ctx context.Context, item In) (Out, error) {
	var out Out
	encoded, err := encodeItem(item, 0)
	if err != nil {
		return out, err
	}
	ctx, cancel := limited(ctx, DefaultFeedLimit)
	defer cancel()
	start := time.Now()
	outcome, err := f.client.Call(ctx, encoded)
	if err != nil {
		return out, f.typed(err, 0)
	}
	if outcome, err = f.fetch(ctx, outcome, start); err != nil {
		return out, err
	}
	return decodeOutcome[Out](outcome)
}

// FeedReset is what a reset has done.
type FeedReset struct {
	Session   int64 // that has begun
	Discarded int64 // items that were waiting
}

// Reset begins the next session: items that wait are discarded, those that run are finished and recorded. Calls of this
// Feed that wait for a result of an earlier session return [CodeDiscarded]; after Reset has returned, no such result is
// returned. The error [CodeUncertain] reports that it is not known whether the session has ended.
func (f *Feed[In, Out]) Reset(ctx context.Context) (FeedReset, error) {
	ctx, cancel := limited(ctx, DefaultFeedLimit)
	defer cancel()
	asked := time.Now()
	done, err := f.client.Reset(ctx)
	return FeedReset(done), f.carriedOut(err, asked)
}

// Close closes the feed: it takes no more items, does those that it has accepted, and completes. It can be repeated, by
// any client, and does not wait for the feed's end (see [Run.Wait]).
func (f *Feed[In, Out]) Close(ctx context.Context) error {
	ctx, cancel := limited(ctx, DefaultFeedLimit)
	defer cancel()
	asked := time.Now()
	return f.carriedOut(f.client.Close(ctx), asked)
}

// State returns the feed's state. A worker must answer.
func (f *Feed[In, Out]) State(ctx context.Context) (job.FeedState, error) {
	ctx, cancel := limited(ctx, DefaultFeedLimit)
	defer cancel()
	asked := time.Now()
	state, err := f.client.State(ctx)
	if err != nil {
		return state, f.answered(err, asked)
	}
	f.capacity.Store(int64(state.Capacity))
	return state, nil
}

// Idle reports whether the feed has done everything that it has accepted. Results may be left that nobody has taken.
func (f *Feed[In, Out]) Idle(ctx context.Context) (bool, error) {
	state, err := f.State(ctx)
	return err == nil && state.Backlog == 0, err
}

// Full reports whether the feed's capacity, in items or in bytes, is taken.
func (f *Feed[In, Out]) Full(ctx context.Context) (bool, error) {
	state, err := f.State(ctx)
	return err == nil && (state.Backlog >= state.Capacity || state.BacklogBytes >= state.CapacityBytes), err
}

// window returns the feed's capacity in items, asked for once.
func (f *Feed[In, Out]) window(ctx context.Context) (int, error) {
	if capacity := f.capacity.Load(); capacity > 0 {
		return int(capacity), nil
	}
	state, err := f.State(ctx)
	return state.Capacity, err
}

// limited returns a context that has a deadline.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

func encodeItems[In any](items []In) ([]json.RawMessage, error) {
	encoded := make([]json.RawMessage, len(items))
	total := 0
	for i, item := range items {
		raw, err := encodeItem(item, i)
		if err != nil {
			return nil, err
		}
		encoded[i] = raw
		total += len(raw)
	}
	if len(items) > MaxPutItems || total > MaxPutBytes {
		return nil, &FeedError{Code: CodeTooLarge, Items: len(items), Bytes: int64(total), MaxItems: MaxPutItems, MaxBytes: MaxPutBytes}
	}
	return encoded, nil
}

// What encoding/json lets through, and other decoders do not take.
var (
	errNotUTF8 = errors.New("it is not valid UTF-8")
	errTooDeep = fmt.Errorf("it is nested deeper than %d", jsonscan.MaxNesting)
)

// encodeItem encodes an item as it travels: compact, and without escapes that JSON does not need.
func encodeItem[In any](item In, index int) (json.RawMessage, error) {
	raw, err := text.JSON(item)
	switch {
	case err != nil:
	case !utf8.Valid(raw):
		err = errNotUTF8
	case jsonscan.TooDeep(raw):
		err = errTooDeep
	case len(raw) > MaxPutBytes:
		return nil, &FeedError{Code: CodeTooLarge, Items: 1, Bytes: int64(len(raw)), MaxItems: MaxPutItems, MaxBytes: MaxPutBytes}
	}
	if err != nil {
		return nil, &FeedError{Code: CodeInvalidItem, Index: index, Err: err}
	}
	return raw, nil
}

// decodeOutcome returns an item's result, or the error that is its outcome.
func decodeOutcome[Out any](o wire.ItemResult) (Out, error) {
	var out Out
	switch {
	case o.Discarded:
		return out, failed(CodeDiscarded, o, nil)
	case o.Failure != nil:
		e := failed(CodeItem, o, nil)
		if err := json.Unmarshal(o.Failure, &e.Failure); err != nil {
			return out, failed(CodeDecode, o, err)
		}
		return out, e
	case o.Dropped:
		return out, failed(CodeDropped, o, nil)
	}
	if err := json.Unmarshal(o.Result, &out); err != nil {
		var none Out
		return none, failed(CodeDecode, o, err)
	}
	return out, nil
}

// feedJob is a feedclient.Job.
type feedJob struct{ run *Run }

// Open is that of feedclient.Job.
func (j *feedJob) Open(ctx context.Context) (int, string, error) {
	info, err := j.run.info(ctx)
	if _, ok := errors.AsType[*NotFoundError](err); ok {
		return 0, "", &feedclient.EndedError{Err: err}
	}
	if err != nil {
		return 0, "", err
	}
	memo := info.GetMemo()
	listed := j.run.client.listed(info)
	queue := wire.AtLogic(wire.PoolQueue(listed.Pool), wire.LogicOf(info.GetTaskQueue()))
	switch {
	case memo.GetFields()[wire.MemoLeg] == nil:
		return 0, "", &feedclient.EndedError{Err: &FeedError{Code: CodeNotFeed, Feed: j.run.name}}
	case info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING && listed.State != job.Stopping && listed.State != job.Stopped:
		return memoValue[int](j.run.client, memo, wire.MemoLeg), queue, nil
	}
	return 0, queue, &feedclient.EndedError{Err: j.endedAs(ctx, listed.State), Closed: listed.State == job.Completed}
}

// endedAs returns the error of a feed in that state.
func (j *feedJob) endedAs(ctx context.Context, state job.State) error {
	switch state {
	case job.Completed:
		return &FeedError{Code: CodeClosed, Feed: j.run.name}
	case job.Failed:
		var failed *FailedError
		if _, err := j.run.Wait(ctx); errors.As(err, &failed) {
			return failed
		}
		return &FailedError{Report: job.Report{Job: j.run.name, State: job.Failed}}
	}
	return &FeedError{Code: CodeStopped, Feed: j.run.name, State: state}
}

// endedLimit is how long it may take to find out why a feed has ended.
const endedLimit = 5 * time.Second

// Ended is that of feedclient.Job. It goes by the leg's reason if the job has not ended yet, or cannot be asked.
func (j *feedJob) Ended(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, endedLimit)
	defer cancel()
	_, _, err := j.Open(ctx)
	if ended, ok := errors.AsType[*feedclient.EndedError](err); ok {
		return ended.Err
	}
	if reason == wire.RefusedClosed {
		return &FeedError{Code: CodeClosed, Feed: j.run.name}
	}
	return &FeedError{Code: CodeStopped, Feed: j.run.name, State: job.Stopping}
}
