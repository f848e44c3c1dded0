package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/run/command"
)

// body is the template of a request's body.
type body interface {
	// append adds the body of an item. The error is the item's.
	append(to []byte, item *command.Item) ([]byte, error)
}

// wholeBody is the item itself, as JSON.
type wholeBody struct{}

func (wholeBody) append(to []byte, item *command.Item) ([]byte, error) {
	if !item.JSON {
		return appendJSON(to, string(item.Data))
	}
	b := bytes.NewBuffer(to)
	if err := json.Compact(b, item.Data); err != nil {
		return nil, fmt.Errorf("the item is not JSON: %w", err)
	}
	if !utf8.Valid(item.Data) {
		return nil, errNotUTF8
	}
	return b.Bytes(), nil
}

var errNotUTF8 = errors.New("the item is not UTF-8, and cannot be in JSON")

// appendJSON adds a string.
func appendJSON(to []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	quoted, err := text.JSON(s)
	return append(to, quoted...), err
}

// jsonBody is JSON with placeholders.
type jsonBody []jsonPart

// jsonPart is either text or, if value is set, a placeholder.
type jsonPart struct {
	text   string
	value  *command.Placeholder
	quoted bool // it stands inside a string
}

// parseJSONBody returns a template that is JSON whatever the values are.
func parseJSONBody(template string) (jsonBody, error) {
	p := &bodyParser{rest: template}
	for p.rest != "" {
		if err := p.step(); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
	}
	p.flush()
	sample := ""
	for _, part := range p.parts {
		switch {
		case part.value == nil:
			sample += part.text
		case !part.quoted:
			sample += "null"
		}
	}
	if err := json.Unmarshal([]byte(sample), new(any)); err != nil {
		return nil, fmt.Errorf(`the body is not JSON: %w. Use a template such as {"t": "{name}", "n": {count}}`, err)
	}
	if !utf8.ValidString(sample) {
		return nil, errors.New("the body is not UTF-8")
	}
	return p.parts, nil
}

// bodyParser takes a template apart.
type bodyParser struct {
	rest    string
	literal strings.Builder
	quoted  bool
	parts   jsonBody
}

func (p *bodyParser) flush() {
	if p.literal.Len() > 0 {
		p.parts = append(p.parts, jsonPart{text: p.literal.String()})
		p.literal.Reset()
	}
}

// take moves n bytes to the text.
func (p *bodyParser) take(n int) {
	n = min(n, len(p.rest))
	p.literal.WriteString(p.rest[:n])
	p.rest = p.rest[n:]
}

func (p *bodyParser) step() error {
	switch c := p.rest[0]; {
	case c == '"':
		p.quoted = !p.quoted
		p.take(1)
	case p.quoted && c == '\\':
		p.take(2)
	case p.quoted && (strings.HasPrefix(p.rest, "{{") || strings.HasPrefix(p.rest, "}}")):
		p.rest = p.rest[1:]
		p.take(1)
	case p.quoted && c == '}':
		return fmt.Errorf("%q has no { before it: for a brace in a string write }}", text.Cut(p.rest, 40))
	case c == '{' && (p.quoted || opens(p.rest)):
		return p.placeholder()
	default:
		p.take(1)
	}
	return nil
}

// opens reports whether a brace outside of strings begins a placeholder, not an object.
func opens(rest string) bool {
	next := strings.TrimLeft(rest[1:], " \t\r\n")
	return next != "" && next[0] != '"' && (next[0] != '}' || len(next) == len(rest)-1)
}

func (p *bodyParser) placeholder() error {
	inside, rest, closed := strings.Cut(p.rest[1:], "}")
	if !closed {
		return fmt.Errorf("%q has no } behind it", text.Cut(p.rest, 40))
	}
	value, err := command.ParsePlaceholder(inside)
	if err != nil {
		return err
	}
	p.flush()
	p.parts = append(p.parts, jsonPart{value: value, quoted: p.quoted})
	p.rest = rest
	return nil
}

func (b jsonBody) append(to []byte, item *command.Item) ([]byte, error) {
	for _, part := range b {
		if part.value == nil {
			to = append(to, part.text...)
			continue
		}
		value, err := part.value.JSON(item)
		if err != nil {
			return nil, err
		}
		if to, err = appendValue(to, value, part.quoted); err != nil {
			return nil, fmt.Errorf("%s: %w", part.value, err)
		}
	}
	return to, nil
}

// appendValue adds a value in JSON, or what it is as the content of a string.
func appendValue(to []byte, value json.RawMessage, quoted bool) ([]byte, error) {
	if !utf8.Valid(value) {
		return nil, errNotUTF8
	}
	b := bytes.NewBuffer(nil)
	if err := json.Compact(b, value); err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	compact := b.Bytes()
	switch {
	case !quoted:
		return append(to, compact...), nil
	case string(compact) == "null":
		return nil, errors.New("the value is null")
	case compact[0] == '"': // with its own escapes
		return append(to, compact[1:len(compact)-1]...), nil
	}
	in, err := text.JSON(string(compact))
	if err != nil {
		return nil, err
	}
	return append(to, in[1:len(in)-1]...), nil
}

// formBody is a form: its values are percent-encoded.
type formBody struct{ text command.Text }

func (b formBody) append(to []byte, item *command.Item) ([]byte, error) {
	for _, part := range b.text.Parts {
		if part.Value == nil {
			to = append(to, part.Text...)
			continue
		}
		value, err := part.Value.Text(item)
		if err != nil {
			return nil, err
		}
		to = append(to, percent(value)...)
	}
	return to, nil
}
