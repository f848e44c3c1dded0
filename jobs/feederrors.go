package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"go.temporal.io/api/enums/v1"
)

// ErrReleased reports that a [Feed] has been released.
var ErrReleased = feedclient.ErrReleased

// FullError reports that a feed has refused items because its capacity is taken.
type FullError struct {
	Name          string
	Capacity      int           // in items
	CapacityBytes int64         // in bytes
	Backlog       int           // items that were accepted and unfinished
	BacklogBytes  int64         // their bytes
	Waited        time.Duration // how long [Feed.PutWait] has waited for room; 0: not at all
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("feed %s is full: %d of %d items and %d of %d bytes are taken", e.Name, e.Backlog, e.Capacity, e.BacklogBytes, e.CapacityBytes)
	if e.Waited > 0 {
		text += fmt.Sprintf("; waited %v", e.Waited.Round(time.Millisecond))
	}
	return text
}

// TooLargeError reports items that cannot be put, however empty the feed is: a list is above MaxItems or MaxBytes, or an item
// above MaxBytes. These are the limits of one list, or the capacity of the feed.
type TooLargeError struct {
	Items    int   // in the list
	Bytes    int64 // of the list, or of the item
	MaxItems int
	MaxBytes int64
}

func (e *TooLargeError) Error() string {
	if e.Items == 1 && e.Bytes > e.MaxBytes {
		return fmt.Sprintf("item of %d bytes: at most %d are allowed; put a path or URL for the handler to read", e.Bytes, e.MaxBytes)
	}
	return fmt.Sprintf("%d items of %d bytes are too large: put at most %d items and %d bytes at once", e.Items, e.Bytes, e.MaxItems, e.MaxBytes)
}

// InvalidItemError reports an item that cannot be encoded as JSON, is not UTF-8, or is nested deeper than 1,000. Nothing has been sent.
type InvalidItemError struct {
	Index int // in the list
	Err   error
}

func (e *InvalidItemError) Error() string {
	return fmt.Sprintf("item %d of the list: %v", e.Index, e.Err)
}

// Unwrap returns the error of encoding/json.
func (e *InvalidItemError) Unwrap() error { return e.Err }

// ClosedError reports that a feed has been closed.
type ClosedError struct{ Name string }

func (e *ClosedError) Error() string { return fmt.Sprintf("feed %s has been closed", e.Name) }

// StoppedError reports that a feed is stopping, or has stopped: it can be resumed (see [Client.Resume]).
type StoppedError struct {
	Name  string
	State job.State // [Stopping] or [Stopped]
}

func (e *StoppedError) Error() string {
	if e.State == job.Stopping {
		return fmt.Sprintf("feed %s is stopping", e.Name)
	}
	return fmt.Sprintf("feed %s has been stopped: resume it", e.Name)
}

// SessionError reports that items were for a session that is not open (see FeedOptions.Session).
type SessionError struct {
	Name string
	Open int64 // the present session
}

func (e *SessionError) Error() string {
	return fmt.Sprintf("the items are for another session: session %d of feed %s is open", e.Open, e.Name)
}

// NotFeedError reports that a job's items are not put by clients.
type NotFeedError struct{ Name string }

func (e *NotFeedError) Error() string {
	return fmt.Sprintf("job %s is not a feed: start it with Source %s", e.Name, job.SourceFeed)
}

// UnservedError reports that no worker serves a feed's pool.
type UnservedError struct{ Name string }

func (e *UnservedError) Error() string {
	return fmt.Sprintf("no worker serves the pool of feed %s: start one", e.Name)
}

// SilentError reports that a feed has not answered within the deadline: its workers are gone, frozen or too busy.
type SilentError struct {
	Name   string
	Waited time.Duration
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("feed %s has not answered within %v", e.Name, e.Waited.Round(time.Millisecond))
}

// Timeout returns true.
func (e *SilentError) Timeout() bool { return true }

// Unwrap returns context.DeadlineExceeded.
func (e *SilentError) Unwrap() error { return context.DeadlineExceeded }

// UncertainError reports that the outcome of a request is not known: of a put, whether the items have been accepted. Err says why.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%v; it is not known whether the request was accepted", e.Err)
}

// Unwrap returns the reason.
func (e *UncertainError) Unwrap() error { return e.Err }

// TimeoutError reports that a deadline has passed. An item that has been accepted keeps its place, and is done. If Accepted is false and
// Queued below 0, the item was on its way to the feed: it may have been accepted, or may still be, but not twice.
type TimeoutError struct {
	Accepted bool          // for certain
	Queued   time.Duration // how long the item has waited for its batch; below 0: not known
	Total    time.Duration // since the call
}

func (e *TimeoutError) Error() string {
	total := e.Total.Round(time.Millisecond)
	switch {
	case e.Queued < 0 && !e.Accepted:
		return fmt.Sprintf("no outcome within %v; it is not known whether the item was accepted", total)
	case e.Queued < 0:
		return fmt.Sprintf("no outcome within %v; it is not known how much of that in the queue", total)
	case e.Queued >= e.Total:
		return fmt.Sprintf("no outcome within %v, all of that in the queue", total)
	}
	return fmt.Sprintf("no outcome within %v, %v of that in the queue", total, e.Queued.Round(time.Millisecond))
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }

// ItemError reports that an item of a feed has failed.
type ItemError struct {
	Item     int64     // ordinal
	Kind     string    // "error", "exit", "crash", "expired", "invalid", "length" or "lost"
	Err      job.Error // type, message and, if known, stack
	Attempts int       // how many calls that contained the item failed
}

func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %s: %v", e.Item, e.Kind, &e.Err) }

// Unwrap returns the item's error as an *Error.
func (e *ItemError) Unwrap() error { return &e.Err }

