package records

import (
	"bytes"

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
	switch {
	case JSONLines(s):
		if err := checkJSON(it.Raw); err != nil {
			return dst, err
		}
		return append(dst, bytes.TrimRight(it.Raw, " \t\r")...), nil
	case TextLines(s):
		dst = append(dst, '"')
		return append(appendEscaped(dst, trimCR(it.Raw)), '"'), nil
	default:
		return formatOf(s.Format).appendJSON(s, dst, it.Raw)
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
	if !JSONLines(s) {
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
