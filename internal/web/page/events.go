package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// pingEvery is how often a page that has nothing new hears that its server is there.
	pingEvery = 10 * time.Second
	// sendLimit is how long a page may take to take an event.
	sendLimit = 30 * time.Second
	// againAfter is how long a browser waits before it asks again for live updates that have ended.
	againAfter = time.Second
)

// news is an event for a page: its changed part.
type news struct {
	Build string `json:"build"` // of the page: another one has it loaded anew
	HTML  string `json:"html"`
}

// stream sends what a source has, as it changes: as JSON for programs, or with html=true as the page's changed part.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, page string, s source) {
	if s.err != nil {
		p.fail(w, s.err)
		return
	}
	updates, leave, err := p.hub.watch(s)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer leave()
	to := &eventWriter{w: w, control: http.NewResponseController(w)}
	_ = to.control.SetReadDeadline(time.Time{}) // what the server allows for a request is over soon
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	to.write("retry: %d\n\n", againAfter.Milliseconds())
	encode := encodeJSON
	if r.URL.Query().Get("html") == "true" {
		encode = func(said any) (string, []byte, error) { return p.encodeHTML(page, s, said) }
	}
	for to.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-p.hub.end:
			return
		case <-time.After(pingEvery):
			if p.checkToken(route{}, r) == nil {
				to.write(": still here\n\n")
				continue
			}
		case a := <-updates:
			if p.checkToken(route{}, r) == nil {
				to.send(a, encode)
				continue
			}
		}
		return // its token is none any more
	}
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte
	err     error
}

func (e *eventWriter) write(format string, args ...any) {
	_ = e.control.SetWriteDeadline(time.Now().Add(sendLimit))
	if _, e.err = fmt.Fprintf(e.w, format, args...); e.err == nil {
		e.err = e.control.Flush()
	}
}

// send writes an answer, unless it is the last one once more.
func (e *eventWriter) send(a answer, encode func(any) (string, []byte, error)) {
	name, data, err := "trouble", []byte(nil), a.err
	if err == nil {
		name, data, err = encode(a.said)
	}
	if err != nil {
		_, problem := explain(err)
		name, data = "trouble", toJSON(problem)
	}
	if !bytes.Equal(data, e.last) {
		e.last = data
		e.write("event: %s\ndata: %s\n\n", name, data)
	}
}

func encodeJSON(said any) (string, []byte, error) {
	data, err := json.Marshal(said)
	return "data", data, err
}

func (p *Page) encodeHTML(page string, s source, said any) (string, []byte, error) {
	html, err := contentOf(page, s.view(said))
	return "view", toJSON(news{Build: build, HTML: html}), err
}
