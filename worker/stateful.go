package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/run/calls"
)

// SlotInfo describes to a handler the slot that it serves.
type SlotInfo struct {
	Worker      string
	Slot        int // from 0; the same for all its incarnations
	Incarnation int // how often the slot has been replaced, from 0
	MaxRestarts int // how often in a row it may be replaced
	Seed        int64
}

// Stateful makes a Go handler with a value for each slot: a connection, a model, a buffer. open makes the value when
// the worker starts, before any call, and again for every further incarnation of the slot; with makes the handler from
// it (by [Each], [Batch] or [Preprocess]), which is used by as many goroutines as Options.Concurrency says. If open
// fails for one slot at the start, those already open are closed and the worker ends with that slot's error.
//
// closing, which may be nil, is called once for every value, after its last call: with nil after a
// clean end, otherwise with the error that ended it. It is not called for a value whose call was left
// behind: that call may still use it. With Options.Processes all this happens in the slot's process,
// and closing is not called in one that is killed.
func Stateful[S any](open func(context.Context, SlotInfo) (S, error), closing func(state S, cause error) error, with func(S) Handler) Handler {
	return goHandler(func(s dependencies) (calls.Handler, service, error) {
		h := &stateful[S]{dependencies: s, make: open, closing: closing, with: with, slots: make([]openSlot[S], s.options.Slots)}
		return h, h, nil
	})
}

type stateful[S any] struct {
	dependencies
	make    func(context.Context, SlotInfo) (S, error)
	closing func(S, error) error
	with    func(S) Handler

	mu    sync.Mutex
	slots []openSlot[S]
}

// openSlot is a slot with its value.
type openSlot[S any] struct {
	state       S
	handler     calls.Handler // nil: not open
	incarnation int
}

var errNotGo = errors.New("a stateful handler must be made by Each, Batch or Preprocess")

// start opens all slots, or none.
func (h *stateful[S]) start(ctx context.Context) error {
	for i := range h.slots {
		if err := h.openSlot(ctx, i, h.info(i, 0)); err != nil {
			h.end(err)
			return err
		}
	}
	return nil
}

func (h *stateful[S]) openSlot(ctx context.Context, i int, info SlotInfo) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("slot %d: opening: %w", info.Slot, err)
		}
	}()
	defer recovered(&err)
	state, err := h.make(ctx, info)
	if err != nil {
		return err
	}
	inner := h.with(state)
	if !inner.inside || inner.open == nil {
		return errors.Join(errNotGo, h.closeState(state, errNotGo))
	}
	handler, _, err := inner.open(h.dependencies)
	if err != nil {
		return errors.Join(err, h.closeState(state, err))
	}
	h.slots[i] = openSlot[S]{state: state, handler: handler, incarnation: info.Incarnation}
	return nil
}

func (h *stateful[S]) closeState(state S, cause error) (err error) {
	if h.closing == nil {
		return nil
	}
	defer recovered(&err)
	return h.closing(state, cause)
}

// end closes what is open.
func (h *stateful[S]) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range h.slots {
		if s.handler == nil {
			continue
		}
		h.slots[i] = openSlot[S]{}
		if err := h.closeState(s.state, cause); err != nil {
			h.log.Error("closing a slot", "slot", i, "error", err)
		}
	}
}

func (h *stateful[S]) Close() { h.end(nil) }

// of returns the handler of a slot. It opens it anew if the previous incarnation was left behind.
func (h *stateful[S]) of(ctx context.Context, slot, incarnation int) (calls.Handler, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.slots[slot]
	if s.handler == nil || s.incarnation != incarnation {
		*s = openSlot[S]{}
		if err := h.openSlot(ctx, slot, h.info(slot, incarnation)); err != nil {
			return nil, err
		}
	}
	return s.handler, nil
}

// any returns the handler of a slot that is open: they differ only in the value.
func (h *stateful[S]) any() calls.Handler {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if s.handler != nil {
			return s.handler
		}
	}
	return nil
}

func (h *stateful[S]) Traits() calls.Traits {
	if inner := h.any(); inner != nil {
		return inner.Traits()
	}
	return calls.Traits{Inside: true}
}

