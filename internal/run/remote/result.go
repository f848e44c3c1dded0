package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/job"
)

// results returns the values of n items in an answer.
func (e *Endpoint) results(ctx context.Context, n int, answer *http.Response, body []byte) ([][]byte, *Fault) {
	if e.model != nil && e.array {
		return e.vectors(n, answer, body)
	}
	value, fault := e.value(answer, body)
	if fault == nil && e.path != nil {
		picked, err := e.path.of(ctx, value, e.maxAnswer)
		if err != nil {
			return nil, newFault(Fail, TypeResultPath, "%s: result path %s: %s: the answer begins%s",
				e.answered(answer.StatusCode), e.path.text, e.Redact(err.Error()), e.quoteStart(body))
		}
		value = picked
	}
	switch {
	case fault != nil:
		return nil, fault
	case !e.array:
		return [][]byte{value}, nil
	}
	return e.elements(n, answer, value)
}

// value returns the answer as JSON.
func (e *Endpoint) value(answer *http.Response, body []byte) ([]byte, *Fault) {
	if e.model != nil {
		return e.said(answer, body)
	}
	if value := compact(body); value != nil {
		return value, nil
	}
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	named := media == "application/json" || strings.HasSuffix(media, "+json")
	if e.path != nil || e.array || named && len(body) > 0 {
		return nil, e.notJSON(answer, body)
	}
	quoted, err := text.JSON(string(body))
	if err != nil {
		return nil, e.notJSON(answer, body)
	}
	return quoted, nil
}

func (e *Endpoint) notJSON(answer *http.Response, body []byte) *Fault {
	return newFault(Again, TypeNotJSON, "%s, but not with JSON%s%s", e.answered(answer.StatusCode),
		contentOf(answer), e.quoteStart(body))
}

// contentOf says what an answer says that it is.
func contentOf(answer *http.Response) string {
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if media == "" || len(media) > 50 {
		return ""
	}
	return " (" + media + ")"
}

// compact returns a value in JSON without white space; nil if it is none.
func compact(value []byte) []byte {
	if jsonscan.TooDeep(value) {
		return nil
	}
	if !utf8.Valid(value) {
		value = bytes.ToValidUTF8(value, []byte("\uFFFD"))
	}
	b := bytes.NewBuffer(make([]byte, 0, len(value)))
	if json.Compact(b, value) != nil {
		return nil
	}
	return b.Bytes()
}

// elements returns those of a list in JSON, which must have n.
func (e *Endpoint) elements(n int, answer *http.Response, value []byte) ([][]byte, *Fault) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || list == nil {
		f := newFault(Fail, TypeLength, "%s, but not with a list of %s%s", e.answered(answer.StatusCode),
			text.Count(n, "result"), e.quoteStart(value))
		f.Kind = job.KindLength
		return nil, f
	}
	if len(list) != n {
		return nil, e.length(answer, n, len(list))
	}
	values := make([][]byte, n)
	for i := range list {
		values[i] = list[i]
	}
	return values, nil
}

func (e *Endpoint) length(answer *http.Response, want, got int) *Fault {
	f := newFault(Fail, TypeLength, "%s: the call was given %s and answered with %s", e.answered(answer.StatusCode),
		text.Count(want, "item"), text.Count(got, "result"))
	f.Kind = job.KindLength
	return f
}
