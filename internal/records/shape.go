package records

import "github.com/stint-run/stint/internal/wire"

// Limits on the size of one item, in bytes.
const (
	DefaultMaxItem = 16 << 20 // if none is given
	largestMaxItem = 1 << 30  // a greater limit counts as this one
)

// What Quote of a Shape may be.
const (
	Quoted   = `"`    // fields may be quoted, as RFC 4180 has it
	Unquoted = "none" // a quote is a byte like any other, and a record is one line
)

// quoting reports whether fields of CSV may be quoted.
func quoting(s *wire.Shape) bool {
	return s.Format == CSV && s.Quote != Unquoted
}

// maxItem is MaxItem within its range.
func maxItemOf(s *wire.Shape) int {
	if s.MaxItem < 1 {
		return DefaultMaxItem
	}
	return min(s.MaxItem, largestMaxItem)
}

// delimiter is what separates the fields of CSV.
func delimiterOf(s *wire.Shape) byte {
	if s.Delimiter == "" {
		return ','
	}
	return s.Delimiter[0]
}

// Lines reports whether each item is one line, which is what a filter gets.
func Lines(s *wire.Shape) bool { return s.Format == JSONL || s.Format == Text }

// Alike reports whether two shapes of which the sources have not been looked at are the same.
func Alike(s *wire.Shape, o *wire.Shape) bool {
	return s.Format == o.Format && s.Delimiter == o.Delimiter && s.Quote == o.Quote && s.Guess == o.Guess
}

// HasRecords reports whether the items are records of CSV: in JSON, objects of strings.
func HasRecords(s *wire.Shape) bool { return s.Format == CSV || s.Records }
