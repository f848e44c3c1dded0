package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/stint-run/stint/internal/base/codec"
	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/internal/run/remote"
	"github.com/stint-run/stint/job"
)

// Handler is what a pool does to its items: make one with [Each], [Batch], [Exec], [Serve], [Command] or [HTTP].
type Handler struct {
	name     string
	inside   bool      // it runs in this process
	identity *identity // of a handler that runs in this process
	argv     []string  // of a program
	made     string    // what requests are made of; empty: it sends none
	// check, which may be nil, returns what would make open fail.
	check func(Options) error
	// open makes the handler for a worker. The service may be nil.
	open func(dependencies) (calls.Handler, service, error)
	// http returns the endpoint of a handler that sends requests; nil: it sends none.
	http func(Options) (*remote.Endpoint, error)
}

// goHandler makes a handler that runs in this process.
func goHandler(open func(dependencies) (calls.Handler, service, error)) Handler {
	return Handler{name: "go", inside: true, identity: new(identity), open: open}
}

// IsZero reports whether h is the zero Handler, which no worker can run.
func (h Handler) IsZero() bool { return h.open == nil }

// Name describes the handler for people: "go", or the kind and command of a program.
func (h Handler) Name() string { return h.name }

// Check returns an error if a worker with these options could not run the handler.
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

// Drop is the error that a handler returns for an item that has no result: the item counts as ok and
// as dropped, and leaves no line in the output.
//
//lint:ignore ST1012 it is a result of a handler, not a failure
var Drop = errors.New("no result")

// ItemErrors, returned as the error of a [Batch] handler, fails the items at its indexes alone; the
// others take their results from the slice, which must have one for each item.
type ItemErrors map[int]error

func (e ItemErrors) Error() string { return fmt.Sprintf("%d items of the call failed", len(e)) }

// RetryAfter returns the error that a handler returns for an item that should be tried again after a time: what an
// API says in Retry-After about this request alone. It holds up nothing but the item's place in the order: other
// items are called meanwhile. It costs no attempt, until an item has waited for 10 minutes in all: one that
// would have to wait longer is recorded as failed, with cause, if it is given. As the error of a whole call it
// is about each of the call's items. after is at least 10 ms.
//
// If a service asks for fewer requests, return [SlowDown].
func RetryAfter(after time.Duration, cause ...error) error {
	return &calls.RetryAfterError{After: after, Cause: errors.Join(cause...)}
}

// SlowDown returns the error that a handler returns if a service that it uses asks for fewer requests. The item, or
// the call, has not failed: it is repeated after that time. If many calls end so, a tenth of the last 128 or
// four in a row (with many under way a tenth of these), nothing else is begun for that time either, the rate of the
// whole job is lowered, and recovers automatically. after is 100 ms … 1 h.
func SlowDown(after time.Duration) error { return &calls.SlowDownError{After: after} }

// Cost counts what a call has used of a service that is paid for: tokens, or money in whatever currency the job's budget
// is in. ctx is the one that the handler was given, and used is 0 or more. The report has the sum of all calls, whether
// they have succeeded or not; it counts for [job.Spec].MaxCost, MaxTokens and TokenRate. The error says that ctx is not
// that of a call, or that a number is below 0.
func Cost(ctx context.Context, used job.Usage) error {
	if used.TokensIn < 0 || used.TokensOut < 0 || used.TokensCached < 0 || used.Cost < 0 {
		return fmt.Errorf("counting what a call has used: %+v: use numbers from 0 on", used)
	}
	return calls.Spend(ctx, used)
}

// slowsDown passes on a slow-down request. It reports whether err is one: items that have no outcome then are
// called again.
func slowsDown(c *calls.Call, err error) bool {
	slow, ok := errors.AsType[*calls.SlowDownError](err)
	if ok {
		c.SlowDown(slow.After)
	}
	return ok
}

// Each makes a handler of a function that takes one item at a time. Items are decoded from JSON into In and results
// encoded from Out as encoding/json does, except that HTML is not escaped; a text line is a JSON string, a CSV record
// an object of strings. If In is a struct, its fields may have other types: an integer, float, bool or [time.Time] (RFC
// 3339, or a date) is read from its column's text, and a struct, map or slice from JSON in it. An empty text is nil for
// a pointer, otherwise zero. A text that does not fit makes the item invalid, with an error that names column and text.
// fn is called by as many goroutines as the worker has slots. Its error, or its panic, is the item's; its context ends
// at the call timeout and when the worker has to end at once. A result of more than 16 MiB as JSON is an error of its
// item.
//
// Most types are decoded and encoded by github.com/goccy/go-json, several times as fast: numbers, strings, booleans,
// [time.Time], [json.RawMessage], [json.Number], and structs, slices, arrays, maps and pointers of these; any is
// decoded by it, too. Everything else is left to encoding/json: types with methods of their own for JSON or text,
// recursive types, fields with the option ",string" or an unusual tag, results that hold an any. encoding/json also
// gets every item and result that go-json refuses, so all errors are its own. A difference to encoding/json would be a
// bug; none is known. [Codec] makes a handler use encoding/json alone.
func Each[In, Out any](fn func(context.Context, In) (Out, error)) Handler {
	return goHandler(func(s dependencies) (calls.Handler, service, error) {
		return &each[In, Out]{fn: fn, pace: s.options.callPace(0, eachItems, eachItems), in: s.json.decoding(reflect.TypeFor[In]()), out: s.json.encoding(reflect.TypeFor[Out]())}, nil, nil
	})
}

