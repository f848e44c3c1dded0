package records

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/stint-run/stint/internal/base/jsonscan"
	"github.com/stint-run/stint/internal/wire"
)

const notUTF8 = "is not valid UTF-8 at byte %d"

// AppendJSON appends the item to dst as one JSON value, without a newline: of jsonl the bytes themselves but for white
// space at the end; of json likewise, and compact if they have line ends; of text a string, without the '\r' of a line
// end; of CSV an object of strings, keyed by the header and in its order, with the bytes of each field as they are
// between its quotes (line ends too). Nothing is escaped for HTML.
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

// plain marks the bytes that need no escape in a JSON string. 0xE2 does too, unless it
// begins one of the two separators that appendEscaped looks for.
var plain = func() (table [256]bool) {
	for b := range table {
		table[b] = b >= ' ' && b != '"' && b != '\\' && b != 0xE2
	}
	return table
}()

// appendEscaped appends s, which is valid UTF-8, as the inside of a JSON string. It escapes what
// JSON asks for, and the line separators U+2028 and U+2029, at which some readers of lines break;
// characters with a meaning in HTML stay as they are.
func appendEscaped[S []byte | string](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	begin := 0
	for i := 0; i < len(s); i++ {
		b := s[i]
		if plain[b] {
			continue
		}
		if b == 0xE2 {
			if s[i+1] != 0x80 || s[i+2]&^1 != 0xA8 {
				continue
			}
			dst = append(dst, s[begin:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hex[s[i+2]&0xF])
			i += 2
			begin = i + 1
			continue
		}
		dst = append(dst, s[begin:i]...)
		begin = i + 1
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[b>>4], hex[b&0xF])
		}
	}
	return append(dst, s[begin:]...)
}

// firstNonUTF8 returns the index of the first byte that is not UTF-8, or -1.
func firstNonUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

// validJSON is json.Valid, six times as fast for usual items.
//
// A filter's items need no more than this check, so it decides how fast they pass; the libraries
// that check without building values take half as long again (see docs/decisions). What
// surelyJSON accepts is valid; everything else encoding/json decides.
func validJSON(raw []byte) bool {
	sure, _ := surelyJSON(raw)
	return sure || json.Valid(raw)
}

// surelyJSON reports whether b is one JSON value, as far as package jsonscan is sure of it, and
// then, whether it is known to be ASCII. It may be unsure of valid JSON.
func surelyJSON(b []byte) (sure, ascii bool) {
	end, ascii := jsonscan.Value(b, jsonscan.Space(b, 0))
	sure = end >= 0 && jsonscan.Space(b, end) == len(b)
	return sure, sure && ascii
}
