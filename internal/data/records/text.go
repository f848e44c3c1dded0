package records

import (
	"bytes"
	"encoding/json"

	"github.com/stint-run/stint/internal/wire"
)

// Text has one item a line, also a blank one.
const Text wire.Format = "text"

var textFormat = format{
	name: Text,
	scan: func(_ wire.Shape, scan *scanner) { scan.blanks = true },
	hint: func(s *wire.Shape, head []byte) string {
		if hint := hintOfReturns(s, head); hint != "" {
			return hint
		}
		return documents(bytes.TrimLeft(head, " \t\r\n"))
	},
}

// documents returns a sentence about a text that begins as JSON documents do whose values are no lines; empty: it does
// not.
func documents(text []byte) string {
	const choose = ", and each of its lines is an item: choose --format json if its values are meant"
	line, more, several := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0 || line[0] != '{' && line[0] != '[':
		return ""
	case len(line) == 1 && several && len(bytes.TrimSpace(more)) > 0:
		return "begins as a JSON document of several lines does" + choose
	}
	values := json.NewDecoder(bytes.NewReader(line))
	var first json.RawMessage
	if values.Decode(&first) != nil {
		return ""
	}
	if next := bytes.TrimSpace(line[values.InputOffset():]); len(next) > 0 && (next[0] == '{' || next[0] == '[') {
		return "begins with several JSON values on a line" + choose
	}
	return ""
}
