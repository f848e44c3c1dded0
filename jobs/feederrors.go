package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-run/stint/internal/feedclient"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// FeedError is an error of a [Feed]. Code says what has happened; the other fields are set for the codes that they
// name.
//
//	if e, ok := errors.AsType[*jobs.FeedError](err); ok && e.Code == jobs.CodeItem {
//		fmt.Println(e.Failure.Kind, e.Failure.Error.Message)
//	}
//
// [IsCode] is shorter if the code is all that counts.
type FeedError struct {
	Code FeedCode
	Feed string // its name; empty if the error is of one item
	// Err is the cause. [CodeInvalidItem], [CodeDecode]: of encoding/json. [CodeUncertain]: another error of a Feed,
	// the context's or the server's. [CodeStored]: of reading the store; nil: the client has none.
	Err error

	// Item is the ordinal of the item in the feed. It is nil if the error is not of one item, or if the ordinal is not
	// known.
	Item *int64
	// Index is where an item stands in its list, from 0. [CodeInvalidItem].
	Index int
	// Failure has the item's kind, error and attempts. [CodeItem].
	Failure *job.Failure

	// Items and Bytes: of the list that was put ([CodeTooLarge]); those that the feed has accepted and that are
	// unfinished ([CodeFull]).
	Items int
	Bytes int64
	// MaxItems and MaxBytes: the capacity of the feed ([CodeFull], [CodeTooLarge]), or the bounds of one list if these
	// are lower ([CodeTooLarge]).
	MaxItems int
	MaxBytes int64

	// Waited is the time since the call ([CodeSilent], [CodeTimeout]), or how long [Feed.PutWait] has waited for room
	// ([CodeFull]).
	Waited time.Duration
	// Queued is how long the item has waited for its batch, nil: not known. [CodeTimeout].
	Queued *time.Duration
	// Accepted: the feed has accepted the item, for certain. If it is false and Queued nil, the item was on its way to
	// the feed: it may have been accepted, or may still be, but not twice. [CodeTimeout].
	Accepted bool

	Session int64     // the open one ([CodeSession]); the item's
	State   job.State // [Stopping] or [Stopped]. [CodeStopped].
}

// FeedCode says what has happened to a request or an item of a feed. The gateway's errors have it as their type.
type FeedCode string

// Codes of a [FeedError].
const (
	// CodeFull: the feed has refused items because its capacity is taken.
	CodeFull FeedCode = "FullError"
	// CodeTooLarge: items cannot be put, however empty the feed is: a list is above MaxItems or MaxBytes, or an item
	// above MaxBytes.
	CodeTooLarge FeedCode = "TooLargeError"
	// CodeInvalidItem: an item cannot be encoded as JSON, is not UTF-8, or is nested deeper than 1,000. Nothing has
	// been sent.
	CodeInvalidItem FeedCode = "InvalidItemError"
	// CodeClosed: the feed has been closed.
	CodeClosed FeedCode = "ClosedError"
	// CodeStopped: the feed is stopping, or has stopped: it can be resumed (see [Client.Resume]).
	CodeStopped FeedCode = "StoppedError"
	// CodeSession: items were for a session that is not open (see FeedOptions.Session).
	CodeSession FeedCode = "SessionError"
	// CodeNotFeed: the job's items are not put by clients.
	CodeNotFeed FeedCode = "NotFeedError"
	// CodeUnserved: no worker serves the feed's pool.
	CodeUnserved FeedCode = "UnservedError"
	// CodeSilent: the feed has not answered within the deadline: its workers are gone, frozen or too busy.
	CodeSilent FeedCode = "SilentError"
	// CodeUncertain: the outcome of a request is not known: of a put, whether the items have been accepted.
	CodeUncertain FeedCode = "UncertainError"
	// CodeTimeout: a deadline has passed. An item that has been accepted keeps its place, and is done.
	CodeTimeout FeedCode = "TimeoutError"
	// CodeReleased: the [Feed] has been released.
	CodeReleased FeedCode = "ReleasedError"
	// CodeItem: the item has failed.
	CodeItem FeedCode = "ItemError"
	// CodeDropped: the handler gave no result for the item.
	CodeDropped FeedCode = "DroppedError"
	// CodeDiscarded: the item's session has ended. If the item was running, its result is recorded, but not returned.
	CodeDiscarded FeedCode = "DiscardedError"
	// CodeStored: the item is done, and its outcome is in the feed's store, which could not be read: FeedOptions.Store
	// is not set, or reading has failed. 'stint results' prints what is in the store.
	CodeStored FeedCode = "StoredError"
	// CodeDecode: the result cannot be decoded. The item is done, and its result recorded.
	CodeDecode FeedCode = "DecodeError"
)

