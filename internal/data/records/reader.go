package records

import (
	"fmt"
	"io"
	"math"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
)

// InvalidError says why bytes are not an item in their format.
type InvalidError struct {
	// Reason completes the sentence that begins with "the item": "has 3 fields, the header has 5".
	// Positions in it are in bytes from the item's first one, which is byte 0.
	Reason string
}

// Error returns the whole sentence.
func (e *InvalidError) Error() string { return "the item " + e.Reason }

// invalid makes an *InvalidError of a reason.
func invalid(format string, args ...any) *InvalidError {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// Item is one item as it lies in the source.
type Item struct {
	// Raw is the item without the '\n' that ends it. A '\r' before that is kept, except in CSV. It is
	// nil if the item is too long, or missing. Of a JSON value it has all lines.
	Raw []byte
	// Offset is that of the item's first byte, from the beginning of the range.
	Offset int64
	// Size is how many bytes the item takes in the source, without its '\n' but with a '\r'.
	Size int64
	// Err is nil, or an *InvalidError: the item is longer than MaxItem, has a quoted field that is not closed, or is
	// missing between two commas of an array. Whether the item is valid otherwise shows when it is encoded.
	Err error
	// Bare means that no '\n' belongs to the item: it is a JSON value that ends by itself.
	Bare bool
	// Outcome is what has become of the item already: no handler gets it. Usually it is nil.
	Outcome *Outcome
}

// Outcome is what has become of an item before any call. Without a Value and a Failure the item was dropped.
type Outcome struct {
	Value []byte // its result: a line without its end
	// Failure says by Kind, Error and Attempts how the item has failed, and by Stage and Partial more if a pipeline has
	// found that.
	Failure *job.Failure
	// Line, if an earlier step has noted the item, is that note, which is carried on. Failure is its own then.
	Line *wire.ErrorLine
	// Carried: the outcome is of an earlier step, or what a view has made of its results. No handler was meant to get
	// the item here.
	Carried bool
	// Counted: that step has counted the item.
	Counted bool
	// Reused: the result is that of an earlier run. It may be several lines, or none; Value has all their ends. Of an item
	// that passes further steps of a pipeline Line has it.
	Reused bool
}

// Behind returns the offset at which what follows the item begins: behind its '\n', which may be missing at the end of
// the range.
func (it *Item) Behind() int64 {
	if it.Bare {
		return it.Offset + it.Size
	}
	return it.Offset + it.Size + 1
}

// Chunk is a run of items and the memory they lie in, which the next Read into it uses again. The
// zero value is ready to use.
type Chunk struct {
	Items []Item
	buf   []byte // every Raw there is, each with a '\n' behind it
}

// Reader reads the items of a range that begins at an item boundary: a range cut by a Cutter, what
// is left of one behind any of its items, or a whole stream. It is not safe for use by several
// goroutines at once.
type Reader struct {
	scan *scanner
}

// NewReader returns a Reader of r, which ends where the range does. It reads ahead.
func NewReader(r io.Reader, s wire.Shape) *Reader {
	return newReader(r, s, windowSize)
}

// NewBytesReader returns a Reader of data, a range that is in memory, as [NewBytesCutter] does.
func NewBytesReader(data []byte, s wire.Shape) *Reader {
	return &Reader{scan: newScanner(&s, windowOn(data), maxItemOf(&s))}
}

func newReader(r io.Reader, s wire.Shape, window int) *Reader {
	return &Reader{scan: newScanner(&s, newWindow(r, window, maxItemOf(&s)+1), maxItemOf(&s))}
}

// Read fills c with the next items: until there are maxItems of them, or they have taken maxBytes
// bytes of the source (line ends and blank lines included), whichever is first, but always at
// least one: as a Cutter with the same numbers does. Items are valid until the next Read into c.
// The memory of c is bounded by maxBytes + MaxItem (and what the Items themselves take), that of
// the Reader by about MaxItem.
//
// It returns io.EOF when no item is left, and otherwise the reader's error; c is then empty, and
// every later call returns the same.
func (r *Reader) Read(c *Chunk, maxItems, maxBytes int) error {
	c.Reset()
	err := r.Append(c, maxItems, maxBytes)
	if err == io.EOF && len(c.Items) > 0 {
		return nil
	}
	if err != nil {
		c.Reset()
	}
	return err
}

// Append is Read without emptying c before: maxItems counts the items that c has already, maxBytes only what Append
// itself takes. So a chunk can go on from one range to the next. Unlike Read it returns io.EOF whenever the range has
// ended, also with items taken. The offsets of items are those in their own range.
func (r *Reader) Append(c *Chunk, maxItems, maxBytes int) error {
	begin := r.scan.offset()
	limit := min(maxBytes, math.MaxInt-r.scan.max-len(c.buf)) + r.scan.max + len(c.buf)
	for {
		if err := r.scan.next(); err != nil {
			return err
		}
		raw := r.scan.raw()
		if len(raw) >= cap(c.buf)-len(c.buf) {
			c.grow(len(raw)+1, limit)
		}
		c.add(raw, r.scan)
		if len(c.Items) >= maxItems || r.scan.offset()-begin >= int64(maxBytes) {
			return nil
		}
	}
}

// Reset empties the chunk.
func (c *Chunk) Reset() { c.Items, c.buf = c.Items[:0], c.buf[:0] }

// Reserve makes room for the next Read's items and bytes, if they are roughly known, so that it need
// not be found by doubling.
func (c *Chunk) Reserve(items, bytes int) {
	if items > cap(c.Items) {
		c.Items = make([]Item, 0, items)
	}
	if bytes > cap(c.buf) {
		c.buf = make([]byte, 0, bytes)
	}
}

// add copies the scanner's item, for which there is room.
func (c *Chunk) add(raw []byte, s *scanner) {
	item := Item{Offset: s.start, Size: s.size, Bare: s.bare}
	if s.fault != tooLong && s.fault != missing {
		at := len(c.buf)
		c.buf = append(append(c.buf, raw...), '\n')
		end := len(c.buf) - 1
		item.Raw = c.buf[at:end:end]
	}
	switch s.fault {
	case faultless:
	case openQuote:
		item.Err = invalid("has a quoted field that is not closed, "+
			"at least not within the limit of %d bytes (max-item)", s.max)
	case tooLong:
		item.Err = invalid(overLimit, s.size, s.max)
	case missing:
		item.Err = invalid("is missing: there is a comma in the array, and no value behind it")
	}
	c.Items = append(c.Items, item)
}

// Add appends an item that lies in no range: its bytes, which it copies, or none if it is longer than the shape
// permits, and why it is none, if err is not nil.
func (c *Chunk) Add(raw []byte, s *wire.Shape, err error) {
	item := Item{Size: int64(len(raw)), Err: err}
	if longest := maxItemOf(s); len(raw) > longest {
		item.Err = invalid(overLimit, len(raw), longest)
	} else {
		if len(raw) >= cap(c.buf)-len(c.buf) {
			c.grow(len(raw)+1, math.MaxInt)
		}
		at := len(c.buf)
		c.buf = append(append(c.buf, raw...), '\n')
		end := len(c.buf) - 1
		item.Raw = c.buf[at:end:end]
	}
	c.Items = append(c.Items, item)
}

// AddKnown appends an item without bytes, whose outcome is known. Items may share one.
func (c *Chunk) AddKnown(o *Outcome) { c.Items = append(c.Items, Item{Outcome: o}) }

const overLimit = "is %d bytes long, over the limit of %d bytes (max-item)"

// IsBlank reports whether a line is blank: it has only spaces, tabs and carriage returns.
func IsBlank(line []byte) bool { return isBlank(line, 0) }

// Lines returns the bytes of all items that have any, each with a '\n' behind it: if [Shape.Lines], the lines that a
// filter is given, without another copy. They are valid as long as the items.
func (c *Chunk) Lines() []byte { return c.buf }

// grow makes room for n more bytes, doubling the buffer, but to no more than limit unless n asks
// for it.
func (c *Chunk) grow(n, limit int) {
	const least = 4 << 10
	size := min(max(2*cap(c.buf), least), limit)
	buf := make([]byte, len(c.buf), max(size, len(c.buf)+n))
	copy(buf, c.buf)
	c.buf = buf
	at := 0
	for i := range c.Items {
		if raw := c.Items[i].Raw; raw != nil {
			end := at + len(raw)
			c.Items[i].Raw = buf[at:end:end]
			at = end + 1
		}
	}
}
