package jobs

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/feedclient"
)

// StreamOptions may be left zero.
type StreamOptions struct {
	// Window is how many items may be taken from the input, and not yet be yielded: 1 or more. Default: the feed's
	// capacity, for which the feed is asked.
	Window int
	// InPlace: the error of an item is yielded at its place, and the stream continues. Otherwise the error ends the
	// stream.
	InPlace bool
	// Limit is how long an item may take after it is taken from the input: above 0. If it takes longer, its error is
	// [CodeTimeout]; [CodeFull] if there was no room for it; [CodeUnserved] if no worker serves the pool. A feed that
	// is asked for its capacity has this time, too: [CodeSilent] then ends the stream. Default: no limit.
	Limit time.Duration
	// Items: each result includes its item.
	Items bool
}

// Result is the outcome of one item of a stream.
type Result[In, Out any] struct {
	Index    int64 // of the item in the stream, from 0
	Ordinal  int64 // of the item in the feed, if it is Numbered
	Numbered bool  // the feed is known to have accepted the item
	Item     In    // if StreamOptions.Items is set
	Out      Out
	Dropped  bool          // the handler gave no result; Out is empty
	Queued   time.Duration // how long the item waited for its batch
	Took     time.Duration // how long its batch ran
}

// Stream puts the items of a sequence and yields their results, in the order of the items. It is lazy: an item is taken
// from the sequence when there is a place for it in the window, and put when the feed has room, for which a stream
// waits without a limit. Many streams and calls may use one Feed; none sees a result of another.
//
// The sequence is run in a goroutine of its own. Leaving the stream early, or the end of the context, ends it at the
// next item; items that have not been sent are not put any more, those that have been sent keep their places until they
// are done.
//
// The second value is the error of an item: [CodeItem], [CodeDiscarded], [CodeStored], [CodeDecode], [CodeInvalidItem],
// [CodeTooLarge] or [CodeTimeout] (see StreamOptions.InPlace). Any other error, such as those that a [Feed] lists, ends
// the stream.
func (f *Feed[In, Out]) Stream(ctx context.Context, items iter.Seq[In], o StreamOptions) iter.Seq2[Result[In, Out], error] {
	return func(yield func(Result[In, Out], error) bool) {
		window := o.Window
		if window < 1 {
			var err error
			if window, err = f.windowWithin(ctx, o.Limit); err != nil {
				yield(Result[In, Out]{}, err)
				return
			}
		}
		s := f.startStream(ctx, items, window, o.Limit)
		defer s.leave(f.client)
		f.yieldAll(s, o, yield)
	}
}

// windowWithin is window, asked for within a limit (0: the usual one).
func (f *Feed[In, Out]) windowWithin(ctx context.Context, limit time.Duration) (int, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return f.window(ctx)
}

// stream is one that is under way.
type stream[In any] struct {
	ctx    context.Context
	cancel context.CancelFunc
	fed    chan fedItem[In] // in order; has room for the window
	places chan struct{}    // one for each item that is taken and not yielded
	ended  <-chan error     // of the goroutine that feeds
	limit  time.Duration    // of each item; 0: none
}

// fedItem is an item that has been taken from the input.
type fedItem[In any] struct {
	item In
	at   time.Time        // when
	list *feedclient.List // nil if it could not be put, because of err
	err  error
}

func (f *Feed[In, Out]) startStream(ctx context.Context, items iter.Seq[In], window int, limit time.Duration) *stream[In] {
	s := &stream[In]{fed: make(chan fedItem[In], window), places: make(chan struct{}, window), limit: limit}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.ended = trap.Go("reading the items of a stream", func() error {
		defer close(s.fed)
		if s.place() {
			items(func(item In) bool { return s.feed(f.client, item) && s.place() })
		}
		return nil
	})
	return s
}

// place waits until there is one for the next item.
func (s *stream[In]) place() bool {
	select {
	case s.places <- struct{}{}:
		return s.ctx.Err() == nil
	case <-s.ctx.Done():
		return false
	}
}

