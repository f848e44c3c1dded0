package records

import (
	"bytes"
	"hash/crc32"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// Cutter cuts a stream that begins at an item boundary into consecutive ranges of whole items. It
// is not safe for use by several goroutines at once.
//
// It holds 256 KiB of the stream, and of CSV up to about MaxItem if a quote is not closed.
type Cutter struct {
	scan *scanner
	end  int64 // offset where the last cut ends

	blank, taken int64 // blank lines up to there, and those that TakeBlank has returned
	marked       bool  // an item begins with a byte order mark
	sum          uint32
}

// Cut is one range: it begins where the one before it ends, the first one at the beginning of the
// stream.
type Cut struct {
	Length int64 // bytes: items, their line ends, and blank lines before and between them
	Count  int64 // items, at least 1
}

// NewCutter returns a Cutter of r, which it reads ahead of the cuts.
func NewCutter(r io.Reader, s wire.Shape) *Cutter {
	return newCutter(r, s, windowSize)
}

// NewSummingCutter returns a Cutter that has the sum of each cut.
func NewSummingCutter(r io.Reader, s wire.Shape) *Cutter {
	return newCutter(r, s, windowSize).summing()
}

func (c *Cutter) summing() *Cutter {
	c.scan.sums = &sums{}
	return c
}

// NewBytesCutter returns a Cutter of data, a stream that is in memory. It costs little more than its items, which
// counts if there are millions of small streams. data must not change meanwhile.
func NewBytesCutter(data []byte, s wire.Shape) *Cutter {
	return &Cutter{scan: newScanner(&s, windowOn(data), maxItemOf(&s))}
}

func newCutter(r io.Reader, s wire.Shape, window int) *Cutter {
	hold := maxItemOf(&s)
	if !formatOf(s.Format).limited { // no item need be held as a whole
		hold = min(hold, window/2)
	}
	return &Cutter{scan: newScanner(&s, newWindow(r, window, hold+1), hold)}
}

// Next takes items until there are maxItems in the cut, or the cut has reached maxBytes bytes,
// whichever is first, but always at least one. A cut ends right behind an item's line end, or before what
// follows a JSON value. Blank lines, and the comma between two elements of an array, belong to the cut of the item
// that follows them; blank lines at the end of the stream, and what closes an array, belong to
// no cut, and a Reader whose range has them finds no item in them.
//
// It returns io.EOF when no item is left, and otherwise the reader's error or an *ArrayError, once the items before it
// are in a cut. Either is returned again by every later call.
func (c *Cutter) Next(maxItems, maxBytes int64) (Cut, error) {
	var cut Cut
	for {
		c.passLines(&cut, maxItems, maxBytes)
		if cut.Count > 0 && (cut.Count >= maxItems || cut.Length >= maxBytes) {
			break
		}
		if err := c.scan.next(); err != nil && cut.Count == 0 {
			if err == io.EOF {
				c.blank = c.scan.blank
			}
			return Cut{}, err
		} else if err != nil {
			break
		}
		c.marked = c.marked || c.scan.begins(mark)
		c.extend(&cut, 1)
		if cut.Count >= maxItems || cut.Length >= maxBytes {
			break
		}
	}
	c.end += cut.Length
	if c.scan.sums != nil {
		c.sum = c.scan.sums.take(c.scan.buf)
	}
	return cut, nil
}

// extend has the cut end where the scanner is, so many items further.
func (c *Cutter) extend(cut *Cut, items int64) {
	cut.Count += items
	cut.Length = c.scan.offset() - c.end
	c.blank = c.scan.blank
	if c.scan.sums != nil {
		c.scan.sums.mark = c.scan.pos
	}
}

// passLines takes items into the cut without a look at all of each: lines that are in memory with their ends, up to the
// one with which the cut is full, or before it. It takes none if an item may be something else than a line.
func (c *Cutter) passLines(cut *Cut, maxItems, maxBytes int64) {
	s := c.scan
	room, want := maxBytes-cut.Length, maxItems-cut.Count
	if s.bare || s.quoting || s.terminator != '\n' || room <= 0 || want <= 0 {
		return
	}
	lines := s.buf[s.pos:s.end]
	lines = lines[:min(int64(len(lines)), room-1)] // the line with which the cut has maxBytes is not among them
	count := countLines
	if !s.blanks {
		count = countFilled
	}
	n, length := count(lines, want)
	if n == 0 {
		return
	}
	c.marked = c.marked || hasMark(lines[:length])
	s.pos += length
	c.extend(cut, n)
}

// countLines returns how many lines text begins with, at most so many, and their length with their ends.
func countLines(text []byte, most int64) (n int64, length int) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if n = int64(bytes.Count(text, newline)); n > most {
		return most, BehindLines(text, int(most))
	}
	return n, len(text)
}

