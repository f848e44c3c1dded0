package remote

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/run/command"
)

// headerTemplate is a header with placeholders.
type headerTemplate struct {
	name  string // canonical
	parts []headerPart
}

// headerPart is a text, a value of an item, or the text of a variable.
type headerPart struct {
	command.Part
	variable string // its name
}

// reserved are headers that the connection needs, that choose the host, or that change how an answer must be read.
var reserved = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Expect",
	"Accept-Encoding", "Proxy-Connection",
}

// secretHeaders have values that are secrets, wherever these come from.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie"}

var (
	variable   = regexp.MustCompile(`\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// parseHeader returns the template of a header, given as "Name: value". Variables are replaced; their values become
// secrets.
func parseHeader(line string, env func(string) (string, bool), secrets *redactor) (*headerTemplate, error) {
	name, value, ok := strings.Cut(line, ":")
	if name = strings.TrimSpace(name); !ok || !headerName.MatchString(name) {
		return nil, errors.New("invalid header: use \"Name: value\"") // not the line: it may hold a key
	}
	h := &headerTemplate{name: http.CanonicalHeaderKey(name)}
	if slices.Contains(reserved, h.name) {
		return nil, fmt.Errorf("header %s cannot be set", h.name)
	}
	if err := plainHeader(strings.TrimSpace(value)); err != nil {
		return nil, fmt.Errorf("header %s: %w", h.name, err)
	}
	var variables []headerPart
	var failed error
	marked := variable.ReplaceAllStringFunc(strings.TrimSpace(value), func(found string) string {
		v := headerPart{Part: command.Part{Text: "$"}}
		if found != "$$" {
			var err error
			v.variable = strings.Trim(found, "${}")
			v.Text, err = lookUp(v.variable, env)
			failed = errors.Join(failed, err)
			secrets.add(v.Text)
		}
		variables = append(variables, v)
		return variableMark
	})
	if failed != nil {
		return nil, fmt.Errorf("header %s: %w", h.name, failed)
	}
	parsed, err := command.ParseText(marked)
	if err != nil { // which may quote a key
		return nil, fmt.Errorf("header %s has a brace that is no placeholder's: for a brace write {{ or }}", h.name)
	}
	for _, part := range parsed.Parts {
		credential := ""
		for i, text := range strings.Split(part.Text, variableMark) {
			if i > 0 {
				h.parts = append(h.parts, variables[0])
				credential += variables[0].Text
				variables = variables[1:]
			}
			h.parts = append(h.parts, headerPart{Part: command.Part{Text: text}})
			credential += text
		}
		h.parts[len(h.parts)-1].Value = part.Value
		if slices.Contains(secretHeaders, h.name) {
			secrets.addCredential(credential)
		}
	}
	return h, nil
}

// variableMark stands for the next variable while a header is parsed; no header has it.
const variableMark = "\x00"

// lookUp returns the value of a variable.
func lookUp(name string, env func(string) (string, bool)) (string, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	value, ok := env(name)
	value = strings.TrimSpace(value)
	switch {
	case !ok:
		return "", fmt.Errorf("the worker's environment has no %s: set it where the worker is started", name)
	case value == "":
		return "", fmt.Errorf("%s is empty in the worker's environment", name)
	}
	if err := plainHeader(value); err != nil {
		return "", fmt.Errorf("variable %s: %w", name, err)
	}
	return value, nil
}

// of returns the header's value for an item. The error is the item's.
func (h *headerTemplate) of(item *command.Item) (string, error) {
	var b strings.Builder
	err := h.each(item, func(text, _ string) { b.WriteString(text) })
	return b.String(), err
}

// each passes the texts of which the header's value for an item consists to take, one after the other; variable is the
// name of the one that a text comes from. The error is the item's.
func (h *headerTemplate) each(item *command.Item, take func(text, variable string)) error {
	for _, part := range h.parts {
		take(part.Text, part.variable)
		if part.Value == nil {
			continue
		}
		value, err := part.Value.Text(item)
		if err == nil {
			err = plainHeader(value)
		}
		if err != nil {
			return valueError(part.Value, err)
		}
		take(value, "")
	}
	return nil
}

// hasValue reports whether the header has a placeholder.
func (h *headerTemplate) hasValue() bool {
	return slices.ContainsFunc(h.parts, func(p headerPart) bool { return p.Value != nil })
}

// hasVariable reports whether the header has a variable.
func (h *headerTemplate) hasVariable() bool {
	return slices.ContainsFunc(h.parts, func(p headerPart) bool { return p.variable != "" })
}

// plainHeader returns why a value cannot be in a header.
func plainHeader(value string) error {
	at := strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
	switch {
	case at < 0:
		return nil
	case value[at] == '\r' || value[at] == '\n':
		return errors.New("a header cannot have the end of a line")
	}
	return errors.New("a header cannot have control characters")
}