func (h *stateful[S]) CallSize() calls.CallSize {
	if inner := h.any(); inner != nil {
		return inner.CallSize()
	}
	return h.options.callSize(batchItems, batchBytes)
}

func (h *stateful[S]) Call(c *calls.Call) error {
	place := c.Place.Describe()
	inner, err := h.of(c.Begin(), place.Slot, place.Incarnation)
	if !c.Claim() {
		return nil
	}
	if err != nil {
		return err
	}
	return inner.Call(c)
}

// Preprocess makes a handler that passes each item through fn before h gets it. An item for which fn returns an error
// is recorded with that error, or dropped if it is [Drop]: the item does not reach h, and is in none of its calls. fn
// runs in this process, one item after the other in each slot; its items are decoded, retried and timed like those of
// the function of [Each]. A program that h runs gets the results as JSON.
func Preprocess[In, Out any](fn func(context.Context, In) (Out, error), h Handler) Handler {
	open := h.open
	if open == nil {
		return h // it is refused when it is checked
	}
	h.identity = new(identity) // another handler than the one inside
	h.open = func(s dependencies) (calls.Handler, service, error) {
		inner, service, err := open(s)
		if err != nil {
			return nil, nil, err
		}
		return &preprocessed[In, Out]{
			fn: fn, inner: inner, in: s.json.decoding(reflect.TypeFor[In]()), out: s.json.encoding(reflect.TypeFor[Out]()),
		}, service, nil
	}
	return h
}

type preprocessed[In, Out any] struct {
	fn    func(context.Context, In) (Out, error)
	inner calls.Handler
	in    decoder
	out   codec.Codec
}

func (h *preprocessed[In, Out]) Traits() calls.Traits {
	return calls.Traits{Inside: true, Lists: h.inner.Traits().Lists, Requests: h.inner.Traits().Requests}
}

func (h *preprocessed[In, Out]) CallSize() calls.CallSize { return h.inner.CallSize() }

func (h *preprocessed[In, Out]) Call(c *calls.Call) error {
	verdicts := make([]calls.Outcome, 0, len(c.Items))
	passed := make([]calls.Item, 0, len(c.Items))
	for i := range c.Items {
		if i > 0 && c.Ending() {
			break
		}
		data, verdict, ok := h.item(c, i)
		if !ok && !verdict.Later {
			return nil
		}
		if !ok { // it has asked to slow down: those before it go on
			break
		}
		verdicts = append(verdicts, verdict)
		if verdict.Fault == nil && !verdict.Drop {
			passed = append(passed, calls.Item{Ordinal: c.Items[i].Ordinal, Data: data})
		}
	}
	sub := c.Sub(passed, !h.inner.Traits().Inside)
	var err error
	if len(passed) > 0 {
		err = h.inner.Call(&sub.Call)
	}
	return sub.Merge(verdicts, err)
}

// item preprocesses one item. It returns false if it was cut off, or has asked to slow down: the verdict then says so.
func (h *preprocessed[In, Out]) item(c *calls.Call, i int) (out []byte, verdict calls.Outcome, ok bool) {
	ctx := c.Begin()
	out, err := h.try(ctx, c, c.Items[i].Data)
	if !c.Claim() {
		return nil, verdict, false
	}
	switch {
	case err == nil:
		return out, verdict, true
	case errors.Is(err, Drop):
		return nil, calls.Outcome{Drop: true}, true
	case slowsDown(c, err):
		return nil, calls.Outcome{Later: true}, false
	case c.Ended():
		return nil, verdict, false
	}
	return nil, c.Failed(calls.FaultOf(calls.CauseOf(ctx, err)), c.Tried(i)+1, c.ItemAttempts), true
}

func (h *preprocessed[In, Out]) try(ctx context.Context, c *calls.Call, data []byte) (_ []byte, err error) {
	defer recovered(&err)
	var in In
	if err := h.in.decode(c, data, &in); err != nil {
		return nil, err
	}
	out, err := h.fn(ctx, in)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := h.out.NewEncoder(&buf).Encode(out); err != nil {
		return nil, fmt.Errorf("encoding for the handler: %w", err)
	}
	value := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if fault := calls.CheckResult(value); fault != nil {
		return nil, fault
	}
	return value, nil
}