// feedCode is what this package, the gateway and the command know of a code. Its meaning is in the docs of the gateway.
type feedCode struct {
	text    string // the message; Error fills in what is in braces
	status  int    // of the gateway's answer
	problem string // the type of the gateway's error; empty: the code
	kind    string // of one item's error in an answer to many; empty: the error is not one item's
	late    bool   // a time limit has passed: a command exits with 124
}

var feedCodes = map[FeedCode]feedCode{
	CodeFull: {status: 429,
		text: "feed {feed} is full: {items} of {max items} items and {bytes} of {max bytes} bytes are taken"},
	CodeTooLarge: {status: 413, kind: "refused",
		text: "{items} items of {bytes} bytes are too large: put at most {max items} items and {max bytes} bytes at once"},
	CodeInvalidItem: {status: 400, kind: "refused", text: "item {index} of the list: {cause}"},
	CodeClosed:      {status: 409, text: "feed {feed} has been closed"},
	CodeStopped:     {status: 409, text: "feed {feed} has been stopped: resume it"},
	CodeSession: {status: 502, problem: "UnavailableError",
		text: "the items are for another session: session {session} of feed {feed} is open"},
	CodeNotFeed:  {status: 404, text: "job {feed} is not a feed: start one with Spec.Feed"},
	CodeUnserved: {status: 503, text: "no worker serves the pool of feed {feed}: start one"},
	CodeSilent: {status: 504, problem: "TimeoutError", late: true,
		text: "feed {feed} has not answered within {waited}"},
	CodeReleased:  {status: 503, problem: "UnavailableError", text: feedclient.ErrReleased.Error()},
	CodeUncertain: {status: 502, text: "{cause}; it is not known whether the request was accepted"},
	CodeTimeout:   {status: 504, late: true, text: "no outcome within {waited}"},
	CodeItem:      {status: 422, kind: job.KindError, text: "{item}{kind}: {cause}"},
	CodeDropped:   {status: 422, kind: "dropped", text: "{item}the handler gave no result"},
	CodeDiscarded: {status: 410, kind: "discarded", text: "{item}discarded, because session {session} has ended"},
	CodeStored:    {status: 410, kind: "stored", text: "the outcome of the item is in the feed's store"},
	CodeDecode:    {status: 502, kind: "decode", text: "{item}decoding the result: {cause}"},
}

// Problem returns the type and the HTTP status of the gateway's answer.
func (c FeedCode) Problem() (kind string, status int) {
	row := feedCodes[c]
	return cmp.Or(row.problem, string(c)), row.status
}

// IsCode reports whether err is, or wraps, a *[FeedError] of one of the codes.
func IsCode(err error, codes ...FeedCode) bool {
	for e := (*FeedError)(nil); errors.As(err, &e); err = e.Err {
		if slices.Contains(codes, e.Code) {
			return true
		}
	}
	return false
}

// Kind returns the kind of one item's error, as in the gateway's lines: that of its Failure, "dropped", "discarded",
// "stored", "decode", or "refused" if it cannot be put. It is empty for other errors.
func (e *FeedError) Kind() string {
	if e.Failure != nil {
		return e.Failure.Kind
	}
	return feedCodes[e.Code].kind
}

// Unwrap returns the cause: of [CodeItem] a *[job.Error], of [CodeSilent] and [CodeTimeout] context.DeadlineExceeded.
func (e *FeedError) Unwrap() error {
	switch {
	case feedCodes[e.Code].late:
		return context.DeadlineExceeded
	case e.Failure != nil:
		return &e.Failure.Error
	}
	return e.Err
}

func (e *FeedError) Error() string {
	item, queued := "", ""
	if e.Item != nil {
		item = fmt.Sprintf("item %d: ", *e.Item)
	}
	if e.Queued != nil {
		queued = e.Queued.Round(time.Millisecond).String()
	}
	return strings.NewReplacer(
		"{feed}", e.Feed, "{item}", item, "{kind}", e.Kind(), "{cause}", fmt.Sprint(e.Unwrap()),
		"{index}", strconv.Itoa(e.Index), "{items}", strconv.Itoa(e.Items), "{max items}", strconv.Itoa(e.MaxItems),
		"{bytes}", strconv.FormatInt(e.Bytes, 10), "{max bytes}", strconv.FormatInt(e.MaxBytes, 10),
		"{session}", strconv.FormatInt(e.Session, 10), "{waited}", e.Waited.Round(time.Millisecond).String(), "{queued}", queued,
	).Replace(e.text())
}

