package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stint-run/stint/internal/calls"
)

// SlotInfo describes to a handler the slot that it serves.
type SlotInfo struct {
	Worker      string
	Slot        int // from 0; the same for all its incarnations
	Incarnation int // how often the slot has been replaced, from 0
	MaxRestarts int // how often in a row it may be replaced
	Seed        int64
}

// Stateful makes a Go handler with a value for each slot: a connection, a model, a buffer. open makes
// the value when the worker starts, before any call, and again for every further incarnation of the
// slot; with makes the handler from it (by [Each], [Batch] or [Preprocess]), which is used by as many
// goroutines as Options.Concurrency says. If open fails for one slot at the start, those already open are closed and the worker
// ends with that slot's error.
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
