package records

import (
	"bytes"
	"fmt"
	"io"
)

// ArrayError says why bytes are not one JSON array.
type ArrayError struct {
	Offset int64  // from the beginning of what is read, in bytes
	Reason string // what is there
}

// Error says what is wrong and where.
func (e *ArrayError) Error() string { return fmt.Sprintf("at byte %d, %s", e.Offset, e.Reason) }

// nextValue finds the next JSON value: in an array the next element.
func (s *scanner) nextValue() error {
	if s.ended != nil {
		return s.ended
	}
	c, err := s.nextSolid()
	if err != nil {
		return err
	}
	s.start, s.size, s.at, s.fault = s.offset(), 0, s.pos, faultless
	if s.array {
		comma := c == ','
		if comma {
			s.pos++
			if c, err = s.nextSolid(); err != nil && err != io.EOF {
				return err
			}
			s.start, s.at = s.offset(), s.pos
		}
		switch {
		case comma && (err == io.EOF || c == ',' || c == ']'):
			s.fault = missing
			return nil
		case c == ']':
			s.ended = s.close()
			return s.ended
		}
	}
	return s.takeValue()
}

// nextSolid passes over white space, and returns the byte behind it, which it leaves there.
func (s *scanner) nextSolid() (byte, error) {
	for {
		for ; s.pos < s.end; s.pos++ {
			if c := s.buf[s.pos]; !isSpace(c) {
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// close passes over the array's closing bracket, and returns io.EOF if nothing follows it.
func (s *scanner) close() error {
	s.pos++
	s.closed = true
	if _, err := s.nextSolid(); err != nil {
		return err
	}
	return &ArrayError{Offset: s.offset(), Reason: "something follows the end of the array"}
}

// takeValue passes over the value at pos, which ends where its form says, or the stream ends.
func (s *scanner) takeValue() error {
	v := value{array: s.array}
	for looked := 0; ; {
		n, ended := v.find(s.buf[s.pos+looked : s.end])
		if looked += n; looked > s.max {
			s.pos += looked
			return s.skipValue(&v, ended)
		}
		if !ended {
			if err := s.fill(); err == nil {
				continue
			} else if err != io.EOF {
				return err
			}
		}
		s.at = s.pos // filling may have moved it
		s.size = int64(len(trimSpace(s.buf[s.pos : s.pos+looked])))
		s.pos += looked
		return nil
	}
}

// skipValue passes over the rest of a value that is too long.
func (s *scanner) skipValue(v *value, ended bool) error {
	s.fault = tooLong
	for !ended {
		if err := s.fill(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		var n int
		n, ended = v.find(s.buf[s.pos:s.end])
		s.pos += n
	}
	s.size = s.offset() - s.start
	return nil
}

// value is a search for the end of a JSON value, valid or not, in bytes that come in pieces. It only counts brackets,
// outside strings: so a fault in one value does not reach the next one, unless it is a bracket or a quote too few.
type value struct {
	array   bool // the value is an element of an array: it ends before the comma or the bracket behind it
	begun   bool
	bare    bool // neither bracket nor quote begins it
	quoted  bool // in a string
	escaped bool // behind its backslash
	depth   int
}

// find continues the search in b. It returns how many of its bytes belong to the value, and whether the value ends
// there.
func (v *value) find(b []byte) (n int, ended bool) {
	for n < len(b) {
		if v.quoted {
			n += v.string(b[n:])
			if !v.quoted && v.depth == 0 && !v.array {
				return n, true
			}
			continue
		}
		c := b[n]
		first := !v.begun
		v.begun = true
		switch {
		case v.array && v.depth == 0 && (c == ',' || c == ']'):
			return n, true
		case v.bare:
			if endsBare(c) {
				return n, true
			}
		case c == '"':
			v.quoted = true
		case c == '{' || c == '[':
			v.depth++
		case (c == '}' || c == ']') && v.depth > 0:
			v.depth--
			if v.depth == 0 && !v.array {
				return n + 1, true
			}
		case first && !v.array:
			v.bare = true
		default:
			n += plainLength(b[n:])
			continue
		}
		n++
	}
	return n, false
}

// string passes over bytes in a string, up to behind the quote that closes it.
func (v *value) string(b []byte) (n int) {
	for n < len(b) {
		switch {
		case v.escaped:
			v.escaped = false
		case b[n] == '\\':
			v.escaped = true
		case b[n] == '"':
			v.quoted = false
			return n + 1
		}
		n++
	}
	return n
}

// plainLength returns how many bytes b, which are at least one, has before the next that means something.
func plainLength(b []byte) (n int) {
	for n = 1; n < len(b); n++ {
		switch b[n] {
		case '"', '{', '}', '[', ']', ',':
			return n
		}
	}
	return n
}

// endsBare reports whether a number, or a word, ends before c.
func endsBare(c byte) bool { return isSpace(c) || c == ',' || c == '{' || c == '[' || c == '"' }

// isSpace reports whether c is white space in JSON.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func trimSpace(b []byte) []byte { return bytes.TrimRight(b, " \t\r\n") }