// Calls of Go handlers are so small that their data stays in the processor's caches.
const (
	eachItems = 1024
	eachBytes = 256 << 10
)

type each[In, Out any] struct {
	fn   func(context.Context, In) (Out, error)
	pace calls.Pace
	in   decoder
	out  codec.Codec
}

func (*each[In, Out]) Traits() calls.Traits {
	return calls.Traits{Inside: true, OneByOne: true, Lists: isList[Out]()}
}

func (h *each[In, Out]) CallSize() calls.CallSize {
	return calls.CallSize{Items: h.pace.Items(), Bytes: eachBytes}
}

func (h *each[In, Out]) Call(c *calls.Call) error {
	defer c.End()
	began := time.Now()
	for i := range c.Items {
		if i > 0 && c.Ending() || !h.item(c, i) {
			return nil
		}
		if c.Answer.Full() && i+1 < len(c.Items) {
			c.Keep = true
			return calls.FullFault()
		}
	}
	h.pace.Learn(len(c.Items), time.Since(began))
	return nil
}

// item adds one outcome, or has the item called again. It returns false if the call was cut off before.
func (h *each[In, Out]) item(c *calls.Call, i int) bool {
	ctx := c.Begin()
	err := h.try(ctx, c, c.Items[i].Data)
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
	fault := calls.FaultOf(calls.CauseOf(ctx, err))
	if c.Ended() {
		return false
	}
	failed := c.Failed(fault, c.Tried(i)+1, c.TriesOf(fault))
	if failed.Later && fault.After == 0 && fault.Kind == job.KindExpired {
		c.Expired()
	}
	c.Add(i, failed)
	return true
}

// try adds the item's result, or returns its error.
func (h *each[In, Out]) try(ctx context.Context, c *calls.Call, data []byte) (err error) {
	defer recovered(&err)
	var in In
	if err := h.in.decode(c, data, &in); err != nil {
		return err
	}
	out, err := h.fn(ctx, in)
	if err != nil {
		return err
	}
	return c.Encode(out, h.out)
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = calls.PanicFault(p)
	}
}

// decoder decodes items of one type: JSON values and records of CSV.
type decoder struct{ values, records codec.Codec }

// decode reads an item of the call. Bytes that are not JSON, or a column's text that does not fit its field, make the
// item invalid; JSON that does not fit is an error.
func (d decoder) decode(c *calls.Call, data []byte, in any) error {
	from := d.values
	if c.Records {
		from = d.records
	}
	err := from.Unmarshal(data, in)
	if column, ok := errors.AsType[*codec.ColumnError](err); ok {
		return calls.InvalidFault(column)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return calls.Faultf(job.KindInvalid, "Invalid", "not JSON: %v at byte %d of the item", syntax, syntax.Offset)
	}
	return err
}

// Batch makes a handler of a function that takes many items at once and answers with one result
// for each, in order. Another number of results fails the call, which is then retried and halved
// until the fault is on single items. See [ItemErrors] for items that fail alone; for decoding,
// concurrency and the context see [Each].
func Batch[In, Out any](fn func(context.Context, []In) ([]Out, error)) Handler {
	return goHandler(func(s dependencies) (calls.Handler, service, error) {
		return &batch[In, Out]{
			fn: fn, size: s.options.callSize(batchItems, batchBytes),
			in: s.json.decoding(reflect.TypeFor[In]()), out: s.json.encoding(reflect.TypeFor[Out]()),
		}, nil, nil
	})
}

const (
	batchItems = 1000
	batchBytes = 1 << 20
)

type batch[In, Out any] struct {
	fn   func(context.Context, []In) ([]Out, error)
	size calls.CallSize
	in   decoder
	out  codec.Codec
}

func (*batch[In, Out]) Traits() calls.Traits {
	return calls.Traits{Inside: true, Lists: isList[Out]()}
}

func (h *batch[In, Out]) CallSize() calls.CallSize { return h.size }

// isList reports whether a type is encoded as a list, or as null if it is nil. Bytes are a text.
func isList[Out any]() bool {
	t := reflect.TypeFor[Out]()
	return t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8
}