// countFilled is countLines up to a line that may be blank.
func countFilled(text []byte, most int64) (n int64, length int) {
	for n < most {
		line := bytes.IndexByte(text[length:], '\n')
		if line < 0 || text[length] <= ' ' {
			break
		}
		n, length = n+1, length+line+1
	}
	return n, length
}

var newline = []byte{'\n'}

// BehindLines returns where the n-th line of text ends, with its end; text has as many.
func BehindLines(text []byte, n int) int {
	const block = 4 << 10 // is counted faster than looked through
	at := 0
	for {
		part := text[at:min(at+block, len(text))]
		count := bytes.Count(part, newline)
		if count >= n {
			break
		}
		at, n = at+len(part), n-count
	}
	for ; n > 0; n-- {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	return at
}

// hasMark reports whether one of the lines begins with a byte order mark.
func hasMark(lines []byte) bool {
	for at := 0; ; at++ {
		n := bytes.IndexByte(lines[at:], mark[0])
		if n < 0 {
			return false
		}
		at += n
		if (at == 0 || lines[at-1] == '\n') && bytes.HasPrefix(lines[at:], []byte(mark)) {
			return true
		}
	}
}

// Sum returns the CRC-32C of the bytes of the last cut, of a summing Cutter.
func (c *Cutter) Sum() uint32 { return c.sum }

// TakeBlank returns how many blank lines were passed over up to the end of the last cut, or of the stream if that has
// ended, since it was last called.
func (c *Cutter) TakeBlank() int64 {
	n := c.blank - c.taken
	c.taken = c.blank
	return n
}

// Marked reports whether an item so far begins with a byte order mark, as where files were joined. That of a source
// does not count: its items begin behind it.
func (c *Cutter) Marked() bool { return c.marked }

// Incomplete returns an *ArrayError if the stream has ended, with io.EOF, and is an array that is not closed. Ignore it
// if the stream was not all of the source's rest.
func (c *Cutter) Incomplete() error {
	if !c.scan.array || c.scan.closed {
		return nil
	}
	return &ArrayError{Offset: c.scan.offset(), Reason: "the input ends, and its array is not closed"}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums computes the CRC-32C of the bytes of a window up to a mark. It does so seldom, over many bytes at once: when the
// window moves on, and when somebody takes a sum.
type sums struct {
	from int    // in buf: what is summed up ends here
	sum  uint32 // up to there
	mark int    // in buf; below from: it has left the window
	at   uint32 // the sum up to the mark, if that has left the window
}

// pass sums up what leaves the window, which are the bytes before pos.
func (s *sums) pass(buf []byte, pos int) {
	if s.mark >= s.from {
		s.at = crc32.Update(s.sum, castagnoli, buf[s.from:s.mark])
		s.sum, s.from = s.at, s.mark
	}
	s.sum = crc32.Update(s.sum, castagnoli, buf[s.from:pos])
	s.from, s.mark = 0, -1
}

// take returns the sum of the bytes since it was last called up to the mark.
func (s *sums) take(buf []byte) uint32 {
	if s.mark < s.from { // the stream has ended, and only blank bytes were behind the mark
		return s.at
	}
	sum := crc32.Update(s.sum, castagnoli, buf[s.from:s.mark])
	s.sum, s.from = 0, s.mark
	return sum
}
