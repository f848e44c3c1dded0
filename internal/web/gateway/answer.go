package gateway

import (
	"bufio"
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
)

const (
	// flushEvery is how long an outcome waits for others that are sent with it.
	flushEvery = 2 * time.Millisecond
	// writeLimit is how long a client may take to read what it has been sent.
	writeLimit  = 30 * time.Second
	answerBytes = 32 << 10
)

// answer is the answer to a request.
type answer struct {
	http.ResponseWriter
	status  int           // 0: not begun
	reading time.Duration // see writeLimit
}

// WriteHeader is one of http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
	a.ResponseWriter.WriteHeader(status)
}

// Write is one of http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begin sets what all answers have.
func (a *answer) begin(status int, media string) {
	header := a.Header()
	header.Set("Content-Type", media)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	a.WriteHeader(status)
}

// send writes a whole answer.
func (a *answer) send(status int, data []byte) {
	control := http.NewResponseController(a.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(a.reading))
	a.Header().Set("Content-Length", strconv.Itoa(len(data)))
	a.begin(status, "application/json")
	_, _ = a.Write(data) // the client has gone
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

func (a *answer) json(status int, v any) { a.send(status, encode(v)) }

// failed is the body of an error.
type failed struct {
	Error    problem `json:"error"`
	Accepted *int64  `json:"accepted,omitempty"` // items of the request, for certain
}

// fail answers with an error.
func (a *answer) fail(err error) { a.failPut(err, nil) }

// failPut answers with an error, and how many items have been accepted before it.
func (a *answer) failPut(err error, accepted *int64) {
	status, p := explain(err)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		a.Header().Set("Retry-After", "1") // seconds
	case http.StatusUnauthorized:
		a.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
		a.Header().Set("Connection", "close") // who has no token need not keep one
	}
	a.json(status, failed{Error: p, Accepted: accepted})
}

// encode returns v as a line of JSON.
func encode(v any) []byte {
	return append(object(v), '\n')
}

func object(v any) []byte {
	data, err := text.JSON(v)
	if err != nil {
		panic(err) // all types of answers can be encoded
	}
	return data
}

// encodeWith returns v, which becomes an object, as a line of JSON, with a result as it was given.
func encodeWith(v any, result Value) []byte {
	return append(text.JSONField(object(v), "result", result), '\n')
}

// lineAnswer is an answer of lines, which are sent soon after they are written.
type lineAnswer struct {
	answer  *answer
	control *http.ResponseController

	mu     sync.Mutex
	out    *bufio.Writer
	timer  *time.Timer // flushes; nil: not armed
	sent   time.Time   // last flush
	err    error
	closed bool
}

func newLineAnswer(a *answer) *lineAnswer {
	l := &lineAnswer{answer: a, control: http.NewResponseController(a.ResponseWriter)}
	l.out = bufio.NewWriterSize(timely{l}, answerBytes)
	return l
}

// timely limits how long each write takes.
type timely struct{ l *lineAnswer }

func (t timely) Write(p []byte) (int, error) {
	_ = t.l.control.SetWriteDeadline(time.Now().Add(t.l.answer.reading))
	return t.l.answer.Write(p)
}

// write adds a line. Its error says that the client does not read any more.
func (l *lineAnswer) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if _, l.err = l.out.Write(line); l.err != nil {
		return l.err
	}
	switch {
	case l.timer != nil:
	case time.Since(l.sent) >= flushEvery:
		l.flush()
	default:
		l.timer = trap.After(flushEvery, "flushing an answer", nil, l.flushLater)
	}
	return l.err
}

func (l *lineAnswer) flushLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if !l.closed {
		l.flush()
	}
}

// flush sends what has been written. The lock is held.
func (l *lineAnswer) flush() {
	if l.err == nil {
		l.err = l.out.Flush()
	}
	if l.err == nil {
		l.err = l.control.Flush()
	}
	l.sent = time.Now()
}

// close sends the rest. Nothing is written afterwards.
func (l *lineAnswer) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.flush()
	_ = l.control.SetWriteDeadline(time.Time{})
}
