package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/jsonscan"
	"github.com/stint-run/stint/job"
)

// Flatten makes of each result, which must be a JSON list, as many lines as the list has elements: perhaps none. Elements are
// written compact, and are otherwise the bytes that they were. Any other result becomes the error of its item. null is an empty
// list if nilIsEmpty is set: that is how Go encodes a slice that is nil. What has been flattened before stays as it is.
//
// It needs no memory but for the outcomes: the lines of a list are never longer than the list.
func (a *Answer) Flatten(nilIsEmpty bool) {
	old := *a
	a.outcomes = make([]Span, 0, a.Count)
	end := 0 // of what is flat in the buffer
	old.Each(func(o Span) {
		start := end
		switch {
		case o.flat, o.Later: // one that has no result yet has nothing in the buffer
			end += copy(old.Buf[end:], old.Buf[o.start:o.End])
		case o.Fault == nil && !o.Drop:
			lines, fault := flatten(old.Buf[o.start:o.End-1], nilIsEmpty, old.Buf[end:end])
			if fault != nil {
				o.Fault, o.Tries = fault, 1
				a.Special++
				a.texts += TextBytes(&fault.Err)
				break
			}
			end += len(lines)
		}
		o.start, o.End, o.flat = start, end, true
		a.outcomes = append(a.outcomes, o)
	})
	a.Buf = a.Buf[:end]
}

// flatten appends the elements of a list to lines, each ended by '\n'. lines may lie in the same memory, before the list.
func flatten(list []byte, nilIsEmpty bool, lines []byte) ([]byte, *Fault) {
	if fault := checkList(list, nilIsEmpty); fault != nil {
		return nil, fault
	}
	depth, quoted := 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted:
			lines = append(lines, c)
			if c == '\\' {
				i++
				lines = append(lines, list[i])
			}
			quoted = c != '"'
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '"':
			quoted = true
			lines = append(lines, c)
		case c == '[' || c == '{':
			if depth++; depth > 1 {
				lines = append(lines, c)
			}
		case c == ']' || c == '}':
			if depth--; depth > 0 {
				lines = append(lines, c)
			}
		case c == ',' && depth == 1:
			lines = append(lines, '\n')
		case depth > 0: // otherwise it is null
			lines = append(lines, c)
		}
	}
	if len(lines) > 0 {
		lines = append(lines, '\n')
	}
	return lines, nil
}

// checkList returns why a result is not a list.
func checkList(result []byte, nilIsEmpty bool) *Fault {
	first := jsonscan.Space(result, 0)
	end, _ := jsonscan.Value(result, first)
	valid := end >= 0 && jsonscan.Space(result, end) == len(result) || json.Valid(result)
	switch {
	case !valid || !utf8.Valid(result):
		return notList("not JSON")
	case result[first] == '[', nilIsEmpty && bytes.HasPrefix(result[first:], []byte("null")):
		return nil
	}
	kind := "a number"
	switch result[first] {
	case '{':
		kind = "an object"
	case '"':
		kind = "a string"
	case 't', 'f':
		kind = "a bool"
	case 'n':
		kind = "null"
	}
	return notList(kind)
}

func notList(kind string) *Fault {
	return &Fault{Kind: job.KindInvalid, Err: job.Error{
		Type: "Invalid", Message: fmt.Sprintf("the handler's answer is %s, and the job flattens lists: answer with a JSON list, [] for no result", kind),
	}}
}

// Bytes are those of an outcome in the buffer: lines, each with its end.
func (a *Answer) Bytes(o Span) []byte { return a.Buf[o.start:o.End] }
