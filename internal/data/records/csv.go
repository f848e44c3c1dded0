package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stint-run/stint/internal/wire"
)

// CSV is that of RFC 4180, with a header. An item is a record.
const CSV wire.Format = "csv"

var csvFormat = format{
	name: CSV, delimited: true,
	scan: scanRecords, limited: true,
	look: readHeader, hint: hintOfRecords,
	appendJSON: appendRecord,
	begin:      appendHeader,
}

// maxHeader is the size in bytes over which a CSV header cannot be meant as one. It lies in the
// job's source table, and its names are in every item.
const maxHeader = 1 << 20

// unquoted is what Quote of a Shape is if a quote is a byte like any other, and a record is one line.
const unquoted = "none"

// quoting reports whether fields of CSV may be quoted.
func quoting(s *wire.Shape) bool { return s.Quote != unquoted }

// delimiterOf returns what separates the fields of CSV.
func delimiterOf(s *wire.Shape) byte { return cmp.Or(s.Delimiter, ",")[0] }

// scanRecords makes a scanner find records.
func scanRecords(s wire.Shape, scan *scanner) {
	scan.delimiter, scan.quoting, scan.trims = delimiterOf(&s), quoting(&s), true
}

// readHeader reads the header from r, which begins at offset in the source. It sets the shape's columns, and returns
// the offset of what follows the header. begin is what is known of it already.
func readHeader(s *wire.Shape, r io.Reader, offset int64, begin []byte) (int64, error) {
	longest := min(maxItemOf(s), maxHeader)
	scan := &scanner{window: newWindow(r, headWindow, longest+1), max: longest, terminator: '\n'}
	scanRecords(*s, scan)
	if err := scan.next(); err == io.EOF {
		return offset, nil
	} else if err != nil {
		return 0, fmt.Errorf("reading CSV header: %w", err)
	}
	columns, err := columnsOf(scan)
	if scan.fault == tooLong && onlyReturns(begin) {
		err = errors.New(returnInHeader)
	}
	if err != nil {
		return 0, &HeadError{Offset: offset + scan.start, Reason: err.Error()}
	}
	s.Columns = columns
	return offset + scan.offset(), nil
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

// hintOfRecords returns a sentence about a source that begins with head, and may be no CSV, or have another delimiter;
// otherwise empty.
func hintOfRecords(s *wire.Shape, head []byte) string {
	solid := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(solid) > 0 && solid[0] == '<' && len(s.Columns) > 0:
		return "begins with <, as HTML and XML do: check that it is CSV"
	case len(s.Columns) == 1:
		for _, d := range []string{";", "\t", "|", ","} {
			if strings.Contains(s.Columns[0], d) && d != string(delimiterOf(s)) {
				return fmt.Sprintf("has one column, with %q in its name: choose --delimiter %q if that separates its fields", d, d)
			}
		}
	}
	return ""
}

// appendHeader appends the header of a CSV source with the shape's columns, with its line end.
func appendHeader(s *wire.Shape, dst []byte) []byte {
	for i, name := range s.Columns {
		if i > 0 {
			dst = append(dst, delimiterOf(s))
		}
		if quoting(s) {
			name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
		dst = append(dst, name...)
	}
	return append(dst, '\n')
}

// appendRecord appends a CSV record, which is valid UTF-8, as a JSON object.
func appendRecord(s *wire.Shape, dst, rec []byte) ([]byte, error) {
	out, delimiter, quoting := append(dst, '{'), delimiterOf(s), quoting(s)
	for n := 0; ; n++ {
		f, rest, more, fault := cutField(rec, delimiter, quoting)
		if fault != "" {
			return dst, invalid(string(fault), n+1)
		}
		if n < len(s.Columns) {
			if n > 0 {
				out = append(out, ',')
			}
			out = append(out, '"')
			out = appendEscaped(out, s.Columns[n])
			out = append(out, '"', ':')
			out = f.appendJSON(out)
		}
		if more {
			rec = rest
			continue
		}
		if n == 0 && len(s.Columns) != 1 {
			return dst, invalid("has 1 field, the header has %d", len(s.Columns))
		}
		if n+1 != len(s.Columns) {
			return dst, invalid("has %d fields, the header has %d", n+1, len(s.Columns))
		}
		return append(out, '}'), nil
	}
}
