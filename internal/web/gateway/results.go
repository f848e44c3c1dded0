package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/jobs"
)

// aliveEvery is how often an answer that has nothing to say has an empty line, so that both sides notice the other's
// end.
const aliveEvery = 15 * time.Second

// recorded returns a line of results: one that the feed has recorded, as it stands, and the cursor from which reading
// goes on after it.
func recorded(r jobs.RecordedResult[Value]) []byte {
	line := text.JSONField([]byte("{}"), "result", r.Out)
	cursor, _ := text.JSON(r.Next.String()) // a string can be encoded
	return append(text.JSONField(line, "cursor", cursor), '\n')
}

// results answers with what a feed has recorded.
func (g *Gateway) results(a *answer, r *http.Request) {
	from, follow, err := resultsOf(r)
	if err == nil {
		err = g.withFeed(r, func(f Feed) error { return g.sendResults(a, r, f, from, jobs.ResultsOptions{Committed: !follow}) })
	}
	if err != nil {
		a.fail(err)
	}
}

// resultsOf returns the parameters of a request for results.
func resultsOf(r *http.Request) (from jobs.FeedCursor, follow bool, err error) {
	values, err := parameters(r, "session", "cursor", "follow")
	if err != nil {
		return from, false, err
	}
	if from, err = jobs.ParseFeedCursor(values.Get("cursor")); err != nil {
		return from, false, badRequest("%v", err)
	}
	if text := values.Get("session"); text != "" {
		session, err := strconv.ParseInt(text, 10, 64)
		if err != nil || session < 1 {
			return from, false, badRequest("invalid session %q: use 1 or more", text)
		}
		if values.Get("cursor") != "" && from.Session != session {
			return from, false, badRequest("the cursor %s is of session %d, and not of %d", from, from.Session, session)
		}
		from.Session = session
	}
	if text := values.Get("follow"); text != "" {
		if follow, err = strconv.ParseBool(text); err != nil {
			return from, false, badRequest("invalid follow %q: use true or false", text)
		}
	}
	return from, follow, nil
}

// sendResults answers line by line. Its error is one before the first line; afterwards, an error is the last line.
func (g *Gateway) sendResults(a *answer, r *http.Request, f Feed, from jobs.FeedCursor, o jobs.ResultsOptions) error {
	out := newResultLines(a)
	defer out.close()
	var last error
	for result, err := range f.Results(r.Context(), from, o) {
		if err != nil {
			last = ended(r.Context(), err)
			break
		}
		g.meters.given(1)
		if out.write(recorded(result)) != nil {
			return nil // the client has gone
		}
	}
	if last == nil {
		return out.write(nil)
	}
	if !out.stop() {
		return last
	}
	_, p := explain(last)
	_ = out.write(encode(failed{Error: p})) // the client has gone
	return nil
}

// resultLines is an answer that begins with its first line and has no time limit.
type resultLines struct {
	answer *answer

	mu    sync.Mutex
	lines *lineAnswer // nil: it has not begun
	alive *time.Timer // writes empty lines; nil: not any more
}

func newResultLines(a *answer) *resultLines {
	l := &resultLines{answer: a}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive = trap.After(aliveEvery, "keeping a connection alive", nil, l.keepAlive)
	return l
}

// keepAlive writes an empty line. The timer may have fired just before stop, and then nothing is written.
func (l *resultLines) keepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive != nil {
		_ = l.add([]byte("\n")) // the next line shows that the client has gone
	}
}

// write adds a line, or none. Its error says that the client does not read any more.
func (l *resultLines) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(line)
}

// add is write. The lock is held.
func (l *resultLines) add(line []byte) error {
	if l.lines == nil {
		l.answer.begin(http.StatusOK, "application/x-ndjson")
		l.lines = newLineAnswer(l.answer)
	}
	if l.alive != nil {
		l.alive.Reset(aliveEvery)
	}
	return l.lines.write(line)
}

// stop ends the empty lines: when it returns, none is being written. It reports whether the answer has begun.
func (l *resultLines) stop() (begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive != nil {
		l.alive.Stop()
		l.alive = nil
	}
	return l.lines != nil
}

func (l *resultLines) close() {
	if l.stop() {
		l.lines.close()
	}
}
