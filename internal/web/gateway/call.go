package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/jobs"
)

// call gives a request's items to a feed, and answers with their results.
func (g *Gateway) call(a *answer, r *http.Request) {
	limit := jobs.DefaultFeedLimit
	values, err := parameters(r, "timeout")
	if err == nil {
		if text := values.Get("timeout"); text != "" {
			if limit, err = time.ParseDuration(text); err != nil || limit <= 0 || limit > maxTimeout {
				err = badRequest("invalid timeout %q: use a duration above 0 and up to %v, such as 60s", text, maxTimeout)
			}
		}
	}
	single := false
	if err == nil {
		single, err = singleValue(r)
	}
	if err == nil {
		err = g.withFeed(r, func(f Feed) error {
			if single {
				return g.callOne(a, r, f, limit)
			}
			return g.callLines(a, r, f, limit)
		})
	}
	if err != nil {
		a.Header().Set("Connection", "close") // there may be more of the body
		a.fail(err)
	}
}

// callOne answers a request with one item.
func (g *Gateway) callOne(a *answer, r *http.Request, f Feed, limit time.Duration) error {
	item, err := g.bodyOf(a, r).value()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	g.meters.put(1)
	result, err := f.Call(ctx, item)
	if err != nil {
		return ended(r.Context(), err)
	}
	g.meters.given(1)
	a.send(http.StatusOK, append(slices.Clip(result), '\n'))
	return nil
}

// outcome is a line of an answer: the outcome of one item. A result is added as it stands; otherwise Dropped or Error
// is set.
type outcome struct {
	Index   int64      `json:"index"`          // of the item in the request, from 0
	Item    *int64     `json:"item,omitempty"` // its ordinal in the feed, if it is known
	Dropped bool       `json:"dropped,omitempty"`
	Error   *itemError `json:"error,omitempty"`
}

// itemError is the error of one item. Kind is that of a record of errors, and then the type is the handler's; or it is
// discarded, stored, refused or decode, and the type is that of the client's error.
type itemError struct {
	Kind    string `json:"kind"`
	Type    string `json:"type,omitempty"`
	Message string `json:"message"`
}

// callLines answers a request with any number of items. Its error is one before the first outcome; afterwards, an error
// is the last line.
func (g *Gateway) callLines(a *answer, r *http.Request, f Feed, limit time.Duration) (err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	if err := http.NewResponseController(a.ResponseWriter).EnableFullDuplex(); err != nil {
		cancel(nil)
		return err
	}
	s := &streaming{g: g, answer: a, out: newLineAnswer(a), body: newLines(ctx, g.bodyOf(a, r))}
	s.hand = &hand{
		limit: limit, free: make(chan struct{}, 1), count: func() { g.meters.put(1) },
		late: func(waited time.Duration) { cancel(&jobs.FeedError{Code: jobs.CodeTimeout, Waited: waited}) },
	}
	defer func() {
		s.hand.stop()
		cancel(nil)
		if defect := s.body.end(); err == nil {
			err = defect
		}
	}()
	err = s.run(ctx, f)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if late := s.body.body.late(); late != nil {
		err = late
	}
	if s.begun || err == nil {
		s.finish(err)
		return nil
	}
	return err
}

// streaming is a request with any number of items.
type streaming struct {
	g      *Gateway
	answer *answer
	out    *lineAnswer
	body   *lines
	hand   *hand
	begun  bool // the answer
}

// run answers with the outcomes of all items, up to the first error that is not an item's.
func (s *streaming) run(ctx context.Context, f Feed) error {
	for result, err := range f.Stream(ctx, s.hand.items(ctx, s.body.chunks), jobs.StreamOptions{InPlace: true}) {
		if err != nil && !ofItem(err) {
			return err
		}
		s.hand.outcome()
		if err := s.send(result, err); err != nil {
			return err
		}
		s.hand.sent()
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.body.whole:
		return s.body.err
	}
}

// ofItem reports whether an error concerns one item, so that the others go on.
func ofItem(err error) bool {
	e, ok := errors.AsType[*jobs.FeedError](err)
	return ok && e.Kind() != ""
}

