package records

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// lookAt finds out whether a source, of which offset bytes are passed over, is lines, JSON values or one array, and
// sets the shape, unless it is JSONL by choice. It returns the offset at which the first item may begin. The first line
// that is not blank decides:
//
//   - It begins with '[', and that bracket is not closed on it: of JSON, and of a file named .json, an array. Of one
//     named .jsonl only if the line ends as the first one of a document does: with '[', '{' or a comma.
//   - It begins with '[', which is closed on it: of JSON and .json an array if nothing follows the bracket's end, and
//     otherwise what it would be without.
//   - It begins with '{', which is not closed on it, and ends as the first line of a document does: values.
//   - Otherwise JSON is values, and all else lines.
//
// So lines stay lines, even if each is an array, and a fault in the first line of a file does not make it a document. A
// line is followed for MaxItem bytes at most: one that is longer could not be an item.
func lookAt(s *wire.Shape, r io.Reader, offset int64, _ []byte) (int64, error) {
	lines := s.Format == JSONL
	if lines && s.Guess == "" { // it was chosen
		return offset, nil
	}
	l, err := readFirstLine(bufio.NewReaderSize(r, headWindow), maxItemOf(s))
	if err != nil {
		return 0, fmt.Errorf("reading head: %w", err)
	}
	document := !l.closed && l.open
	array := l.begins == '[' && (document || s.Guess != nameJSONL && (!l.closed || !l.more))
	s.Guess = ""
	switch {
	case array && l.comma:
		return 0, &ArrayError{Offset: offset + l.at, Reason: "the array begins with a comma"}
	case array:
		s.Format, s.Array = JSON, true
		return offset + l.at + 1, nil
	case lines && !(l.begins == '{' && document):
		s.Format = JSONL
	default:
		s.Format = JSON
	}
	return offset, nil
}

// firstLine is what the first line that is not blank looks like.
type firstLine struct {
	at     int64 // offset of its first byte that is not white space
	begins byte  // that byte; 0: there is no line
	comma  bool  // the next such byte is a comma
	closed bool  // the bracket that begins it is closed on it
	more   bool  // something follows that; not looked for behind an object
	open   bool  // it ends with '[', '{' or a comma
}

// readFirstLine reads the first line, and if that begins with a bracket which it closes, on to what follows. It follows
// the line for so many bytes.
func readFirstLine(r *bufio.Reader, longest int) (l firstLine, err error) {
	c, at, err := nextSolid(r)
	if l.begins, l.at = c, at; err != nil || c != '[' && c != '{' {
		return l, ignoreEOF(err)
	}
	var v value
	var last byte   // that is not white space
	inside := false // behind the bracket that begins the line
	for n := 0; n < longest; {
		if _, err := r.Peek(1); err != nil {
			return l, ignoreEOF(err)
		}
		part, _ := r.Peek(r.Buffered())
		part, _, over := bytes.Cut(part, []byte{'\n'})
		size, ended := v.find(part)
		solid := trimSpace(part[:size])
		if len(solid) > 0 {
			rest := solid
			if n == 0 {
				rest = bytes.TrimLeft(solid[1:], " \t\r")
			}
			if !inside && len(rest) > 0 {
				inside, l.comma = true, bytes.TrimLeft(rest, " \t\r")[0] == ','
			}
			last = solid[len(solid)-1]
		}
		n += size
		_, _ = r.Discard(size) // it is there
		if l.closed = ended; ended {
			if l.begins != '[' {
				return l, nil // what follows makes no difference, and may be long in coming
			}
			c, _, err = nextSolid(r)
			l.more = c != 0
			return l, ignoreEOF(err)
		}
		if over {
			l.open = !v.quoted && (last == '[' || last == '{' || last == ',')
			return l, nil
		}
	}
	return l, nil
}

// nextSolid passes over white space. It returns the byte behind it, which it leaves there, and how many bytes it has
// passed over; 0 at the end.
func nextSolid(r *bufio.Reader) (c byte, passed int64, err error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, passed, err
		}
		if !isSpace(c) {
			return c, passed, r.UnreadByte()
		}
		passed++
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
