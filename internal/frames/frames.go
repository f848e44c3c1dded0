// Package frames holds the frames of the serve protocol, which docs/protocol.md specifies: JSON
// objects, one a line, with a field "type".
package frames

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-run/stint/job"
)

// Version of the protocol.
const Version = 1

// Limits of frames and timers, which hello announces to the program.
const (
	MaxFrame  = 64 << 20 // bytes
	MaxScope  = 200      // bytes
	MaxTimers = 10_000   // held at once
)

// Types of frames.
const (
	TypeHello       = "hello"
	TypeCall        = "call"
	TypeAcquired    = "acquired"
	TypeStopping    = "stopping"
	TypeBye         = "bye"
	TypeReady       = "ready"
	TypeResults     = "results"
	TypeAcquire     = "acquire"
	TypeRelease     = "release"
	TypeLog         = "log"
	TypeMetric      = "metric"
	TypeRequestStop = "request-stop"
	TypeSlowDown    = "slow-down"
)

// Hello is the worker's first frame.
type Hello struct {
	Type        string `json:"type"`
	Version     int    `json:"version"`
	Worker      string `json:"worker"`
	Slot        int    `json:"slot"`
	Incarnation int    `json:"incarnation"`
	MaxRestarts int    `json:"max_restarts"`
	Seed        int64  `json:"seed"`
	Concurrency int    `json:"concurrency"`
	Limits      Limits `json:"limits"`
}

// Limits are the limits that a program must observe.
type Limits struct {
	Frame  int `json:"frame"`  // bytes
	Scope  int `json:"scope"`  // bytes
	Timers int `json:"timers"` // held at once
}

// Call sends items, or one item if Item is set.
type Call struct {
	ID    int64             `json:"id"`
	Items []json.RawMessage `json:"items"`
	Item  json.RawMessage   `json:"item"`
	CSV   bool              `json:"csv"` // the items are records of CSV
}

// Acquired answers Acquire.
type Acquired struct {
	Type  string     `json:"type"`
	ID    int64      `json:"id"`
	Error *job.Error `json:"error,omitempty"`
}

// Stopping announces that the job or the worker will end.
type Stopping struct {
	Type   string  `json:"type"`
	Reason string  `json:"reason,omitempty"`
	Grace  float64 `json:"grace"` // seconds
}

// Bye announces that no call follows.
type Bye struct {
	Type string `json:"type"`
}

// Ready reports that the program can be called, or why it cannot.
type Ready struct {
	Type  string     `json:"type"`
	Name  string     `json:"name,omitempty"`
	Stack string     `json:"stack,omitempty"` // the signal that makes it write its stacks: USR1, QUIT …
	Error *job.Error `json:"error,omitempty"`
}

// Results answers a call, or the next few items of one.
type Results struct {
	Type    string     `json:"type"`
	ID      int64      `json:"id"`
	Results []Result   `json:"results,omitempty"`
	Error   *job.Error `json:"error,omitempty"` // of the whole call
	// RetryAfter says that the items without a result are to be called again after so many seconds: Error, which
	// may be nil, is why.
	RetryAfter *float64 `json:"retry_after,omitempty"`
	More       bool     `json:"more,omitempty"`
}

// Result is one item's: its value, or no result, or an error, or when it is to be called again.
type Result struct {
	Value json.RawMessage `json:"value,omitempty"`
	// NotJSON says that the value is not JSON, although the frame around it is: see [Decode].
	NotJSON bool `json:"-"`
	// Clean says that the value is known to be ASCII, and nested no deeper than [jsonscan.MaxDepth].
	Clean bool       `json:"-"`
	Drop  bool       `json:"drop,omitempty"`
	Error *job.Error `json:"error,omitempty"`
	// RetryAfter says that the item is to be called again after so many seconds: Error, which may be nil, is why.
	RetryAfter *float64 `json:"retry_after,omitempty"`
}

// Acquire starts a timer.
type Acquire struct {
	Type   string  `json:"type"`
	ID     int64   `json:"id"`
	Scope  string  `json:"scope"`
	After  float64 `json:"after"` // seconds
	Action string  `json:"action,omitempty"`
	Signal string  `json:"signal,omitempty"`
	Call   int64   `json:"call,omitempty"` // that is in the scope; 0: it is not said
}

// What may happen when a timer expires.
const (
	ActionKill   = "kill"
	ActionReport = "report"
)

// Release ends a timer.
type Release struct {
	Type  string `json:"type"`
	Scope string `json:"scope"`
}

// Log is a message for the worker's log.
type Log struct {
	Type    string         `json:"type"`
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields,omitempty"`
	Call    int64          `json:"call,omitempty"` // that it is about; 0: it is not said
}

// Metric is a measurement: of a counter, which it is added to, or of a gauge, which it replaces.
type Metric struct {
	Type  string  `json:"type"`
	Name  string  `json:"name"`
	Kind  string  `json:"kind"`
	Value float64 `json:"value"`
}

// RequestStop requests a stop of the job whose call is running.
type RequestStop struct {
	Type   string     `json:"type"`
	Reason string     `json:"reason,omitempty"`
	Error  *job.Error `json:"error,omitempty"`
	Call   int64      `json:"call,omitempty"` // that requests it; 0: all that are under way
}

