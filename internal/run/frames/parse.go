package frames

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/wire"
)

// The frames that carry items are parsed here, in one pass and without building anything but the
// list of values. Unusual frames (a name written twice or with other letters, an escape in a name, a
// field of the wrong type, anything invalid) are left to encoding/json: a parse that fails says nothing
// about the frame, and one that succeeds has read what encoding/json would.

// parseResults reads a results frame; false: it is left to encoding/json. If it is loose, values of results need not be
// JSON, and are then marked.
func parseResults(f *wire.ResultsFrame, line []byte, loose bool) bool {
	p := parser{b: line, loose: loose}
	*f = wire.ResultsFrame{Results: f.Results[:0]}
	return p.object(resultsFields, func(name string) bool {
		switch name {
		case "type":
			return p.text(&f.Type)
		case "id":
			return p.integer(&f.ID)
		case "results":
			return p.array(func() bool { return p.result(f) })
		case "error":
			return p.json(&f.Error)
		case "retry_after":
			return p.json(&f.RetryAfter)
		}
		return p.boolean(&f.More)
	}) && p.end()
}

// parseCall reads a call frame; false: it is left to encoding/json.
func parseCall(f *wire.CallFrame, line []byte) bool {
	*f = wire.CallFrame{Items: f.Items[:0]}
	p := parser{b: line}
	return p.object(callFields, func(name string) bool {
		switch name {
		case "id":
			return p.integer(&f.ID)
		case "item":
			return p.value(&f.Item)
		case "csv":
			return p.boolean(&f.CSV)
		case "traceparent":
			return p.json(&f.Traceparent)
		}
		return p.array(func() bool {
			f.Items = append(f.Items, nil)
			return p.value(&f.Items[len(f.Items)-1])
		})
	}) && p.end()
}

// The names of fields that a parse knows; encoding/json takes others for them that differ in case.
var (
	resultsFields = []string{"type", "id", "results", "error", "more", "retry_after"}
	resultFields  = []string{"value", "drop", "error", "retry_after"}
	callFields    = []string{"id", "items", "item", "csv", "traceparent"}
)

// parser is a position in a line.
type parser struct {
	b     []byte
	i     int
	loose bool // values of results need not be JSON
	ascii bool // the value that was read last is known to be
}

// result reads one result.
func (p *parser) result(f *wire.ResultsFrame) bool {
	f.Results = append(f.Results, wire.ResultFrame{})
	r := &f.Results[len(f.Results)-1]
	return p.object(resultFields, func(name string) bool {
		switch name {
		case "value":
			ok := p.value(&r.Value)
			r.Clean = ok && p.ascii
			return ok || p.loose && p.other(r)
		case "drop":
			return p.boolean(&r.Drop)
		case "retry_after":
			return p.json(&r.RetryAfter)
		}
		return p.json(&r.Error)
	})
}

// object reads an object; field reads the value of a field with a name that is known.
func (p *parser) object(known []string, field func(name string) bool) bool {
	if !p.next('{') {
		return false
	}
	if p.next('}') {
		return true
	}
	for seen := uint(0); ; {
		name, ok := p.name()
		if !ok {
			return false
		}
		switch k := find(known, name); {
		case k < 0:
			if slices.ContainsFunc(known, func(k string) bool { return bytes.EqualFold(name, []byte(k)) }) || !p.value(new(json.RawMessage)) {
				return false
			}
		case seen&(1<<k) != 0 || !field(known[k]):
			return false
		default:
			seen |= 1 << k
		}
		if p.next('}') {
			return true
		}
		if !p.next(',') {
			return false
		}
	}
}

// find returns the index of name, or -1.
func find(known []string, name []byte) int {
	for k := range known {
		if string(name) == known[k] {
			return k
		}
	}
	return -1
}

// name reads the name of a field, and the colon.
func (p *parser) name() (name []byte, ok bool) {
	ok = p.plain(&name) && p.next(':')
	return name, ok
}

// array reads an array; element reads an element.
func (p *parser) array(element func() bool) bool {
	if !p.next('[') {
		return false
	}
	if p.next(']') {
		return true
	}
	for element() {
		if p.next(']') {
			return true
		}
		if !p.next(',') {
			return false
		}
	}
	return false
}

// next takes the byte, if it comes next but for white space.
func (p *parser) next(c byte) bool {
	p.i = jsonscan.Space(p.b, p.i)
	if p.i >= len(p.b) || p.b[p.i] != c {
		return false
	}
	p.i++
	return true
}

// end reports whether nothing is left.
func (p *parser) end() bool { return jsonscan.Space(p.b, p.i) == len(p.b) }

// value reads any value, as it is written.
func (p *parser) value(into *json.RawMessage) bool {
	begin := jsonscan.Space(p.b, p.i)
	end, ascii := jsonscan.Value(p.b, begin)
	if end < 0 {
		return false
	}
	p.i, p.ascii = end, ascii
	*into = p.b[begin:end:end]
	return true
}

// other reads a value of a result that package jsonscan is not sure of.
func (p *parser) other(r *wire.ResultFrame) bool {
	begin := jsonscan.Space(p.b, p.i)
	end := jsonscan.Loosely(p.b, begin)
	if end <= begin {
		return false
	}
	p.i = end
	r.Value = p.b[begin:end:end]
	r.NotJSON = !json.Valid(r.Value)
	return true
}

// json has encoding/json read the value.
func (p *parser) json(into any) bool {
	var value json.RawMessage
	return p.value(&value) && json.Unmarshal(value, into) == nil
}

// plain reads a string of ASCII without escapes.
func (p *parser) plain(into *[]byte) bool {
	if !p.next('"') {
		return false
	}
	for begin := p.i; p.i < len(p.b); p.i++ {
		switch c := p.b[p.i]; {
		case c == '"':
			*into = p.b[begin:p.i]
			p.i++
			return true
		case c < ' ' || c == '\\' || c >= 0x80:
			return false
		}
	}
	return false
}

func (p *parser) text(into *string) bool {
	var text []byte
	ok := p.plain(&text)
	*into = string(text)
	return ok
}

func (p *parser) integer(into *int64) bool {
	var value json.RawMessage
	if !p.value(&value) {
		return false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	*into = n
	return err == nil
}

func (p *parser) boolean(into *bool) bool {
	var value json.RawMessage
	if !p.value(&value) {
		return false
	}
	*into = string(value) == "true"
	return *into || string(value) == "false"
}
