package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/stint-run/stint/internal/base/backoff"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// FeedStore reads the stores of feeds: package feedstore has it. It is used by many goroutines at once.
type FeedStore interface {
	// Outcome returns the outcome of an item from its part. Errors: fs.ErrNotExist if the part has been removed.
	Outcome(ctx context.Context, at wire.StoredPart, item int64) (wire.ItemResult, error)
	// Find looks for the outcome of an item in the manifests that a report names; found: it is committed. Errors:
	// fs.ErrNotExist if a later report is needed.
	Find(ctx context.Context, report job.Report, item int64) (outcome wire.ItemResult, found bool, err error)
	// Follow returns a reader of all results from a cursor on. It opens nothing yet.
	Follow(from FeedCursor) FeedFollower
}

// FeedFollower reads the results of a feed. One goroutine uses it.
type FeedFollower interface {
	// Next calls yield with each line of results that the report adds to earlier ones, and with the cursor after that
	// line. If yield returns an error, Next returns it. The line is valid during the call of yield. After an error the
	// follower must not be used.
	Next(ctx context.Context, report job.Report, yield func(line []byte, next FeedCursor) error) error
}

// FeedCursor is a place in the results of a feed. The zero value is the beginning of the results of all sessions. A
// cursor stays valid as long as the feed's manifests: across legs, restarts, the feed's end and its resumption. It is
// not valid for a new feed of the same name.
type FeedCursor struct {
	// Session: only results of items of that session are read; 0: of all.
	Session int64
	// Item is the first ordinal of a group that was committed together. Line is how many of its results have been read.
	Item, Line int64
}

// String returns the cursor as text, such as "2.1200.7", which [ParseFeedCursor] takes.
func (c FeedCursor) String() string { return fmt.Sprintf("%d.%d.%d", c.Session, c.Item, c.Line) }

// ParseFeedCursor returns the inverse of [FeedCursor.String]. An empty text is the zero cursor.
func ParseFeedCursor(text string) (FeedCursor, error) {
	var c FeedCursor
	if text == "" {
		return c, nil
	}
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &c.Session, &c.Item, &c.Line); err != nil || c.String() != text || c.Session < 0 || c.Item < 0 || c.Line < 0 {
		return FeedCursor{}, fmt.Errorf("invalid cursor %q: use one that was given with a result", text)
	}
	return c, nil
}

// RecordedResult is a result that a feed has recorded.
type RecordedResult[Out any] struct {
	Out  Out
	Next FeedCursor // where reading continues after it
}

// ResultsOptions may be left zero.
type ResultsOptions struct {
	// Committed: reading ends at what has been committed so far. Default: it ends when the feed has ended.
	Committed bool
	// Every is how often it checks for new results. Default: 1 s; a feed commits every ten seconds, or when a
	// MiB has gathered.
	Every time.Duration
}

