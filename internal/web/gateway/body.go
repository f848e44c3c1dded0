package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/jobs"
)

const (
	// maxPause is how long a request's body may take to give the next item, whole.
	maxPause = 10 * time.Minute
	// chunkItems and chunkBytes are how much is read before it is handed on, if there is more at once.
	chunkItems = 64
	chunkBytes = 64 << 10
	blanks     = " \t\r\n"
)

// singleValue reports whether a request's body is one JSON value; otherwise each of its lines is one.
func singleValue(r *http.Request) (bool, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return false, unsupported("content encoding %q: send the items as they are", coding)
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return false, nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err != nil {
		return false, unsupported("content type %q: %v", given, err)
	}
	switch media {
	case "application/json":
		return true, nil
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "text/plain",
		"application/x-www-form-urlencoded", "application/octet-stream": // what curl sends by itself is among these
		return false, nil
	}
	return false, unsupported("content type %q: use application/json for one value, or application/x-ndjson for one on each line", media)
}

func unsupported(format string, args ...any) error {
	return &requestError{status: http.StatusUnsupportedMediaType, kind: typeInvalidRequest, message: fmt.Sprintf(format, args...)}
}

// body is that of a request. Its reads end if an item takes too long, and when it is cut.
type body struct {
	from    io.Reader
	control *http.ResponseController
	length  int64 // below 0: not known
	pause   time.Duration
	rest    time.Duration
	by      time.Time // the item that is read must be whole

	mu    sync.Mutex
	isCut bool
	waits time.Time // until when the read that is under way, or has timed out, waits; zero: there is none
}

func (g *Gateway) bodyOf(a *answer, r *http.Request) *body {
	return &body{from: r.Body, control: http.NewResponseController(a.ResponseWriter), length: r.ContentLength, pause: g.pause, rest: g.rest}
}

// expect begins an item. A client that sends a byte now and then would otherwise keep its place for ever.
func (b *body) expect() { b.by = time.Now().Add(b.pause) }

// Read is one of io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if !b.until(b.by) {
		return 0, context.Canceled
	}
	n, err := b.from.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.until(time.Time{}) // the connection is watched from here on
	case !isTimeout(err):
		b.mu.Lock()
		b.waits = time.Time{}
		b.mu.Unlock()
	}
	return n, err
}

// late returns an error if the body has kept a read waiting for too long. The server cancels the request then, before
// the read knows.
func (b *body) late() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isCut || b.waits.IsZero() || time.Now().Before(b.waits) {
		return nil
	}
	return b.timeout()
}

func (b *body) timeout() error {
	return &requestError{status: http.StatusRequestTimeout, kind: typeTimeout, message: fmt.Sprintf("the request has not sent a whole item for %v", b.pause)}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (b *body) until(deadline time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isCut {
		return false
	}
	b.waits = deadline
	_ = b.control.SetReadDeadline(deadline) // there is one in any server
	return true
}

// cut ends a read that is under way, and all later ones.
func (b *body) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isCut = true
	_ = b.control.SetReadDeadline(time.Unix(1, 0))
}

// leave limits how long net/http reads what is left of the body, which nobody wants any more.
func (b *body) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isCut {
		_ = b.control.SetReadDeadline(time.Now().Add(b.rest))
	}
}

