package records

import (
	"bytes"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// headWindow is how many bytes Look reads at once.
const headWindow = 32 << 10

// HeadError says why the beginning of a source is not a CSV header.
type HeadError struct {
	Offset int64  // where the header begins, in bytes from the beginning of the source
	Reason string // what is wrong with it, and what to do about it
}

// Error says what is wrong, where, and what to do.
func (e *HeadError) Error() string {
	return fmt.Sprintf("the CSV header at byte %d %s", e.Offset, e.Reason)
}

// Head is what the beginning of a source shows.
type Head struct {
	Shape wire.Shape
	Start int64 // the offset in bytes at which the first item may begin
	// Hint completes the sentence "the input …" about a source that may be meant otherwise; empty: there is nothing to
	// say.
	Hint string
}

// Look looks at the beginning of a source, of whose shape Format, Delimiter, Quote, Guess and MaxItem are known. It
// passes over a UTF-8 byte order mark. Of CSV it reads the header: the first record, which like any other may follow
// blank lines, and may have up to 1 MiB, or MaxItem bytes if that is less. If the format is JSON, or a guess, it looks
// at the first line (see [Shape.lookAt]). A CSV source without any record has a shape without columns.
//
// It may read some way into r, but asks for no byte that makes no difference: the next one may be long in coming. The
// error is a *ContentError if the source is something else, such as compressed data or text in UTF-16; a *HeadError if
// the header is that, is too long, not UTF-8 or badly quoted, or if its names are not unique or one is empty; an
// *ArrayError if an array begins with a comma; an *UnknownFormatError if the format is unknown; otherwise the reader's.
func Look(r io.Reader, shape wire.Shape) (Head, error) {
	f := formatOf(shape.Format)
	if f == &unknown {
		return Head{}, &UnknownFormatError{Name: string(shape.Format)}
	}
	shape.MaxItem = maxItemOf(&shape)

	start, err := readStart(r)
	if err != nil {
		return Head{}, fmt.Errorf("reading head: %w", err)
	}
	if !f.binary {
		if refused := sniff(start); refused != nil && f.delimited {
			return Head{}, &HeadError{Reason: refused.Reason}
		} else if refused != nil {
			return Head{}, refused
		}
	}
	begin, offset := start, int64(0)
	if bytes.HasPrefix(start, []byte(mark)) {
		begin, offset = start[len(mark):], int64(len(mark))
	}
	r = io.MultiReader(bytes.NewReader(begin), r)
	if f.look != nil {
		if offset, err = f.look(&shape, r, offset, begin); err != nil {
			return Head{}, err
		}
	}
	hint := ""
	if f = formatOf(shape.Format); f.hint != nil { // it may be another one now
		hint = f.hint(&shape, begin)
	}
	return Head{Shape: shape, Start: offset, Hint: hint}, nil
}
