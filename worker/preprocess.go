package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/stint-run/stint/internal/calls"
	"github.com/stint-run/stint/internal/codec"
)

// Preprocess makes a handler that passes each item through fn before h gets it. An item for which fn
// returns an error is recorded with that error, or dropped if it is [Drop]: the item does not reach h, and is in none of its
// calls. fn runs in this process, one item after the other in each slot; its
// items are decoded, retried and timed like those of the function of [Each]. A program that h runs
// gets the results as JSON.
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
	return calls.Traits{Inside: true, Lists: h.inner.Traits().Lists}
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
	verdict = calls.Outcome{Fault: calls.FaultOf(calls.CauseOf(ctx, err)), Tries: c.Tried(i) + 1}
	switch {
	case verdict.Fault.After > 0:
		verdict.Later = true
		verdict.Tries--
	case verdict.Tries < c.ItemAttempts:
		verdict.Later = true
	}
	return nil, verdict, true
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