// value reads a body that is one value.
func (b *body) value() (Value, error) {
	if b.length > 2*jobs.MaxPutBytes {
		return nil, tooLong(0)
	}
	b.expect()
	data, err := io.ReadAll(io.LimitReader(b, 2*jobs.MaxPutBytes+1)) // as it may be written with spaces
	switch {
	case err != nil:
		return nil, b.readError(err)
	case len(data) > 2*jobs.MaxPutBytes:
		b.leave()
		return nil, tooLong(0)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil || !utf8.Valid(data) || jsonscan.TooDeep(data) {
		return nil, invalidLine(data, 0)
	}
	if compact.Len() > jobs.MaxPutBytes {
		return nil, tooLong(0)
	}
	return compact.Bytes(), nil
}

// tooLong is the error of an item in that line, or, if it is 0, of one that is a body of its own.
func tooLong(line int64) error {
	text := fmt.Sprintf("the item is larger than %d bytes", jobs.MaxPutBytes)
	if line > 0 {
		text = fmt.Sprintf("line %d is longer than %d bytes", line, jobs.MaxPutBytes)
	}
	return &requestError{status: http.StatusRequestEntityTooLarge, kind: typeTooLarge, message: text, line: line}
}

func invalidLine(data []byte, line int64) error {
	why := "it is not UTF-8"
	var into json.RawMessage
	if err := json.Unmarshal(data, &into); err != nil {
		why = err.Error()
	} else if utf8.Valid(data) {
		why = fmt.Sprintf("it is nested deeper than %s", text.Thousands(jsonscan.MaxNesting))
	}
	message := "invalid JSON: " + why
	if line > 0 {
		message = fmt.Sprintf("line %d: invalid JSON: %s", line, why)
	}
	return &requestError{status: http.StatusBadRequest, kind: typeInvalidItem, message: message, line: line}
}

// readError is the error of a body that has not ended as it should have.
func (b *body) readError(err error) error {
	if isTimeout(err) {
		return b.timeout()
	}
	return badRequest("reading the request: %v", err)
}

// chunk is some items of a body.
type chunk []Value

// lines reads a body item by item, in a goroutine of its own, and never further than one chunk ahead.
type lines struct {
	body   *body
	in     *bufio.Reader
	number int64 // of the line read last
	chunks chan chunk
	ended  <-chan error  // of the goroutine
	whole  chan struct{} // closed once the goroutine has read all that it will
	err    error         // why there are no more; nil: the body has ended. Valid once chunks is closed
}

// newLines begins to read a body. It ends with the context; end must be called.
func newLines(ctx context.Context, b *body) *lines {
	l := &lines{body: b, in: bufio.NewReaderSize(b, chunkBytes), chunks: make(chan chunk), whole: make(chan struct{})}
	l.ended = trap.Go("reading a request's items", func() error {
		defer close(l.chunks)
		l.read(ctx)
		return nil
	})
	return l
}

// end ends the reading, and returns when it has ended. What it returns is an error of the gateway's own.
func (l *lines) end() error {
	select {
	case <-l.whole:
		if l.err != nil {
			l.body.leave()
		}
	default:
		l.body.cut()
	}
	return <-l.ended
}

// complete reports whether all of the body has been read.
func (l *lines) complete() bool {
	select {
	case <-l.whole:
		return l.err == nil
	default:
		return false
	}
}

func (l *lines) read(ctx context.Context) {
	for more := true; more; {
		var c chunk
		c, more = l.chunk()
		if !more {
			close(l.whole)
		}
		if len(c) == 0 {
			continue
		}
		select {
		case l.chunks <- c:
		case <-ctx.Done():
			if more {
				l.err = context.Cause(ctx)
				close(l.whole)
			}
			return
		}
	}
}

// chunk returns the next items, as many as are there, and whether there may be more.
func (l *lines) chunk() (c chunk, more bool) {
	size := 0
	for len(c) < chunkItems && size < chunkBytes && (len(c) == 0 || l.ready()) {
		item, err := l.next()
		if errors.Is(err, io.EOF) {
			return c, false
		}
		if err != nil {
			l.err = err
			return c, false
		}
		c = append(c, item)
		size += len(item)
	}
	return c, true
}

// ready reports whether the next line has been received.
func (l *lines) ready() bool {
	received, _ := l.in.Peek(l.in.Buffered()) // never fails
	return bytes.IndexByte(received, '\n') >= 0
}

// next returns the next item. Blank lines are none.
func (l *lines) next() (Value, error) {
	for {
		l.number++
		l.body.expect()
		line, err := l.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		item := bytes.Trim(line, blanks)
		switch {
		case len(item) == 0 && err != nil:
			return nil, io.EOF
		case len(item) == 0:
			continue
		case len(item) > jobs.MaxPutBytes:
			return nil, tooLong(l.number)
		case !json.Valid(item) || !utf8.Valid(item) || jsonscan.TooDeep(item):
			return nil, invalidLine(item, l.number)
		}
		return bytes.Clone(item), nil
	}
}

// line returns the next line, which stays valid until the next read, and io.EOF if it is the last.
func (l *lines) line() ([]byte, error) {
	part, err := l.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, l.readError(err)
	}
	line := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(line) > jobs.MaxPutBytes+len("\r\n") {
			return nil, tooLong(l.number)
		}
		part, err = l.in.ReadSlice('\n')
		line = append(line, part...)
	}
	return line, l.readError(err)
}

func (l *lines) readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return l.body.readError(err)
}

// maxUnwanted is how much of a body that is not wanted is read, so that the connection can be used again. It is
// net/http's own limit.
const maxUnwanted = 256 << 10 // bytes

// skipBody reads the body of a request that needs none, before the request takes a place. Otherwise net/http would read
// it when the answer is sent, and nobody would notice until then that the client has left. The server's ReadTimeout
// limits how long that takes; it ends with the body, so a long answer may follow.
func skipBody(a *answer, r *http.Request) error {
	err := unwanted(r)
	if err != nil {
		a.Header().Set("Connection", "close") // there may be more of the body
	}
	return err
}

func unwanted(r *http.Request) error {
	tooLarge := &requestError{status: http.StatusRequestEntityTooLarge, kind: typeTooLarge, message: "the request has a large body: send none here"}
	if r.ContentLength > maxUnwanted {
		return tooLarge
	}
	_, err := io.CopyN(io.Discard, r.Body, maxUnwanted+1)
	switch {
	case err == nil:
		return tooLarge
	case errors.Is(err, io.EOF):
		return nil
	case isTimeout(err):
		return &requestError{status: http.StatusRequestTimeout, kind: typeTimeout, message: "the request's body has not come in time: send none here"}
	}
	return badRequest("reading the request: %v", err)
}
