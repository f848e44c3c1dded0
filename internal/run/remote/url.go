package remote

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/stint-run/stint/internal/run/command"
)

// urlTemplate is a URL with placeholders in its path and query.
type urlTemplate struct {
	origin string // scheme, host and port
	path   []command.Part
	query  []command.Part // with its ?
	fixed  *url.URL       // of a template without placeholders
}

// parseURL returns the template of a URL. The error names what stands where it cannot.
func parseURL(template string) (*urlTemplate, error) {
	parsed, err := command.ParseText(template)
	if err != nil {
		return nil, fmt.Errorf("URL: %w", err)
	}
	if len(parsed.Parts) == 0 || parsed.Parts[0].Value != nil {
		return nil, fmt.Errorf("URL %q: begin with http:// or https:// and a host: items do not choose them", template)
	}
	first := parsed.Parts[0].Text
	scheme, rest, ok := strings.Cut(first, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("URL %q: begin with http:// or https://", template)
	}
	end := strings.IndexAny(rest, `/?#\`)
	if end < 0 {
		if len(parsed.Parts) > 1 {
			return nil, fmt.Errorf("URL %q: %s stands in the host or port: items do not choose them", template,
				parsed.Parts[1].Value)
		}
		end = len(rest)
	}
	u := &urlTemplate{}
	if u.origin, err = Origin(scheme + "://" + rest[:end]); err != nil {
		return nil, fmt.Errorf("URL %q: %w", template, err)
	}
	parsed.Parts[0].Text = rest[end:]
	u.split(parsed.Parts)
	return u, u.check(template)
}

// split finds out which parts belong to the path, and which to the query.
func (u *urlTemplate) split(parts []command.Part) {
	for i, part := range parts {
		if at := strings.IndexByte(part.Text, '?'); part.Value == nil && at >= 0 {
			u.path = append(u.path, command.Part{Text: part.Text[:at]})
			u.query = append([]command.Part{{Text: part.Text[at:]}}, parts[i+1:]...)
			return
		}
		u.path = append(u.path, part)
	}
}

func (u *urlTemplate) check(template string) error {
	for _, part := range append(append([]command.Part{}, u.path...), u.query...) {
		if part.Value == nil && strings.ContainsAny(part.Text, "#\\") {
			return fmt.Errorf("URL %q: # and \\ have no place in it", template)
		}
	}
	sample := u.origin + sampleOf(u.path) + sampleOf(u.query)
	parsed, err := url.Parse(sample)
	if err != nil {
		return fmt.Errorf("URL %q: %w", template, bare(err))
	}
	if dotted(parsed.Path) {
		return fmt.Errorf("URL %q: the path has . or .. between slashes", template)
	}
	if !hasValue(u.path) && !hasValue(u.query) {
		u.fixed = parsed
	}
	return nil
}

func sampleOf(parts []command.Part) (sample string) {
	for _, part := range parts {
		if sample += part.Text; part.Value != nil {
			sample += "x"
		}
	}
	return sample
}

func hasValue(parts []command.Part) bool {
	for _, part := range parts {
		if part.Value != nil {
			return true
		}
	}
	return false
}

// of returns the URL of an item. The error is the item's.
func (u *urlTemplate) of(item *command.Item) (*url.URL, error) {
	if u.fixed != nil {
		return u.fixed, nil
	}
	var path, query strings.Builder
	for _, part := range u.path {
		path.WriteString(part.Text)
		if part.Value == nil {
			continue
		}
		value, err := part.Value.Text(item)
		if err == nil {
			err = inPath(value)
		}
		if err != nil {
			return nil, valueError(part.Value, err)
		}
		path.WriteString(percent(value))
	}
	for _, part := range u.query {
		query.WriteString(part.Text)
		if part.Value == nil {
			continue
		}
		value, err := part.Value.Text(item)
		if err != nil {
			return nil, err
		}
		query.WriteString(percent(value))
	}
	parsed, err := url.Parse(u.origin + path.String() + query.String())
	if err != nil {
		return nil, bare(err)
	}
	if dotted(parsed.Path) {
		return nil, errors.New("the path of the URL would have . or .. between slashes")
	}
	return parsed, nil
}

// inPath returns why a value cannot be in a path.
func inPath(value string) error {
	switch {
	case value == "":
		return errors.New("the value is empty, which a path of a URL cannot have")
	case strings.ContainsAny(value, `/\`):
		return errors.New("the value has a slash, which would change the URL's path: put it into the query or the body")
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("the value has a control character, which a path of a URL cannot have")
	}
	return nil
}

// dotted reports whether a path has a segment that leads elsewhere.
func dotted(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// percent encodes everything but letters, digits and - . _ ~.
func percent(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// bare returns the error of a URL without the URL.
func bare(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func valueError(p *command.Placeholder, err error) error {
	var already *command.ValueError
	if errors.As(err, &already) {
		return err
	}
	return &command.ValueError{Placeholder: p.String(), Reason: err.Error()}
}

// Origin returns the scheme, host and port of a URL as https://host:port, the port of the scheme left out. Path and
// query are ignored; a user name or a password is an error.
func Origin(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", bare(err)
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	switch {
	case scheme != "http" && scheme != "https":
		return "", errors.New("begin with http:// or https://")
	case host == "":
		return "", errors.New("no host given")
	case u.User != nil:
		return "", errors.New("a URL has no user name and password, as it is shown: use the header Authorization")
	case strings.HasSuffix(u.Host, ":") || port == map[string]string{"http": "80", "https": "443"}[scheme]:
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return scheme + "://" + host, nil
}

// String returns the template without its query, which may hold a key.
func (u *urlTemplate) String() string {
	text := u.origin
	for _, part := range u.path {
		if text += part.Text; part.Value != nil {
			text += part.Value.String()
		}
	}
	return text
}
