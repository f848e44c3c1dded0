package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/stint-run/stint/internal/jsonscan"
	"github.com/stint-run/stint/internal/text"
	"github.com/stint-run/stint/internal/wire"
)

const notUTF8 = "is not valid UTF-8 at byte %d"

// AppendJSON appends the item to dst as one JSON value, without a newline: of jsonl the bytes
// themselves but for white space at the end; of json likewise, and compact if they have line ends; of text a string, without the '\r' of a line end; of
// CSV an object of strings, keyed by the header and in its order, with the bytes of each field as
// they are between its quotes (line ends too). Nothing is escaped for HTML.
//
// It returns dst as it was and an *InvalidError if the item has an Err, is not UTF-8, is not JSON,
// or does not have the header's number of well-quoted fields.
func AppendJSON(s *wire.Shape, dst []byte, it *Item) ([]byte, error) {
	if it.Err != nil {
		return dst, it.Err
	}
	if at := firstNonUTF8(it.Raw); at >= 0 {
		return dst, invalid(notUTF8, at)
	}
	switch s.Format {
	case CSV:
		return appendRecord(s, dst, it.Raw)
	case JSONL:
		if err := checkJSON(it.Raw); err != nil {
			return dst, err
		}
		return append(dst, bytes.TrimRight(it.Raw, " \t\r")...), nil
	case JSON:
		if err := checkJSON(it.Raw); err != nil {
			return dst, err
		}
		if bytes.IndexByte(it.Raw, '\n') < 0 && bytes.IndexByte(it.Raw, '\r') < 0 {
			return append(dst, it.Raw...), nil
		}
		line := bytes.NewBuffer(dst)
		_ = json.Compact(line, it.Raw) // it is valid
		return line.Bytes(), nil
	default:
		dst = append(dst, '"')
		return append(appendEscaped(dst, trimCR(it.Raw)), '"'), nil
	}
}

// AppendLine appends the item to dst as the line a filter is given, without the '\n': of text the
// bytes as they are, whatever they are; of jsonl likewise, once they are known to be valid JSON; of
// CSV the object of AppendJSON, and of json its value. It returns dst as it was and an *InvalidError in the cases where
// AppendJSON does, except that text need not be UTF-8.
func AppendLine(s *wire.Shape, dst []byte, it *Item) ([]byte, error) {
	if !Lines(s) {
		return AppendJSON(s, dst, it)
	}
	if err := CheckLine(s, it); err != nil {
		return dst, err
	}
	return append(dst, it.Raw...), nil
}

// CheckLine returns the *InvalidError that AppendLine would return for a jsonl or text item. If it is
// nil the line is it.Raw itself, for those who need no copy.
func CheckLine(s *wire.Shape, it *Item) error {
	if it.Err != nil {
		return it.Err
	}
	if s.Format != JSONL {
		return nil
	}
	sure, ascii := surelyJSON(it.Raw)
	if !ascii {
		if at := firstNonUTF8(it.Raw); at >= 0 {
			return invalid(notUTF8, at)
		}
	}
	if sure {
		return nil
	}
	return checkJSON(it.Raw)
}

// AppendHeader appends the header of a CSV source with these columns, with its line end.
func AppendHeader(s *wire.Shape, dst []byte) []byte {
	for i, name := range s.Columns {
		if i > 0 {
			dst = append(dst, delimiterOf(s))
		}
		if quoting(s) {
			name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
		dst = append(dst, name...)
	}
	return append(dst, '\n')
}

// appendRecord appends a CSV record, which is valid UTF-8, as a JSON object.
func appendRecord(s *wire.Shape, dst, rec []byte) ([]byte, error) {
	out, delimiter, quoting := append(dst, '{'), delimiterOf(s), quoting(s)
	for n := 0; ; n++ {
		f, rest, more, fault := cutField(rec, delimiter, quoting)
		if fault != "" {
			return dst, invalid(string(fault), n+1)
		}
		if n < len(s.Columns) {
			if n > 0 {
				out = append(out, ',')
			}
			out = append(out, '"')
			out = appendEscaped(out, s.Columns[n])
			out = append(out, '"', ':')
			out = f.appendJSON(out)
		}
		if more {
			rec = rest
			continue
		}
		if n == 0 && len(s.Columns) != 1 {
			return dst, invalid("has 1 field, the header has %d", len(s.Columns))
		}
		if n+1 != len(s.Columns) {
			return dst, invalid("has %d fields, the header has %d", n+1, len(s.Columns))
		}
		return append(out, '}'), nil
	}
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
