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
	parts []command.Part
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
	var values []string
	var failed error
	marked := variable.ReplaceAllStringFunc(strings.TrimSpace(value), func(found string) string {
		replaced := "$"
		if found != "$$" {
			var err error
			replaced, err = lookUp(strings.Trim(found, "${}"), env)
			failed = errors.Join(failed, err)
			secrets.add(replaced)
		}
		values = append(values, replaced)
		return fmt.Sprintf("\x00%d\x00", len(values)-1) // which no header has
	})
	if failed != nil {
		return nil, fmt.Errorf("header %s: %w", h.name, failed)
	}
	parsed, err := command.ParseText(marked)
	if err != nil { // which may quote a key
		return nil, fmt.Errorf("header %s has a brace that is no placeholder's: for a brace write {{ or }}", h.name)
	}
	for _, part := range parsed.Parts {
		for i, v := range values {
			part.Text = strings.ReplaceAll(part.Text, fmt.Sprintf("\x00%d\x00", i), v)
		}
		h.parts = append(h.parts, part)
		if slices.Contains(secretHeaders, h.name) {
			secrets.addCredential(part.Text)
		}
	}
	return h, nil
}

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
	for _, part := range h.parts {
		b.WriteString(part.Text)
		if part.Value == nil {
			continue
		}
		value, err := part.Value.Text(item)
		if err == nil {
			err = plainHeader(value)
		}
		if err != nil {
			return "", valueError(part.Value, err)
		}
		b.WriteString(value)
	}
	return b.String(), nil
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
