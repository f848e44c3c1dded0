package records

import "io"

// Cutter cuts a stream that begins at an item boundary into consecutive ranges of whole items. It
// is not safe for use by several goroutines at once.
//
// It holds 256 KiB of the stream, and of CSV up to about MaxItem if a quote is not closed.
type Cutter struct {
	scan *scanner
	end  int64 // offset where the last cut ends
}

// Cut is one range: it begins where the one before it ends, the first one at the beginning of the
// stream.
type Cut struct {
	Length int64 // bytes: items, their line ends, and blank lines before and between them
	Count  int64 // items, at least 1
}

// NewCutter returns a Cutter of r, which it reads ahead of the cuts.
func NewCutter(r io.Reader, s Shape) *Cutter {
	return newCutter(r, s, windowSize)
}

// NewBytesCutter returns a Cutter of data, a stream that is in memory. It costs little more than its items, which
// counts if there are millions of small streams. data must not change meanwhile.
func NewBytesCutter(data []byte, s Shape) *Cutter {
	return &Cutter{scan: &scanner{window: windowOn(data), csv: s.Format == CSV, max: s.maxItem()}}
}

func newCutter(r io.Reader, s Shape, window int) *Cutter {
	hold := s.maxItem()
	if s.Format != CSV {
		// Where a line ends does not depend on MaxItem, so no line need be held as a whole.
		hold = min(hold, window/2)
	}
	return &Cutter{scan: newScanner(r, s.Format == CSV, hold, window)}
}

// Next takes items until there are maxItems in the cut, or the cut has reached maxBytes bytes,
// whichever is first, but always at least one. A cut ends right behind an item's line end. Blank
// lines belong to the cut of the item that follows them; those at the end of the stream belong to
// no cut, and a Reader whose range has them finds no item in them.
//
// It returns io.EOF when no item is left, and otherwise the reader's error, on which the items
// taken so far are in no cut. Either is returned again by every later call.
func (c *Cutter) Next(maxItems, maxBytes int64) (Cut, error) {
	var cut Cut
	for {
		if err := c.scan.next(); err == io.EOF && cut.Count > 0 {
			break
		} else if err != nil {
			return Cut{}, err
		}
		cut.Count++
		cut.Length = c.scan.offset() - c.end
		if cut.Count >= maxItems || cut.Length >= maxBytes {
			break
		}
	}
	c.end += cut.Length
	return cut, nil
}
