// Package frames holds the frames of the serve protocol, which docs/protocol.md specifies: JSON
// objects, one a line, with a field "type".
package frames

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/stint-run/stint/internal/wire"
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
	TypeCost        = "cost"
)

// What may happen when a timer expires.
const (
	ActionKill   = "kill"
	ActionReport = "report"
)

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
		return "", Broken(line, errors.New(`it has no "type"`))
	}
	return *frame.Type, nil
}

// Decode reads the frame that the line holds. The values of results and the items of calls may be
// parts of the line. If into has lists, they are used again.
//
// A line of results that is JSON but for values of results is a frame, too: the other results are not to blame.
func Decode(line []byte, into any) error {
	switch f := into.(type) {
	case *wire.ResultsFrame:
		if parseResults(f, line, false) {
			return nil
		}
		*f = wire.ResultsFrame{}
	case *wire.CallFrame:
		if parseCall(f, line) {
			return nil
		}
		*f = wire.CallFrame{}
	}
	err := json.Unmarshal(line, into)
	if err == nil {
		return nil
	}
	if f, ok := into.(*wire.ResultsFrame); ok {
		*f = wire.ResultsFrame{}
		if parseResults(f, line, true) {
			return nil
		}
		*f = wire.ResultsFrame{}
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

// AppendResults appends the frame as a line with its end. Values must be JSON without '\n'.
func AppendResults(f *wire.ResultsFrame, buf []byte) []byte {
	buf = append(buf, `{"type":"results","id":`...)
	buf = strconv.AppendInt(buf, f.ID, 10)
	buf = append(buf, `,"results":[`...)
	for i := range f.Results {
		r := &f.Results[i]
		if i > 0 {
			buf = append(buf, ',')
		}
		switch {
		case r.RetryAfter != nil || r.Error != nil:
			buf = append(appendFailure(append(buf, '{'), r.RetryAfter, r.Error), '}')
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
		buf = appendFailure(append(buf, ','), f.RetryAfter, f.Error)
	}
	return append(buf, "}\n"...)
}

// appendFailure appends those of the fields that are not nil.
func appendFailure(buf []byte, retryAfter *float64, e *job.Error) []byte {
	if retryAfter != nil {
		buf = strconv.AppendFloat(append(buf, `"retry_after":`...), *retryAfter, 'f', -1, 64)
		if e == nil {
			return buf
		}
		buf = append(buf, ',')
	}
	text, _ := Encode(e) // it has texts only
	return append(append(buf, `"error":`...), bytes.TrimSuffix(text, []byte("\n"))...)
}

// AppendCall appends the line of a call of n items, each of them JSON without '\n'. single has the
// one item handed over as an item, not as a list; csv says that they are records of CSV.
func AppendCall(buf []byte, id int64, n int, item func(i int) []byte, single, csv bool, traceparent string) []byte {
	buf = append(buf, `{"type":"call","id":`...)
	buf = strconv.AppendInt(buf, id, 10)
	if csv {
		buf = append(buf, `,"csv":true`...)
	}
	if traceparent != "" {
		buf = append(append(append(buf, `,"traceparent":"`...), traceparent...), '"')
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

// Reader reads frames line by line. One goroutine may read.
type Reader struct {
	r     io.Reader
	limit int
	buf   []byte
	start int // of what has not been returned
	seen  int // bytes from start on that hold no '\n'

	taken int64
}

const firstBuffer = 64 << 10

// NewReader returns a Reader of frames of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: r, limit: limit, buf: make([]byte, 0, firstBuffer)}
}

// Taken returns how many bytes the lines returned so far have.
func (r *Reader) Taken() int64 { return r.taken }

// Next returns the next line without its end; it is valid until the call after. Blank lines are
// left out. At the end it returns io.EOF, and a *BrokenError if the last line has no end.
func (r *Reader) Next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.start+r.seen:], '\n'); i >= 0 {
			line := r.buf[r.start : r.start+r.seen+i]
			r.taken += int64(r.seen + i + 1)
			r.start += r.seen + i + 1
			r.seen = 0
			switch {
			case len(line) > r.limit:
				return nil, r.tooLong(line)
			case len(bytes.TrimSpace(line)) == 0:
				continue
			}
			return line, nil
		}
		r.seen = len(r.buf) - r.start
		if r.seen > r.limit {
			return nil, r.tooLong(r.buf[r.start:])
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

func (r *Reader) tooLong(line []byte) error {
	return fmt.Errorf("a frame of more than %d bytes: %q…", r.limit, Broken(line, nil).Text)
}

// fill reads more, after what is there.
func (r *Reader) fill() error {
	if r.start > 0 && (r.seen == 0 || len(r.buf) == cap(r.buf)) {
		r.buf = r.buf[:copy(r.buf[:cap(r.buf)], r.buf[r.start:])]
		r.start = 0
		if r.seen == 0 && cap(r.buf) > 16*firstBuffer {
			r.buf = make([]byte, 0, firstBuffer) // after a large one
		}
	}
	if len(r.buf) == cap(r.buf) {
		grown := make([]byte, len(r.buf), 2*cap(r.buf))
		copy(grown, r.buf)
		r.buf = grown
	}
	n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	switch {
	case n > 0 || err == nil:
		return nil // the next read returns the error again
	case err == io.EOF && r.seen > 0:
		rest := r.buf[r.start:]
		r.start, r.seen = len(r.buf), 0
		return Broken(rest, io.ErrUnexpectedEOF)
	}
	return err
}
