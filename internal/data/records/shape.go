package records

import "github.com/stint-run/stint/internal/wire"

// Limits on the size of one item, in bytes.
const (
	DefaultMaxItem = 16 << 20 // if none is given
	largestMaxItem = 1 << 30  // a greater limit counts as this one
)

// maxItem is MaxItem within its range.
func maxItemOf(s *wire.Shape) int {
	if s.MaxItem < 1 {
		return DefaultMaxItem
	}
	return min(s.MaxItem, largestMaxItem)
}

// AsLines returns the shape of items once each is a line, the one that AppendLine appends: JSON, unless it was a line
// already.
func AsLines(s *wire.Shape) wire.Shape {
	lines := wire.Shape{Format: JSONL, Records: HasRecords(s), MaxItem: s.MaxItem}
	if Lines(s) {
		lines.Format = s.Format
	}
	return lines
}

// Alike reports whether two shapes of which the sources have not been looked at are the same.
func Alike(s *wire.Shape, o *wire.Shape) bool {
	return s.Format == o.Format && s.Delimiter == o.Delimiter && s.Quote == o.Quote && s.Guess == o.Guess
}

// Delimited reports whether the items are records under a header, whose delimiter and quotes may be chosen.
func Delimited(s *wire.Shape) bool { return formatOf(s.Format).delimited }

// HasRecords reports whether the items are records of CSV: in JSON, objects of strings.
func HasRecords(s *wire.Shape) bool { return s.Records || Delimited(s) }

// Origin is an item as a job got it, and where from: for its error record.
type Origin struct {
	Source string // its URL, or another name that people know it by
	Offset int64  // in the source, in bytes, of the item's first byte; 0 if it has none
	Shape  *wire.Shape
	Item   *Item
}