func (h *batch[In, Out]) Call(c *calls.Call) error {
	defer c.End()
	items := make([]calls.Outcome, len(c.Items))
	room := calls.AnswerLimit
	var full error
	ins := make([]In, 0, len(c.Items))
	index := make([]int, 0, len(c.Items)) // of each of ins
	c.Begin()                             // decoding may be user's code, and hang
	for i := range c.Items {
		var in In
		if err := h.in.decode(c, c.Items[i].Data, &in); err != nil {
			items[i] = calls.Outcome{Fault: calls.FaultOf(err), Tries: 1}
			continue
		}
		ins, index = append(ins, in), append(index, i)
	}
	if !c.Claim() {
		return nil
	}
	for try := 1; len(ins) > 0; try++ {
		if try > 1 && !c.Wait(try-1) {
			break
		}
		tried, err := h.try(c, ins, room)
		if !c.Claim() {
			return nil
		}
		slow := slowsDown(c, err)
		if err != nil && try > 1 { // the call as a whole: the items have more tries, in calls of their own
			break
		}
		if slow {
			return nil
		}
		if err != nil {
			return err
		}
		if room -= tried.bytes; len(tried.lines) < len(index) { // those after it are called again
			items = items[:index[len(tried.lines)]]
			c.Keep, full = true, calls.FullFault()
		}
		ins, index = settle(c, tried, items, ins, index[:len(tried.lines)], try)
	}
	for i, item := range items {
		c.Add(i, item)
	}
	return full
}

// tried is the result of one call of the function.
type tried struct {
	lines  [][]byte // the results as JSON, as far as there was room for them
	bytes  int      // that they have
	errors ItemErrors
}

func (h *batch[In, Out]) try(c *calls.Call, ins []In, room int) (_ *tried, err error) {
	ctx := c.Begin()
	defer recovered(&err)
	outs, err := h.fn(ctx, ins)
	var each ItemErrors
	if err != nil && !errors.As(err, &each) {
		return nil, calls.CauseOf(ctx, err)
	}
	if len(outs) != len(ins) {
		return nil, calls.LengthFault(len(ins), len(outs))
	}
	t := &tried{errors: ItemErrors{}}
	maps.Copy(t.errors, each)
	encodeAll(t, outs, h.out, room)
	return t, nil
}

// encodeAll turns results into JSON until there are that many bytes, but at least one result. A result that
// cannot be encoded, or is too large, is its item's error.
func encodeAll[Out any](t *tried, outs []Out, c codec.Codec, room int) {
	var buf bytes.Buffer
	enc := c.NewEncoder(&buf)
	ends := make([]int, 0, len(outs))
	for k := range outs {
		if k > 0 && buf.Len() >= room {
			break
		}
		if t.errors[k] == nil {
			start := buf.Len()
			if err := enc.Encode(outs[k]); err != nil {
				t.errors[k] = fmt.Errorf("encoding the result: %w", err)
			} else if size := buf.Len() - start - 1; size > calls.MaxResult {
				buf.Truncate(start)
				t.errors[k] = calls.TooLargeFault(size)
			} else if fault := calls.CheckEncoded(buf.Bytes()[start:], enc); fault != nil {
				buf.Truncate(start)
				t.errors[k] = fault
			}
		}
		ends = append(ends, buf.Len())
	}
	t.lines, t.bytes = make([][]byte, len(ends)), buf.Len()
	start := 0
	for k, end := range ends {
		t.lines[k] = bytes.TrimSuffix(buf.Bytes()[start:end], []byte("\n"))
		start = end
	}
}

// settle notes the outcomes and returns the items that are to be retried.
func settle[In any](c *calls.Call, t *tried, items []calls.Outcome, ins []In, index []int, try int) ([]In, []int) {
	var again []In
	var againIndex []int
	for k, i := range index {
		err := t.errors[k]
		if err == nil {
			items[i] = calls.Outcome{Value: t.lines[k]}
			continue
		}
		if errors.Is(err, Drop) {
			items[i] = calls.Outcome{Drop: true}
			continue
		}
		items[i] = c.Failed(calls.FaultOf(err), c.Tried(i)+try, c.ItemAttempts)
		if items[i].Later && !items[i].Apart { // otherwise it waits, for other calls
			again, againIndex = append(again, ins[k]), append(againIndex, i)
		}
	}
	return again, againIndex
}

// JSON is how the items of a Go handler are decoded and its results encoded: see [Codec].
type JSON int

const (
	// FastJSON is github.com/goccy/go-json for types for which it agrees with encoding/json, and
	// encoding/json for all others: see [Each]. It is the default.
	FastJSON JSON = iota
	// EncodingJSON is encoding/json for all types.
	EncodingJSON
)

// Codec makes a handler whose Go functions (of [Each], [Batch] and [Preprocess]) have their items
// decoded, and their results encoded, in this way. Nothing changes for programs.
func Codec(as JSON, h Handler) Handler {
	open := h.open
	if open == nil {
		return h // it is refused when it is checked
	}
	h.identity = new(identity) // another handler than the one inside
	h.open = func(s dependencies) (calls.Handler, service, error) {
		s.json = as
		return open(s)
	}
	return h
}

// decoding returns how items of the type are decoded.
func (j JSON) decoding(t reflect.Type) decoder {
	values := codec.Standard
	if j != EncodingJSON {
		values = codec.ForDecoding(t)
	}
	return decoder{values: values, records: codec.ForRecords(t, values)}
}

// encoding returns the codec for results of the type.
func (j JSON) encoding(t reflect.Type) codec.Codec {
	if j == EncodingJSON {
		return codec.Standard
	}
	return codec.ForEncoding(t)
}
