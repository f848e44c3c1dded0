package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stint-run/stint/activities"
	"github.com/stint-run/stint/job"
)

// Handler is what a pool does to its items: make one with [Each], [Batch], [Exec] or [Serve].
type Handler struct {
	name   string
	inside bool // it runs in this process
	// check, which may be nil, tells what would keep open from working.
	check func(Options) error
	// open makes the handler for a worker. The service may be nil.
	open func(surroundings) (activities.Handler, service, error)
}

// Name tells people what the handler is.
func (h Handler) Name() string { return h.name }

// Check returns what would keep a worker with these options from running the handler, or nil.
func (h Handler) Check(o Options) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return fmt.Errorf("worker options: %w", err)
	}
	if h.open == nil {
		return errors.New("no handler: make one with Each, Batch, Exec or Serve")
	}
	if h.check == nil {
		return nil
	}
	return h.check(o)
}

// Drop, returned as a handler's error, says that the item has no result: it counts as ok and as
// dropped, and leaves no line in the output.
//
//lint:ignore ST1012 it is what a handler says, not what has gone wrong
var Drop = errors.New("no result")

// ItemErrors, returned as the error of a [Batch] handler, fails the items at its indexes alone; the
// others take their results from the slice, which must be as long as the items.
type ItemErrors map[int]error

func (e ItemErrors) Error() string { return fmt.Sprintf("%d items of the call failed", len(e)) }

// SlowDown, returned as a handler's error, says that nothing more should be begun for a while, because
// something that the handler depends on asks for that. The item, or the call, has not failed: it comes
// again, and the rate of the whole job is lowered, and comes back by itself. after is at least 100 ms
// and at most an hour.
func SlowDown(after time.Duration) error { return &activities.SlowDownError{After: after} }

// slowsDown passes on such a wish.
func slowsDown(c *activities.Call, err error) bool {
	var slow *activities.SlowDownError
	if !errors.As(err, &slow) {
		return false
	}
	c.SlowDown(slow.After)
	return true
}

// Each makes a handler of a function that takes one item at a time. Items are decoded from JSON
// into In and results encoded from Out with encoding/json; a text line is a JSON string, a CSV
// record an object of strings. fn is called by as many goroutines as the worker has slots. Its
// error, or its panic, is the item's; its context ends at the call timeout and when the worker has
// to end at once.
func Each[In, Out any](fn func(context.Context, In) (Out, error)) Handler {
	return Handler{name: "go", inside: true, open: func(surroundings) (activities.Handler, service, error) {
		return &each[In, Out]{fn: fn}, nil, nil
	}}
}

// Calls of Go handlers are cut so small that what they hold stays in the processor's caches.
const (
	eachItems = 1024
	eachBytes = 256 << 10
)

type each[In, Out any] struct {
	fn func(context.Context, In) (Out, error)
}

func (*each[In, Out]) Traits() activities.Traits {
	return activities.Traits{Inside: true, OneByOne: true}
}

func (*each[In, Out]) CallSize() activities.CallSize {
	return activities.CallSize{Items: eachItems, Bytes: eachBytes}
}

func (h *each[In, Out]) Call(c *activities.Call) error {
	defer c.End()
	for i := range c.Items {
		if c.Ending() || !h.item(c, c.Items[i].Data) {
			return nil
		}
	}
	return nil
}

// item adds one outcome; false when it was cut off before it had one.
func (h *each[In, Out]) item(c *activities.Call, data []byte) bool {
	for try := 1; ; try++ {
		ctx := c.Begin()
		err := h.try(ctx, c, data)
		switch {
		case err == nil:
			return true
		case !c.Claim():
			return false
		case errors.Is(err, Drop):
			c.Answer.Drop()
			return true
		case slowsDown(c, err):
			return false
		}
		fault := activities.FaultOf(activities.CauseOf(ctx, err))
		if c.Ended() {
			return false
		}
		if fault.Kind == job.KindInvalid || try >= c.ItemAttempts {
			c.Answer.Fail(fault, try)
			return true
		}
		if !c.Wait(try) {
			return false
		}
	}
}

// try adds the item's result, or returns its error.
func (h *each[In, Out]) try(ctx context.Context, c *activities.Call, data []byte) (err error) {
	defer recovered(&err)
	var in In
	if err := decode(data, &in); err != nil {
		return err
	}
	out, err := h.fn(ctx, in)
	if err != nil {
		return err
	}
	return c.Encode(out)
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = activities.PanicFault(p)
	}
}

