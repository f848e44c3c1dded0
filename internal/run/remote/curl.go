package remote

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/run/command"
)

// maxArgument is the most bytes of a body that curl gets as an argument.
const maxArgument = command.MaxWord

// Curl returns the request that [Endpoint.NewRequest] makes of items as a command for a POSIX shell, without the key that
// makes it idempotent. A variable stands there as $NAME, and … in place of any other secret. It is empty if no item is
// part of the request; of those that are not it returns the faults.
func (e *Endpoint) Curl(items []command.Item) (line string, faults []*Fault) {
	r := e.NewRequest(items)
	if r.Empty() {
		return "", r.faults
	}
	address := e.Redact(r.url.String())
	words := []string{"curl", "-X", e.method, singleQuoted(address)}
	if strings.ContainsAny(address, "[]{}") {
		words = append(words, "-g") // they are no patterns
	}
	if strings.Contains(address, "/.") {
		words = append(words, "--path-as-is")
	}
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		words = append(words, "-H", e.quotedHeader(name, r.header.Get(name), &items[0]))
	}
	body := singleQuoted(e.Redact(string(r.body)))
	switch {
	case len(body) > maxArgument:
		words = append([]string{"printf", "%s", body, "|"}, append(words, "--data-binary", "@-")...)
	case len(r.body) > 0:
		words = append(words, "--data-raw", body)
	}
	return strings.Join(words, " "), r.faults
}

// quotedHeader returns a header of an item's request, which has this value, as a word that a shell makes it of.
func (e *Endpoint) quotedHeader(name, value string, item *command.Item) string {
	i := slices.IndexFunc(e.headers, func(h *headerTemplate) bool { return h.name == name })
	switch {
	case value == "":
		return singleQuoted(name + ";") // which curl sends as a header without a value
	case i < 0 || !e.headers[i].hasVariable():
		return singleQuoted(name + ": " + e.Redact(value))
	}
	quoted, last := `"`+name+": ", ""
	_ = e.headers[i].each(item, func(text, variable string) { // an item that has a request has all values
		if variable != "" {
			quoted, last = quoted+"$"+variable, variable
			return
		}
		if last != "" && wordStart.MatchString(text) { // it would be part of the name
			quoted = strings.TrimSuffix(quoted, last) + "{" + last + "}"
		}
		quoted += doubleQuoted.Replace(e.Redact(text))
		if text != "" {
			last = ""
		}
	})
	return quoted + `"`
}

var wordStart = regexp.MustCompile(`^\w`)

// singleQuoted returns a word as any shell takes it, whatever it holds.
func singleQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// doubleQuoted quotes text for a place between double quotes.
var doubleQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`")
