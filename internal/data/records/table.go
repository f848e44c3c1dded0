package records

import (
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// table has all formats, those first that are asked for each item. Each is in a file of its own, and in
// internal/base/formats.
var table = []*format{&csvFormat, &jsonFormat, &jsonlFormat, &textFormat, &text0Format}

// format is how items of a format are found, converted and written. What a format has no need of is not set.
type format struct {
	name wire.Format

	// delimited is what internal/base/formats says of it.
	delimited bool

	// guess is what an extension shows of a format that takes a look to be known.
	guess wire.Guess
	// look finds out what the beginning of a source shows of its shape. r is behind offset bytes, and begins with head.
	// It returns the offset at which the first item may begin.
	look func(s *wire.Shape, r io.Reader, offset int64, head []byte) (int64, error)
	// hint is [Head.Hint] of a source that begins with head.
	hint func(s *wire.Shape, head []byte) string

	// scan makes a new scanner find such items. Without it an item is a line that is not blank.
	scan func(s wire.Shape, scan *scanner)
	// limited means that where an item ends depends on MaxItem.
	limited bool

	// appendJSON is [AppendJSON] of an item in UTF-8, for items that are no lines.
	appendJSON func(s *wire.Shape, dst, raw []byte) ([]byte, error)

	// binary means that sources have control characters, by which others are known not to be of text.
	binary bool

	// A file of items: what it begins with, what stands between them, what each ends with if not with a '\n', what the
	// file ends with; and whether only valid items can be in it, each as a line. See [AppendToFile].
	begin              func(s *wire.Shape, dst []byte) []byte
	between, ends, end string
	checked            bool
}

// JSONLines reports whether each item is one line, a JSON value. This and TextLines are asked for each item, so they
// look at no table, as none of the table's functions is called for an item that is a line.
func JSONLines(s *wire.Shape) bool { return s.Format == JSONL }

// TextLines reports whether each item is one line, a text of any bytes.
func TextLines(s *wire.Shape) bool { return s.Format == Text }

// Lines reports whether each item is one line, which is what a filter gets.
func Lines(s *wire.Shape) bool { return JSONLines(s) || TextLines(s) }

// unknown is what no name in the table means. Whoever reads a source asks [Look] first, which refuses it.
var unknown format

// formatOf returns a format by its name.
func formatOf(name wire.Format) *format {
	for _, f := range table {
		if f.name == name {
			return f
		}
	}
	return &unknown
}