// Results yields the results that a feed has recorded, in the order of its items, as they are committed, up to the
// first item that is not done yet. Failed and dropped items have none. Each result comes with the cursor from which a
// later reader continues. It needs FeedOptions.Store, and a worker that answers for the job.
//
// Errors, which end it: [CodeStored] if the store cannot be read; [CodeStopped] or *[FailedError] if the feed has ended
// so, after all its results; those of a [Feed]; the context's. After [CodeDecode] it continues.
func (f *Feed[In, Out]) Results(ctx context.Context, from FeedCursor, o ResultsOptions) iter.Seq2[RecordedResult[Out], error] {
	return func(yield func(RecordedResult[Out], error) bool) {
		err := f.follow(ctx, from, o, func(line []byte, next FeedCursor) bool {
			r := RecordedResult[Out]{Next: next}
			err := json.Unmarshal(wire.ResultValue(line), &r.Out)
			if err != nil {
				var none Out
				r.Out, err = none, &FeedError{Code: CodeDecode, Err: err}
			}
			return yield(r, err)
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(RecordedResult[Out]{Next: from}, err)
		}
	}
}

// errEnough ends reading if the caller has left the loop.
var errEnough = errors.New("no more wanted")

// followEvery is the default of ResultsOptions.Every.
const followEvery = time.Second

func (f *Feed[In, Out]) follow(ctx context.Context, from FeedCursor, o ResultsOptions, yield func([]byte, FeedCursor) bool) error {
	if f.store == nil {
		return &FeedError{Code: CodeStored}
	}
	if o.Every <= 0 {
		o.Every = followEvery
	}
	follower := f.store.Follow(from)
	for {
		report, err := f.ask(ctx)
		switch {
		case err != nil:
			return err
		case report.Feed == nil:
			return &FeedError{Code: CodeNotFeed, Feed: f.name}
		}
		err = follower.Next(ctx, report, func(line []byte, next FeedCursor) error {
			if !yield(line, next) {
				return errEnough
			}
			return ctx.Err()
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errEnough):
			return err
		case err != nil:
			return &FeedError{Code: CodeStored, Err: err}
		case o.Committed || report.State == job.Completed:
			return nil
		case report.State == job.Stopped:
			return &FeedError{Code: CodeStopped, Feed: f.name, State: job.Stopped}
		case report.State == job.Failed:
			return &FailedError{Report: report}
		}
		if !backoff.Wait(o.Every, ctx.Done()) {
			return ctx.Err()
		}
	}
}

const (
	findEvery = 500 * time.Millisecond // how often a result that is stored and not committed yet is looked for
	askTries  = 5                      // after each but the last, it waits for findEvery
)

// fetch returns an outcome, which it reads from the store if it is there. start is when the item was given to the
// client.
func (f *Feed[In, Out]) fetch(ctx context.Context, o wire.ItemResult, start time.Time) (wire.ItemResult, error) {
	if !o.Stored {
		return o, nil
	}
	if f.store == nil || o.Item < 0 {
		return o, failed(CodeStored, o, nil)
	}
	found, err := f.fromStore(ctx, o)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return o, timeout(true, o.Queued, time.Since(start))
	case ctx.Err() != nil:
		return o, ctx.Err()
	default:
		return o, failed(CodeStored, o, err)
	}
	if o.Session > 0 && f.client.Session() > o.Session { // a reset has overtaken it
		return o, failed(CodeDiscarded, o, nil)
	}
	found.Item, found.Session, found.Queued, found.Took = o.Item, o.Session, o.Queued, o.Took
	return found, nil
}

func (f *Feed[In, Out]) fromStore(ctx context.Context, o wire.ItemResult) (wire.ItemResult, error) {
	if o.Part != nil {
		found, err := f.store.Outcome(ctx, *o.Part, o.Item)
		if !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	for {
		report, err := f.recent(ctx)
		if err != nil {
			return o, err
		}
		found, ok, err := f.store.Find(ctx, report, o.Item)
		switch final := report.State.Final(); { // nothing more will be committed
		case ok && err == nil:
			return found, nil
		case err != nil && (final || !errors.Is(err, fs.ErrNotExist)):
			return o, err
		case final:
			return o, errors.New("the feed has ended, and has not recorded it")
		}
		if !backoff.Wait(findEvery, ctx.Done()) {
			return o, ctx.Err()
		}
	}
}

// shared is a report for all callers that look for results.
type shared struct {
	lock   chan struct{} // held by who asks for it
	report job.Report
	at     time.Time
}

// recent returns a report that is at most findEvery old, so that many callers ask the job once.
func (f *Feed[In, Out]) recent(ctx context.Context) (job.Report, error) {
	select {
	case f.shared.lock <- struct{}{}:
		defer func() { <-f.shared.lock }()
	case <-ctx.Done():
		return job.Report{}, ctx.Err()
	}
	if f.shared.at.IsZero() || time.Since(f.shared.at) >= findEvery {
		report, err := f.ask(ctx)
		if err != nil {
			return job.Report{}, err
		}
		f.shared.report, f.shared.at = report, time.Now()
	}
	return f.shared.report, nil
}

// ask returns the job's own report. It asks up to askTries times: one question that a busy server or worker does not
// answer ends no reader.
func (f *Feed[In, Out]) ask(ctx context.Context) (job.Report, error) {
	for tries := 1; ; tries++ {
		report, err := f.report(ctx)
		if err == nil || tries == askTries || errors.As(err, new(*NotFoundError)) || !backoff.Wait(findEvery, ctx.Done()) {
			return report, err
		}
	}
}
