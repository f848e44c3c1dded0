package records

import (
	"strings"

	"github.com/stint-run/stint/internal/wire"
)

// reference finds the items of a whole input in the plainest way, byte by byte, as the package
// comment has it. It returns also where they end, and what is wrong with what follows there.
func reference(data string, s wire.Shape) (items []Item, end int, err error) {
	if s.Format == JSON {
		return referenceValues(data, s)
	}
	return referenceLines(data, s), len(data), nil
}

func referenceLines(data string, s wire.Shape) []Item {
	limit := maxItemOf(&s)
	var items []Item
	blanks := " \t\r"
	if s.Format == CSV {
		blanks = strings.ReplaceAll(blanks, string(delimiterOf(&s)), "")
	}
	terminator, blank := "\n", s.Format == Text
	if s.Format == Text0 {
		terminator, blank = "\x00", true
	}
	for at := 0; at < len(data); {
		line, _, _ := strings.Cut(data[at:], terminator)
		if !blank && strings.Trim(line, blanks) == "" {
			at += len(line) + 1
			continue
		}
		size, complete := len(line), true
		if s.Format == CSV && quoting(&s) {
			if size, complete = referenceRecord(data[at:], delimiterOf(&s), limit); !complete {
				size = len(line)
			}
		}
		it := Item{Offset: int64(at), Size: int64(size), Raw: []byte(data[at : at+size])}
		if s.Format == CSV {
			it.Raw = []byte(strings.TrimSuffix(string(it.Raw), "\r"))
		}
		if size > limit {
			it.Raw = nil
			it.Err = invalid("is %d bytes long, over the limit of %d bytes (max-item)", size, limit)
		} else if !complete {
			it.Err = invalid("has a quoted field that is not closed, "+
				"at least not within the limit of %d bytes (max-item)", limit)
		}
		items = append(items, it)
		at += size + 1
	}
	return items
}

// referenceRecord returns the size of the CSV record that data begins with, unless it is not
// complete within limit bytes.
func referenceRecord(data string, delimiter byte, limit int) (size int, complete bool) {
	quoted := false
	for i := 0; i < len(data) && i <= limit; i++ {
		switch {
		case quoted && data[i] == '"' && i+1 < len(data) && data[i+1] == '"':
			i++
		case quoted && data[i] == '"':
			quoted = false
		case quoted:
		case data[i] == '\n':
			return i, true
		case data[i] == '"' && (i == 0 || data[i-1] == delimiter):
			quoted = true
		}
	}
	return len(data), !quoted && len(data) <= limit
}

var noValue = invalid("is missing: there is a comma in the array, and no value behind it")

// referenceValues finds JSON values.
func referenceValues(data string, s wire.Shape) (items []Item, end int, err error) {
	const spaces = " \t\r\n"
	for at := 0; ; {
		at += len(data[at:]) - len(strings.TrimLeft(data[at:], spaces))
		if at == len(data) {
			return items, at, nil
		}
		comma := s.Array && data[at] == ','
		if comma {
			at++
			if at += len(data[at:]) - len(strings.TrimLeft(data[at:], spaces)); at == len(data) {
				return append(items, Item{Offset: int64(at), Err: noValue, Bare: true}), at, nil
			}
		}
		if s.Array && data[at] == ']' && !comma {
			if rest := strings.TrimLeft(data[at+1:], spaces); rest != "" {
				err = &ArrayError{Offset: int64(len(data) - len(rest)), Reason: "something follows the end of the array"}
			}
			return items, at + 1, err
		}
		size := referenceValue(data[at:], s.Array)
		value := strings.TrimRight(data[at:at+size], spaces)
		it := Item{Offset: int64(at), Size: int64(len(value)), Raw: []byte(value), Bare: true}
		switch {
		case size > maxItemOf(&s):
			it.Raw, it.Size = nil, int64(size)
			it.Err = invalid("is %d bytes long, over the limit of %d bytes (max-item)", size, maxItemOf(&s))
		case size == 0:
			it.Raw = nil
			it.Err = noValue
		}
		items = append(items, it)
		at += size
	}
}

// referenceValue returns the size of the value that data begins with, with the white space behind it if it is an
// element of an array.
func referenceValue(data string, array bool) int {
	if !array && !strings.ContainsRune("[{\"", rune(data[0])) {
		if n := strings.IndexAny(data[1:], " \t\r\n,{[\""); n >= 0 {
			return n + 1
		}
		return len(data)
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case array && depth == 0 && (c == ',' || c == ']'):
			return i
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		}
		if !array && depth == 0 && !quoted {
			return min(i+1, len(data))
		}
	}
	return len(data)
}