// SlowDown requests that no further call begins for a while.
type SlowDown struct {
	Type  string  `json:"type"`
	After float64 `json:"after"`          // seconds
	Call  int64   `json:"call,omitempty"` // that requests it; 0: all that are under way
}

// shown is how many bytes of an invalid frame an error shows.
const shown = 200

// BrokenError reports a line that is not a valid frame.
type BrokenError struct {
	Text  string // the beginning of it
	Cause error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("not a frame: %q: %v", e.Text, e.Cause) }

func (e *BrokenError) Unwrap() error { return e.Cause }

// Broken returns a BrokenError for a line.
func Broken(line []byte, cause error) *BrokenError {
	text := bytes.ToValidUTF8(line[:min(len(line), shown)], []byte("\uFFFD"))
	return &BrokenError{Text: string(text), Cause: cause}
}

// Type returns the type of the frame that the line holds.
func Type(line []byte) (string, error) {
	const usual = `{"type":"`
	if rest, ok := bytes.CutPrefix(line, []byte(usual)); ok {
		if name, _, ok := bytes.Cut(rest[:min(len(rest), 16)], []byte(`"`)); ok && !bytes.ContainsRune(name, '\\') {
			return string(name), nil
		}
	}
	var frame struct {
		Type *string `json:"type"`
	}
	switch err := json.Unmarshal(line, &frame); {
	case err != nil:
		return "", Broken(line, err)
	case frame.Type == nil:
		return "", Broken(line, errNoType)
	}
	return *frame.Type, nil
}

var errNoType = fmt.Errorf(`it has no "type"`)

// Decode reads the frame that the line holds. The values of results and the items of calls may be
// parts of the line. If into has lists, they are used again.
//
// A line of results that is JSON but for values of results is a frame, too: the other results are not to blame.
func Decode(line []byte, into any) error {
	switch f := into.(type) {
	case *Results:
		if f.parse(line) {
			return nil
		}
		*f = Results{}
	case *Call:
		if f.parse(line) {
			return nil
		}
		*f = Call{}
	}
	err := json.Unmarshal(line, into)
	if err == nil {
		return nil
	}
	if f, ok := into.(*Results); ok {
		*f = Results{}
		if f.parseLoosely(line) {
			return nil
		}
		*f = Results{}
	}
	return Broken(line, err)
}

// Encode returns the frame as a line with its end.
func Encode(frame any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(frame); err != nil {
		return nil, fmt.Errorf("encoding a frame: %w", err)
	}
	return buf.Bytes(), nil
}

// Append appends the frame as a line with its end. Values must be JSON without '\n'.
func (f *Results) Append(buf []byte) ([]byte, error) {
	buf = append(buf, `{"type":"results","id":`...)
	buf = strconv.AppendInt(buf, f.ID, 10)
	buf = append(buf, `,"results":[`...)
	var err error
	for i := range f.Results {
		r := &f.Results[i]
		if i > 0 {
			buf = append(buf, ',')
		}
		switch {
		case r.RetryAfter != nil || r.Error != nil:
			if buf, err = appendFailure(append(buf, '{'), r.RetryAfter, r.Error); err != nil {
				return nil, err
			}
			buf = append(buf, '}')
		case r.Drop:
			buf = append(buf, `{"drop":true}`...)
		default:
			buf = append(append(append(buf, `{"value":`...), r.Value...), '}')
		}
	}
	buf = append(buf, ']')
	if f.More {
		buf = append(buf, `,"more":true`...)
	}
	if f.RetryAfter != nil || f.Error != nil {
		if buf, err = appendFailure(append(buf, ','), f.RetryAfter, f.Error); err != nil {
			return nil, err
		}
	}
	return append(buf, "}\n"...), nil
}

// appendFailure appends those of the fields that are not nil.
func appendFailure(buf []byte, retryAfter *float64, e *job.Error) ([]byte, error) {
	if retryAfter != nil {
		buf = strconv.AppendFloat(append(buf, `"retry_after":`...), *retryAfter, 'f', -1, 64)
		if e == nil {
			return buf, nil
		}
		buf = append(buf, ',')
	}
	return appendError(buf, e)
}

func appendError(buf []byte, e *job.Error) ([]byte, error) {
	text, err := Encode(e)
	if err != nil {
		return nil, err
	}
	return append(append(buf, `"error":`...), bytes.TrimSuffix(text, []byte("\n"))...), nil
}

// AppendCall appends the line of a call of n items, each of them JSON without '\n'. single has the
// one item handed over as an item, not as a list; csv says that they are records of CSV.
func AppendCall(buf []byte, id int64, n int, item func(i int) []byte, single, csv bool) []byte {
	buf = append(buf, `{"type":"call","id":`...)
	buf = strconv.AppendInt(buf, id, 10)
	if csv {
		buf = append(buf, `,"csv":true`...)
	}
	if single {
		buf = append(append(buf, `,"item":`...), item(0)...)
		return append(buf, "}\n"...)
	}
	buf = append(buf, `,"items":[`...)
	for i := range n {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, item(i)...)
	}
	return append(buf, "]}\n"...)
}

// Seconds returns a number of seconds as a duration, limited to the largest one.
func Seconds(s float64) time.Duration {
	const most = float64(1<<63-1) / float64(time.Second)
	switch {
	case s >= most:
		return 1<<63 - 1
	case s <= -most:
		return -1 << 63
	}
	return time.Duration(s * float64(time.Second))
}
