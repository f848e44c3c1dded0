package records

import (
	"bytes"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// fault is why a scanner's item is not one in its format.
type fault int

const (
	faultless fault = iota
	tooLong         // more than max bytes: not in memory
	openQuote       // a quoted field is not closed: cut as a single line
	missing         // an element of an array has no bytes
)

// scanner finds one item after the other in a stream that begins at an item boundary. The package
// comment gives the rules.
type scanner struct {
	window
	// What the format sets, with find.
	terminator byte // ends a line: what the comments call '\n'
	blanks     bool // a blank line is an item
	trims      bool // a '\r' before an item's '\n' is not of the item
	quoting    bool // fields of records may be quoted
	delimiter  byte // of records; 0: there are none
	array      bool // items are the elements of an array

	bare bool // find finds the items, and no '\n' belongs to one
	max  int  // size in bytes over which an item is invalid

	// The item at hand, valid until next is called again.
	start int64 // offset of its first byte
	size  int64 // bytes without its '\n'
	at    int   // where it lies in buf, if it is not too long
	fault fault

	blank int64 // blank lines passed over so far

	// How far the last search for the end of a CSV record got in vain; see record.
	tried     int64
	triedOpen bool

	find   func(*scanner) error // finds the next item; nil: it is a line, or a record
	closed bool                 // the array's closing bracket has been found
	ended  error                // what next returns from now on; nil: it looks for an item
}

// scanner makes a scanner of what comes through the window, which must be able to hold maxItem bytes and one more.
func newScanner(s *wire.Shape, w window, maxItem int) *scanner {
	scan := &scanner{window: w, max: maxItem, terminator: '\n'}
	if f := formatOf(s.Format); f.scan != nil {
		f.scan(*s, scan)
		scan.bare = scan.find != nil
	}
	return scan
}

// next finds the next item. It returns io.EOF when none is left, or the reader's error.
func (s *scanner) next() error {
	if s.bare {
		return s.find(s)
	}
	for {
		n := bytes.IndexByte(s.buf[s.pos:s.end], s.terminator)
		if n < 0 {
			var err error
			if n, err = s.readLine(); err != nil {
				return err
			}
		}
		if n > s.max {
			if blank, err := s.skipLine(); err != nil || !blank {
				return err
			}
			s.blank++
			continue
		}
		line := s.buf[s.pos : s.pos+n]
		if !s.blanks && (n == 0 || line[0] <= ' ' && isBlank(line, s.delimiter)) {
			s.blank++
			s.take(n)
			continue
		}
		s.fault = faultless
		if s.quoting && bytes.IndexByte(line, '"') >= 0 {
			var err error
			if n, err = s.record(n); err != nil {
				return err
			}
		}
		s.start, s.size, s.at = s.offset(), int64(n), s.pos
		s.take(n)
		return nil
	}
}

// readLine reads on until the line at pos is in memory, of which there is no '\n' yet. It returns
// the line's length, or one above max if that much shows first, or io.EOF if there is no line.
func (s *scanner) readLine() (int, error) {
	for {
		seen := s.unread()
		if seen > s.max {
			return seen, nil
		}
		if err := s.fill(); err == io.EOF && seen > 0 {
			return seen, nil
		} else if err != nil {
			return 0, err
		}
		if n := bytes.IndexByte(s.buf[s.pos+seen:s.end], s.terminator); n >= 0 {
			return seen + n, nil
		}
	}
}

// skipLine passes over the line at pos without holding it, and makes it the item at hand unless it
// is blank.
func (s *scanner) skipLine() (blank bool, err error) {
	s.start, s.size, s.fault = s.offset(), 0, tooLong
	blank = !s.blanks
	for {
		part := s.buf[s.pos:s.end]
		n := bytes.IndexByte(part, s.terminator)
		if n >= 0 {
			part = part[:n]
		}
		blank = blank && isBlank(part, s.delimiter)
		s.size += int64(len(part))
		s.take(len(part))
		if n >= 0 {
			return blank, nil
		}
		if err := s.fill(); err == io.EOF {
			return blank, nil
		} else if err != nil {
			return false, err
		}
	}
}

// raw returns the bytes of the item at hand, nil if it is too long. They are valid until next.
func (s *scanner) raw() []byte {
	if s.fault == tooLong {
		return nil
	}
	raw := s.buf[s.at : s.at+int(s.size)]
	if s.trims {
		raw = trimCR(raw)
	}
	return raw
}

// begins reports whether the item at hand, which is not too long, begins with a text.
func (s *scanner) begins(text string) bool {
	return s.size > 0 && s.fault != tooLong && s.buf[s.at] == text[0] && bytes.HasPrefix(s.buf[s.at:s.at+int(s.size)], []byte(text))
}

// isBlank reports whether the line has only spaces, tabs and carriage returns, and no delimiter.
func isBlank(line []byte, delimiter byte) bool {
	for _, b := range line {
		if b != ' ' && b != '\t' && b != '\r' || b == delimiter {
			return false
		}
	}
	return true
}

// trimCR takes off one carriage return at the end, which belongs to the line end.
func trimCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// windowSize is how many bytes a scanner reads at once unless an item needs more: large enough to
// make the cost of a read small, small enough to stay in a processor's cache.
const windowSize = 256 << 10

// maxEmptyReads is how many reads in a row may return neither bytes nor an error.
const maxEmptyReads = 100

// window is the part of a stream that is in memory. buf[pos:end] is read but not yet taken.
type window struct {
	r     io.Reader
	buf   []byte
	pos   int
	end   int
	base  int64 // offset in the stream of buf[0]
	limit int   // what buf may grow to; more than is ever left unread when fill is called
	err   error // what ended the stream, once all of it is read
	sums  *sums // of what is taken; nil: nobody wants one
}

// newWindow makes a window of size bytes that can hold `hold` unread bytes and read on.
func newWindow(r io.Reader, size, hold int) window {
	// The slack bounds how often a full window's bytes are moved: hold/slack times.
	slack := max(size, hold/4)
	return window{r: r, buf: make([]byte, size), limit: hold + slack}
}

// windowOn makes a window of bytes that are all in memory, which it does not change.
func windowOn(data []byte) window { return window{buf: data, end: len(data), err: io.EOF} }

// offset returns the offset in the stream of the first byte not yet taken.
func (w *window) offset() int64 { return w.base + int64(w.pos) }

// unread returns the number of bytes read but not yet taken.
func (w *window) unread() int { return w.end - w.pos }

// take passes over a line (or record) of n bytes and the '\n' behind it, if there is one.
func (w *window) take(n int) {
	w.pos += n
	if w.pos < w.end {
		w.pos++
	}
}

// fill reads at least one more byte behind the unread ones, which may move to another place in
// buf. It returns io.EOF or the reader's error when there are no more, and then always does.
func (w *window) fill() error {
	if w.err != nil {
		return w.err
	}
	if w.end == len(w.buf) {
		w.makeRoom()
	}
	for range maxEmptyReads {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		w.err = err
		if n > 0 {
			return nil // err shows at the next fill
		}
		if err != nil {
			return err
		}
	}
	w.err = io.ErrNoProgress
	return w.err
}

// makeRoom moves the unread bytes to the beginning of buf, or of a larger one if they fill more
// than half of it.
func (w *window) makeRoom() {
	buf := w.buf
	if w.unread() > len(buf)/2 && len(buf) < w.limit {
		buf = make([]byte, min(2*len(buf), w.limit))
	}
	if w.sums != nil {
		w.sums.pass(w.buf, w.pos)
	}
	n := copy(buf, w.buf[w.pos:w.end])
	w.base += int64(w.pos)
	w.buf, w.pos, w.end = buf, 0, n
}
