package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/internal/wire"
)

// JSONL has one JSON value a line.
const JSONL wire.Format = "jsonl"

var jsonlFormat = format{
	name:  JSONL,
	guess: nameJSONL, look: lookAt, hint: hintOfReturns,
}

// CheckNesting returns an *InvalidError if a JSON value is nested deeper than [jsonscan.MaxNesting].
func CheckNesting(value []byte) error {
	if jsonscan.TooDeep(value) {
		return invalid("is nested deeper than %s", text.Thousands(jsonscan.MaxNesting))
	}
	return nil
}

// checkJSON returns an *InvalidError unless raw is one JSON value.
func checkJSON(raw []byte) error {
	if validJSON(raw) {
		return CheckNesting(raw)
	}
	var value json.RawMessage
	err := json.Unmarshal(raw, &value)
	hint := ""
	if first := bytes.TrimSpace(raw); len(first) == 1 && (first[0] == '[' || first[0] == '{') {
		hint = ` (a document of several lines is not jsonl: use --format json)`
	}
	if hint == "" && strings.Contains(err.Error(), "after top-level value") {
		hint = ` (several values on a line are not jsonl: use --format json)`
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return invalid("is not JSON: %s, at byte %d%s", syntax, max(syntax.Offset-1, 0), hint)
	}
	return invalid("is not JSON: %v%s", err, hint)
}