// feed puts an item that has a place.
func (s *stream[In]) feed(client *feedclient.Client, item In) bool {
	if s.ctx.Err() != nil {
		return false
	}
	fed := fedItem[In]{item: item, at: time.Now()}
	encoded, err := encodeItem(item, 0)
	if err != nil {
		fed.err = err
	} else {
		fed.list = client.Ask(encoded, true, fed.deadline(s.limit))
	}
	s.fed <- fed
	if s.ctx.Err() != nil { // it has been left meanwhile, maybe without this item
		fed.leave(client)
		return false
	}
	return true
}

// deadline returns when an item's time is over; zero: never.
func (i fedItem[In]) deadline(limit time.Duration) time.Time {
	if limit <= 0 {
		return time.Time{}
	}
	return i.at.Add(limit)
}

func (i fedItem[In]) leave(client *feedclient.Client) {
	if i.list != nil {
		client.Leave(i.list)
	}
}

// leave gives up everything that has not been yielded.
func (s *stream[In]) leave(client *feedclient.Client) {
	s.cancel()
	var lists []*feedclient.List
	for more := true; more; {
		var fed fedItem[In]
		select {
		case fed, more = <-s.fed:
			if fed.list != nil {
				lists = append(lists, fed.list)
			}
		default:
			more = false
		}
	}
	client.Leave(lists...)
}

func (f *Feed[In, Out]) outcomeOf(ctx context.Context, fed fedItem[In], limit time.Duration) (Result[In, Out], error) {
	var r Result[In, Out]
	if fed.list == nil {
		return r, fed.err
	}
	if err := f.await(ctx, fed, limit); err != nil {
		return r, err
	}
	outcome, err := fed.list.Outcome()
	if err != nil {
		return r, f.typed(err, 0)
	}
	r.Queued, r.Took = outcome.Queued, outcome.Took
	if r.Numbered = outcome.Item >= 0; r.Numbered {
		r.Ordinal = outcome.Item
	}
	if limit > 0 && outcome.Stored {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, fed.deadline(limit))
		defer cancel()
	}
	if outcome, err = f.fetch(ctx, outcome, fed.at); err != nil {
		return r, err
	}
	r.Out, err = decodeOutcome[Out](outcome)
	if IsCode(err, CodeDropped) {
		r.Dropped, err = true, nil
	}
	return r, err
}

// await returns once an item has an outcome, or with the reason why it has none.
func (f *Feed[In, Out]) await(ctx context.Context, fed fedItem[In], limit time.Duration) error {
	if limit > 0 {
		limited, cancel := context.WithDeadline(ctx, fed.deadline(limit))
		defer cancel()
		err := f.client.Await(limited, fed.list)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		return f.typed(err, time.Since(fed.at))
	}
	select {
	case <-fed.list.Done():
		return nil
	case <-ctx.Done():
		fed.leave(f.client)
		return ctx.Err()
	}
}

// yieldAll yields results until the input, the caller or an error ends the stream. A panic of the input continues here.
func (f *Feed[In, Out]) yieldAll(s *stream[In], o StreamOptions, yield func(Result[In, Out], error) bool) {
	for index := int64(0); ; index++ {
		var fed fedItem[In]
		more := false
		select {
		case fed, more = <-s.fed:
		case <-s.ctx.Done():
		}
		if !more {
			f.endStream(s, index, yield)
			return
		}
		r, err := f.outcomeOf(s.ctx, fed, o.Limit)
		r.Index = index
		if o.Items {
			r.Item = fed.item
		}
		if !yield(r, err) || err != nil && !(o.InPlace && ofItem(err)) {
			return
		}
		<-s.places
	}
}

// endStream ends a stream that has no more items.
func (f *Feed[In, Out]) endStream(s *stream[In], index int64, yield func(Result[In, Out], error) bool) {
	if err := s.ctx.Err(); err != nil {
		yield(Result[In, Out]{Index: index}, err)
		return
	}
	if defect, ok := errors.AsType[*trap.DefectError](<-s.ended); ok {
		panic(defect.Value)
	}
}

// ofItem reports whether an error concerns one item only.
func ofItem(err error) bool {
	e, ok := errors.AsType[*FeedError](err)
	return ok && (e.Kind() != "" || e.Code == CodeTimeout)
}
