package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-run/stint/activities"
)

// Preprocess makes a handler that has fn turn each item into what h gets. An item that fn refuses is
// recorded with fn's error, or dropped where that is [Drop]: it does not reach h, and does not count
// in its calls. fn runs in this process, one item after the other in each slot; it is decoded, tried
// again and timed like the function of [Each]. A program that h runs gets the results as JSON.
func Preprocess[In, Out any](fn func(context.Context, In) (Out, error), h Handler) Handler {
	open := h.open
	if open == nil {
		return h // it is refused when it is checked
	}
	h.open = func(s surroundings) (activities.Handler, service, error) {
		inner, service, err := open(s)
		if err != nil {
			return nil, nil, err
		}
		return &preprocessed[In, Out]{fn: fn, inner: inner}, service, nil
	}
	return h
}

type preprocessed[In, Out any] struct {
	fn    func(context.Context, In) (Out, error)
	inner activities.Handler
}

func (h *preprocessed[In, Out]) Traits() activities.Traits { return activities.Traits{Inside: true} }

func (h *preprocessed[In, Out]) CallSize() activities.CallSize { return h.inner.CallSize() }

func (h *preprocessed[In, Out]) Call(c *activities.Call) error {
	verdicts := make([]activities.Outcome, 0, len(c.Items))
	passed := make([]activities.Item, 0, len(c.Items))
	for i := range c.Items {
		if c.Ending() {
			break
		}
		data, verdict, ok := h.item(c, c.Items[i].Data)
		if !ok {
			return nil
		}
		verdicts = append(verdicts, verdict)
		if verdict.Fault == nil && !verdict.Drop {
			passed = append(passed, activities.Item{Ordinal: c.Items[i].Ordinal, Data: data})
		}
	}
	sub := c.Sub(passed, !h.inner.Traits().Inside)
	var err error
	if len(passed) > 0 {
		err = h.inner.Call(&sub.Call)
	}
	return sub.Merge(verdicts, err)
}

// item preprocesses one item; false where it was cut off.
func (h *preprocessed[In, Out]) item(c *activities.Call, data []byte) (out []byte, verdict activities.Outcome, ok bool) {
	for try := 1; ; try++ {
		ctx := c.Begin()
		out, err := h.try(ctx, data)
		if !c.Claim() {
			return nil, verdict, false
		}
		switch {
		case err == nil:
			return out, verdict, true
		case errors.Is(err, Drop):
			return nil, activities.Outcome{Drop: true}, true
		case c.Ended():
			return nil, verdict, false
		}
		if fault := activities.FaultOf(activities.CauseOf(ctx, err)); try >= c.ItemAttempts {
			return nil, activities.Outcome{Fault: fault, Tries: try}, true
		}
		if !c.Wait(try) {
			return nil, verdict, false
		}
	}
}

func (h *preprocessed[In, Out]) try(ctx context.Context, data []byte) (_ []byte, err error) {
	defer recovered(&err)
	var in In
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	out, err := h.fn(ctx, in)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("encoding for the handler: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
