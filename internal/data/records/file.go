package records

import (
	"cmp"

	"github.com/stint-run/stint/internal/base/formats"
	"github.com/stint-run/stint/internal/wire"
)

// FileExtension returns the extension, with its dot, of a file of items of a shape.
func FileExtension(s *wire.Shape) string { return formats.Extension(string(s.Format), s.Delimiter) }

// AppendToFile appends an item as it stands in a file of items of its shape: the first one behind what the file begins
// with, others behind what separates them. It returns dst as it was and an *InvalidError if the item has an Err, or
// would make the others in the file invalid.
func AppendToFile(s *wire.Shape, dst []byte, it *Item, first bool) ([]byte, error) {
	if it.Err != nil {
		return dst, it.Err
	}
	f, out := formatOf(s.Format), dst
	switch {
	case !first:
		out = append(out, f.between...)
	case f.begin != nil:
		out = f.begin(s, out)
	}
	if !f.checked {
		return append(append(out, it.Raw...), cmp.Or(f.ends, "\n")...), nil
	}
	out, err := AppendLine(s, out, it)
	if err != nil {
		return dst, err
	}
	return append(out, '\n'), nil
}

// AppendFileEnd appends what a file of items of a shape ends with.
func AppendFileEnd(s *wire.Shape, dst []byte) []byte { return append(dst, formatOf(s.Format).end...) }