// DroppedError reports that the handler gave no result for an item.
type DroppedError struct{ Item int64 }

func (e *DroppedError) Error() string {
	return fmt.Sprintf("item %d: the handler gave no result", e.Item)
}

// DiscardedError reports that an item's session has ended. If the item was running, its result is recorded, but not returned.
type DiscardedError struct{ Item, Session int64 }

func (e *DiscardedError) Error() string {
	return fmt.Sprintf("item %d: discarded, because session %d has ended", e.Item, e.Session)
}

// StoredError reports that an item is done, and that its outcome is in the feed's store, which could not be read:
// FeedOptions.Store is not set, or reading has failed. 'stint results' prints what is in the store.
type StoredError struct {
	Item int64 // below 0: not known
	Err  error // of reading the store; nil: the client has none
}

func (e *StoredError) Error() string {
	text := "the outcome of the item is in the feed's store"
	if e.Item >= 0 {
		text = fmt.Sprintf("item %d: its outcome is in the feed's store", e.Item)
	}
	if e.Err == nil {
		return text + ", and this client has no store: set FeedOptions.Store"
	}
	return fmt.Sprintf("%s, and could not be read: %v", text, e.Err)
}

// Unwrap returns the error of reading the store.
func (e *StoredError) Unwrap() error { return e.Err }

// DecodeError reports a result that cannot be decoded. The item is done, and its result recorded.
type DecodeError struct {
	Item int64
	Err  error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("item %d: decoding the result: %v", e.Item, e.Err)
}

// Unwrap returns the error of encoding/json.
func (e *DecodeError) Unwrap() error { return e.Err }

func itemError(o wire.ItemResult) error {
	var failure job.Failure
	if err := json.Unmarshal(o.Failure, &failure); err != nil {
		return &DecodeError{Item: o.Item, Err: err}
	}
	return &ItemError{Item: o.Item, Kind: failure.Kind, Err: failure.Error, Attempts: failure.Attempts}
}

// typed turns an error of package feedclient into one of this package.
func (f *Feed[In, Out]) typed(err error, waited time.Duration) error {
	var uncertain *feedclient.UncertainError
	var ended *feedclient.EndedError
	var refused *feedclient.RefusedError
	var late *feedclient.LateError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &uncertain):
		return &UncertainError{Err: f.typed(uncertain.Err, waited)}
	case errors.As(err, &ended):
		return ended.Err
	case errors.As(err, &refused):
		return f.refusal(refused, waited)
	case errors.As(err, &late):
		return &TimeoutError{Accepted: late.Accepted, Queued: late.Queued, Total: late.Total}
	case errors.Is(err, feedclient.ErrUnserved):
		return &UnservedError{Name: f.name}
	}
	return err
}

// answered is typed for a request that the feed answers at once.
func (f *Feed[In, Out]) answered(err error, asked time.Time) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &SilentError{Name: f.name, Waited: time.Since(asked)}
	}
	return f.typed(err, 0)
}

// carriedOut is answered for a request that may have been carried out although there is no answer.
func (f *Feed[In, Out]) carriedOut(err error, asked time.Time) error {
	err = f.answered(err, asked)
	if _, ok := errors.AsType[*SilentError](err); ok {
		return &UncertainError{Err: err}
	}
	return err
}

func (f *Feed[In, Out]) refusal(r *feedclient.RefusedError, waited time.Duration) error {
	switch r.Type {
	case wire.RefusedFull:
		return &FullError{Name: f.name, Capacity: r.Capacity, CapacityBytes: r.CapacityBytes, Backlog: r.Backlog, BacklogBytes: r.BacklogBytes, Waited: waited}
	case wire.RefusedTooLarge:
		return &TooLargeError{Items: r.Items, Bytes: r.Bytes, MaxItems: r.Capacity, MaxBytes: r.CapacityBytes}
	case wire.RefusedClosed:
		return &ClosedError{Name: f.name}
	case wire.RefusedSession:
		return &SessionError{Name: f.name, Open: r.Session}
	case wire.RefusedStopping:
		return &StoppedError{Name: f.name, State: job.Stopping}
	}
	return fmt.Errorf("feed %s: %w", f.name, r)
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
	switch {
	case memo.GetFields()[wire.MemoLeg] == nil:
		return 0, "", &feedclient.EndedError{Err: &NotFeedError{Name: j.run.name}}
	case info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING && listed.State != job.Stopping && listed.State != job.Stopped:
		return memoValue[int](j.run.client, memo, wire.MemoLeg), listed.Pool, nil
	}
	return 0, listed.Pool, &feedclient.EndedError{Err: j.endedAs(ctx, listed.State), Closed: listed.State == job.Completed}
}

// endedAs returns the error of a feed in that state.
func (j *feedJob) endedAs(ctx context.Context, state job.State) error {
	switch state {
	case job.Completed:
		return &ClosedError{Name: j.run.name}
	case job.Failed:
		var failed *FailedError
		if _, err := j.run.Wait(ctx); errors.As(err, &failed) {
			return failed
		}
		return &FailedError{Report: job.Report{Job: j.run.name, State: job.Failed}}
	}
	return &StoppedError{Name: j.run.name, State: state}
}

// endedLimit is how long it may take to find out why a feed has ended.
const endedLimit = 5 * time.Second

// Ended is that of feedclient.Job. It goes by the leg's reason if the job has not ended yet, or cannot be asked.
func (j *feedJob) Ended(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, endedLimit)
	defer cancel()
	_, _, err := j.Open(ctx)
	var ended *feedclient.EndedError
	switch {
	case errors.As(err, &ended):
		return ended.Err
	case reason == wire.RefusedClosed:
		return &ClosedError{Name: j.run.name}
	}
	return &StoppedError{Name: j.run.name, State: job.Stopping}
}
