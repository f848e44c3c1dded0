package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// maxHeader is the size in bytes over which a CSV header cannot be meant as one. It lies in the
// job's source table, and its names are in every item.
const maxHeader = 1 << 20

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
	// Hint completes the sentence "the input …" about a source that may be meant otherwise; empty: there is nothing to say.
	Hint string
}

// Look looks at the beginning of a source, of whose shape Format, Delimiter, Quote, Guess and MaxItem are known. It passes over a
// UTF-8 byte order mark. Of CSV it reads the header: the first record, which like any other may follow blank lines, and
// may have up to 1 MiB, or MaxItem bytes if that is less. If the format is JSON, or a guess, it looks at the
// first line (see [Shape.lookAt]). A CSV source without any record has a shape without columns.
//
// It may read some way into r, but asks for no byte that makes no difference: the next one may be long in coming. The error is a
// *ContentError if the source is something else, such as compressed data or text in UTF-16; a
// *HeadError if the header is that, is too long, not UTF-8 or
// badly quoted, or if its names are not unique or one is empty; an *ArrayError if an array begins with a comma;
// an *UnknownFormatError if the format is unknown; otherwise the reader's.
func Look(r io.Reader, shape wire.Shape) (Head, error) {
	switch shape.Format {
	case JSONL, CSV, Text, JSON:
	default:
		return Head{}, &UnknownFormatError{Name: string(shape.Format)}
	}
	shape.MaxItem = maxItemOf(&shape)

	start, err := readStart(r)
	if err != nil {
		return Head{}, fmt.Errorf("reading head: %w", err)
	}
	if refused := sniff(start); refused != nil && shape.Format == CSV {
		return Head{}, &HeadError{Reason: refused.Reason}
	} else if refused != nil {
		return Head{}, refused
	}
	begin, offset := start, int64(0)
	if bytes.HasPrefix(start, []byte(mark)) {
		begin, offset = start[len(mark):], int64(len(mark))
	}
	r = io.MultiReader(bytes.NewReader(begin), r)
	switch {
	case shape.Format == CSV:
		shape.Columns, offset, err = readHeader(r, offset, shape, begin)
	case shape.Format == JSON || shape.Guess != "":
		offset, err = lookAt(&shape, r, offset)
	}
	if err != nil {
		return Head{}, err
	}
	return Head{Shape: shape, Start: offset, Hint: hintOf(&shape, begin)}, nil
}

// readHeader reads the header from r, which begins at offset in the source, and returns its names
// and the offset of what follows it. begin is what is known of it already.
func readHeader(r io.Reader, offset int64, s wire.Shape, begin []byte) ([]string, int64, error) {
	longest := min(maxItemOf(&s), maxHeader)
	scan := newScanner(&s, newWindow(r, headWindow, longest+1), longest)
	if err := scan.next(); err == io.EOF {
		return nil, offset, nil
	} else if err != nil {
		return nil, 0, fmt.Errorf("reading CSV header: %w", err)
	}
	columns, err := columnsOf(scan)
	if scan.fault == tooLong && onlyReturns(begin) {
		err = errors.New(returnInHeader)
	}
	if err != nil {
		return nil, 0, &HeadError{Offset: offset + scan.start, Reason: err.Error()}
	}
	return columns, offset + scan.offset(), nil
}

const returnInHeader = "has a carriage return in it: " + unreturn

// columnsOf returns the names in the header that a scanner has found. The error is the reason of a
// HeadError.
func columnsOf(scan *scanner) ([]string, error) {
	const otherwise = ", or choose another format with --format"
	switch scan.fault {
	case tooLong:
		return nil, fmt.Errorf("is longer than %d bytes: make sure the file is CSV%s", scan.max, otherwise)
	case openQuote:
		return nil, errors.New("has a quoted name that is not closed: close the quote" + otherwise)
	}
	rest := scan.raw()
	if at := firstNonUTF8(rest); at >= 0 {
		return nil, fmt.Errorf("is not valid UTF-8 at its byte %d: convert the file to UTF-8%s", at, otherwise)
	}
	var columns []string
	seen := make(map[string]int)
	for more := true; more; {
		var f field
		var fault quoteFault
		bare := len(rest) == 0 || rest[0] != '"' || !scan.quoting
		f, rest, more, fault = cutField(rest, scan.delimiter, scan.quoting)
		if bare && bytes.IndexByte(f.text, '\r') >= 0 {
			return nil, errors.New(returnInHeader)
		}
		if bytes.IndexByte(f.text, 0) >= 0 {
			return nil, fmt.Errorf("has a zero byte in the name of column %d: convert the file to UTF-8%s", len(columns)+1, otherwise)
		}
		if fault != "" {
			return nil, fmt.Errorf(string(fault)+": correct the quotes%s", len(columns)+1, otherwise)
		}
		name, n := f.String(), len(columns)+1
		if name == "" {
			return nil, fmt.Errorf("has no name for column %d: give it one", n)
		}
		if first, ok := seen[name]; ok {
			return nil, fmt.Errorf("names columns %d and %d both %.80q: give each its own name", first, n, name)
		}
		seen[name] = n
		columns = append(columns, name)
	}
	return columns, nil
}