// text is that of the code, or its variant for what is known.
func (e *FeedError) text() string {
	text := feedCodes[e.Code].text
	switch {
	case e.Code == CodeFull && e.Waited > 0:
		text += "; waited {waited}"
	case e.Code == CodeTooLarge && e.Items == 1 && e.Bytes > e.MaxBytes:
		return "item of {bytes} bytes: at most {max bytes} are allowed; put a path or URL for the handler to read"
	case e.Code == CodeStopped && e.State == job.Stopping:
		return "feed {feed} is stopping"
	case e.Code == CodeTimeout && e.Queued == nil && e.Accepted:
		text += "; it is not known how much of that in the queue"
	case e.Code == CodeTimeout && e.Queued == nil:
		text += "; it is not known whether the item was accepted"
	case e.Code == CodeTimeout && *e.Queued >= e.Waited:
		text += ", all of that in the queue"
	case e.Code == CodeTimeout:
		text += ", {queued} of that in the queue"
	case e.Code == CodeStored:
		if e.Item != nil {
			text = "{item}its outcome is in the feed's store"
		}
		if e.Err == nil {
			return text + ", and this client has no store: set FeedOptions.Store"
		}
		text += ", and could not be read: {cause}"
	}
	return text
}

// failed is the error of an item, whose ordinal is below 0 if it is not known.
func failed(code FeedCode, o wire.ItemResult, err error) *FeedError {
	e := &FeedError{Code: code, Session: o.Session, Err: err}
	if o.Item >= 0 {
		e.Item = &o.Item
	}
	return e
}

// timeout is the error of an item that was queued for some time, below 0: not known.
func timeout(accepted bool, queued, waited time.Duration) *FeedError {
	e := &FeedError{Code: CodeTimeout, Accepted: accepted, Waited: waited}
	if queued >= 0 {
		e.Queued = &queued
	}
	return e
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
		return &FeedError{Code: CodeUncertain, Err: f.typed(uncertain.Err, waited)}
	case errors.As(err, &ended):
		return ended.Err
	case errors.As(err, &refused):
		return f.refusal(refused, waited)
	case errors.As(err, &late):
		return timeout(late.Accepted, late.Queued, late.Total)
	case errors.Is(err, feedclient.ErrUnserved):
		return &FeedError{Code: CodeUnserved, Feed: f.name}
	case errors.Is(err, feedclient.ErrReleased):
		return &FeedError{Code: CodeReleased, Feed: f.name}
	}
	return err
}

// answered is typed for a request that the feed answers at once.
func (f *Feed[In, Out]) answered(err error, asked time.Time) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &FeedError{Code: CodeSilent, Feed: f.name, Waited: time.Since(asked)}
	}
	return f.typed(err, 0)
}

// carriedOut is answered for a request that may have been carried out although there is no answer.
func (f *Feed[In, Out]) carriedOut(err error, asked time.Time) error {
	err = f.answered(err, asked)
	if IsCode(err, CodeSilent) {
		return &FeedError{Code: CodeUncertain, Err: err}
	}
	return err
}

func (f *Feed[In, Out]) refusal(r *feedclient.RefusedError, waited time.Duration) error {
	e := &FeedError{Feed: f.name, MaxItems: r.Capacity, MaxBytes: r.CapacityBytes}
	switch r.Type {
	case wire.RefusedFull:
		e.Code, e.Items, e.Bytes, e.Waited = CodeFull, r.Backlog, r.BacklogBytes, waited
	case wire.RefusedTooLarge:
		e.Code, e.Items, e.Bytes = CodeTooLarge, r.Items, r.Bytes
	case wire.RefusedClosed:
		e.Code = CodeClosed
	case wire.RefusedSession:
		e.Code, e.Session = CodeSession, r.Session
	case wire.RefusedStopping:
		e.Code, e.State = CodeStopped, job.Stopping
	default:
		return fmt.Errorf("feed %s: %w", f.name, r)
	}
	return e
}