// begin begins the answer.
func (s *streaming) begin() {
	if s.begun {
		return
	}
	s.begun = true
	if !s.body.complete() {
		s.answer.Header().Set("Connection", "close") // what is left of the body is not read
	}
	s.answer.begin(http.StatusOK, "application/x-ndjson")
}

// send writes the outcome of one item.
func (s *streaming) send(result jobs.Result[Value, Value], err error) error {
	s.begin()
	line := outcome{Index: result.Index, Dropped: result.Dropped}
	if result.Numbered {
		line.Item = &result.Ordinal
	}
	s.g.meters.given(1)
	if err == nil && !result.Dropped {
		return s.out.write(encodeWith(line, result.Out))
	}
	if err != nil {
		line.Error = inPlace(err)
	}
	return s.out.write(encode(line))
}

// inPlace returns an item's error as a line has it.
func inPlace(err error) *itemError {
	e, _ := errors.AsType[*jobs.FeedError](err)
	if e.Failure != nil {
		return &itemError{Kind: e.Kind(), Type: e.Failure.Error.Type, Message: e.Failure.Error.Message}
	}
	return &itemError{Kind: e.Kind(), Type: string(e.Code), Message: err.Error()}
}

// finish ends the answer, with an error if there is one.
func (s *streaming) finish(err error) {
	s.begin()
	if err != nil {
		_, p := explain(err)
		_ = s.out.write(encode(failed{Error: p})) // the client has gone
	}
	s.out.close()
}

// maxInHand bounds the items of a request that have been taken and have no outcome yet, in bytes. One item may be
// larger.
const maxInHand = 4 << 20

// hand is what a request for results has in hand: items that have been taken from its body, and have no outcome yet. It
// limits their bytes, and how long the first of them is waited for.
type hand struct {
	limit time.Duration
	late  func(waited time.Duration) // the first has been waited for too long
	count func()                     // an item is given to the feed

	mu      sync.Mutex
	sizes   []int // in order
	bytes   int
	clock   *time.Timer   // runs while there are items, and no outcome is being sent
	since   time.Time     // the clock runs
	free    chan struct{} // gets a value when there is room
	stopped bool
}

// items returns those of a body, each of which is taken in hand.
func (h *hand) items(ctx context.Context, from <-chan chunk) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for {
			var c chunk
			more := false
			select {
			case c, more = <-from:
			case <-ctx.Done():
			}
			if !more {
				return
			}
			for _, item := range c {
				if !h.take(ctx, len(item)) {
					return
				}
				h.count()
				if !yield(item) {
					return
				}
			}
		}
	}
}

// take waits until there is room for an item.
func (h *hand) take(ctx context.Context, size int) bool {
	for !h.taken(size) {
		select {
		case <-h.free:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (h *hand) taken(size int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sizes) > 0 && h.bytes+size > maxInHand {
		return false
	}
	h.sizes = append(h.sizes, size)
	h.bytes += size
	if len(h.sizes) == 1 {
		h.wind()
	}
	return true
}

// outcome notes that the first item has its outcome. The clock stands until it is sent.
func (h *hand) outcome() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clock != nil {
		h.clock.Stop()
		h.clock = nil
	}
}

// sent notes that the outcome of the first item has been sent.
func (h *hand) sent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes -= h.sizes[0]
	h.sizes = h.sizes[1:]
	if h.clock == nil && len(h.sizes) > 0 {
		h.wind()
	}
	select {
	case h.free <- struct{}{}:
	default:
	}
}

// wind starts the clock. The lock is held.
func (h *hand) wind() {
	if h.stopped {
		return
	}
	if h.clock != nil {
		h.clock.Stop()
	}
	h.since = time.Now()
	var clock *time.Timer
	clock = trap.After(h.limit, "ending a wait for a body", nil, func() {
		h.mu.Lock()
		current, waited := h.clock == clock, time.Since(h.since)
		h.mu.Unlock()
		if current {
			h.late(waited)
		}
	})
	h.clock = clock
}

// stop stops the clock for good.
func (h *hand) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if h.clock != nil {
		h.clock.Stop()
		h.clock = nil
	}
}