// decode reads an item. Bytes that are not JSON make it invalid; JSON that does not fit is an error.
func decode(data []byte, in any) error {
	err := json.Unmarshal(data, in)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &activities.Fault{Kind: job.KindInvalid, Err: job.Error{
			Type: "Invalid", Message: fmt.Sprintf("not JSON: %v at byte %d of the item", syntax, syntax.Offset),
		}}
	}
	return err
}

// Batch makes a handler of a function that takes many items at once and answers with one result
// for each, in order. Another number of results fails the call, which is then tried again and
// halved until the fault is on single items. See [ItemErrors] for items that fail by themselves;
// for decoding, concurrency and the context see [Each].
func Batch[In, Out any](fn func(context.Context, []In) ([]Out, error)) Handler {
	return Handler{name: "go", inside: true, open: func(s surroundings) (activities.Handler, service, error) {
		return &batch[In, Out]{fn: fn, size: s.options.callSize(batchItems, batchBytes)}, nil, nil
	}}
}

const (
	batchItems = 1000
	batchBytes = 1 << 20
)

type batch[In, Out any] struct {
	fn   func(context.Context, []In) ([]Out, error)
	size activities.CallSize
}

func (*batch[In, Out]) Traits() activities.Traits       { return activities.Traits{Inside: true} }
func (h *batch[In, Out]) CallSize() activities.CallSize { return h.size }

// batchItem is one item of a call on its way to its outcome.
type batchItem struct {
	line  []byte // its result as JSON
	fault *activities.Fault
	drop  bool
	tries int
}

func (h *batch[In, Out]) Call(c *activities.Call) error {
	defer c.End()
	items := make([]batchItem, len(c.Items))
	ins := make([]In, 0, len(c.Items))
	index := make([]int, 0, len(c.Items)) // of each of ins
	for i := range c.Items {
		var in In
		if err := decode(c.Items[i].Data, &in); err != nil {
			items[i] = batchItem{fault: activities.FaultOf(err), tries: 1}
			continue
		}
		ins, index = append(ins, in), append(index, i)
	}
	for try := 1; len(ins) > 0; try++ {
		if try > 1 && !c.Wait(try-1) {
			return nil
		}
		tried, err := h.try(c, ins)
		if !c.Claim() {
			return nil
		}
		if slowsDown(c, err) {
			return nil
		}
		if err != nil {
			return err
		}
		ins, index = settle(tried, items, ins, index, try, c.ItemAttempts)
	}
	for i := range items {
		switch {
		case items[i].fault != nil:
			c.Answer.Fail(items[i].fault, items[i].tries)
		case items[i].drop:
			c.Answer.Drop()
		default:
			c.Answer.Line(items[i].line)
		}
	}
	return nil
}

// tried is what one call of the function has come to.
type tried struct {
	lines  [][]byte // the results as JSON
	errors ItemErrors
}

func (h *batch[In, Out]) try(c *activities.Call, ins []In) (_ *tried, err error) {
	ctx := c.Begin()
	defer recovered(&err)
	outs, err := h.fn(ctx, ins)
	var each ItemErrors
	if err != nil && !errors.As(err, &each) {
		return nil, activities.CauseOf(ctx, err)
	}
	if len(outs) != len(ins) {
		return nil, activities.LengthFault(len(ins), len(outs))
	}
	t := &tried{errors: ItemErrors{}}
	maps.Copy(t.errors, each)
	encodeAll(t, outs)
	return t, nil
}

// encodeAll turns the results into JSON; what cannot be encoded is its item's error.
func encodeAll[Out any](t *tried, outs []Out) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	ends := make([]int, len(outs))
	for k := range outs {
		if t.errors[k] == nil {
			if err := enc.Encode(outs[k]); err != nil {
				t.errors[k] = fmt.Errorf("encoding the result: %w", err)
			}
		}
		ends[k] = buf.Len()
	}
	t.lines = make([][]byte, len(outs))
	start := 0
	for k, end := range ends {
		t.lines[k] = bytes.TrimSuffix(buf.Bytes()[start:end], []byte("\n"))
		start = end
	}
}

// settle notes the outcomes and returns the items that are to be tried again.
func settle[In any](t *tried, items []batchItem, ins []In, index []int, try, attempts int) ([]In, []int) {
	var again []In
	var againIndex []int
	for k, i := range index {
		err := t.errors[k]
		switch {
		case err == nil:
			items[i] = batchItem{line: t.lines[k]}
		case errors.Is(err, Drop):
			items[i] = batchItem{drop: true}
		case try < attempts:
			again, againIndex = append(again, ins[k]), append(againIndex, i)
		default:
			items[i] = batchItem{fault: activities.FaultOf(err), tries: try}
		}
	}
	return again, againIndex
}
