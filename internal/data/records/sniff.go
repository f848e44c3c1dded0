package records

import (
	"bytes"
	"fmt"
	"io"

	"github.com/stint-run/stint/internal/wire"
)

// ContentError says why the bytes of a source are no items of any format.
type ContentError struct {
	Reason string // what they are, and what to do about it
}

// Error returns the whole sentence.
func (e *ContentError) Error() string { return "it " + e.Reason }

// sniffed is how many bytes of a source are looked at for what they are, if they come at once.
const sniffed = 512

// parquet is what a Parquet file begins with.
const parquet = "PAR1"

// magics are beginnings by which files are known that hold no items as they are.
var magics = []struct{ begins, reason string }{
	{"\x1f\x8b\x08", "is gzip data: give its name the ending .gz, or unpack it: zcat FILE | stint run -"},
	{"\x28\xb5\x2f\xfd", "is zstd data: give its name the ending .zst, or unpack it: zstdcat FILE | stint run -"},
	{"BZh", "is bzip2 data, which is not supported: bzcat FILE | stint run -"},
	{"\xfd7zXZ\x00", "is xz data, which is not supported: xzcat FILE | stint run -"},
	{"PK\x03\x04", "is a zip archive (spreadsheets are, too): unpack it, or export it as CSV"},
	{parquet, "is a Parquet file: export it as CSV or JSON lines"},
	{"SQLite format 3\x00", "is a SQLite database: export it as CSV or JSON lines"},
}

// sniff returns why a source is refused that begins with head; nil: it is not.
func sniff(head []byte) *ContentError {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.begins)) && !isWords(head) {
			return &ContentError{m.reason}
		}
	}
	if encoding := utf16(head); encoding != "" {
		return &ContentError{fmt.Sprintf("is not valid UTF-8, but %s: convert it: iconv -f %s -t UTF-8 FILE", encoding, encoding)}
	}
	return nil
}

// isWords reports whether head is a text all the same: BZh and parquet's mark can be the beginning of one.
func isWords(head []byte) bool {
	switch {
	case bytes.HasPrefix(head, []byte("BZh")):
		return len(head) < 10 || string(head[4:10]) != "1AY&SY"
	case bytes.HasPrefix(head, []byte(parquet)):
		return len(head) == len(parquet) || !isControl(head[len(parquet)]) // of the first field of a header there
	}
	return false
}

func isControl(b byte) bool { return (b < ' ' || b == '\x7f') && b != '\t' && b != '\r' && b != '\n' }

// utf16 returns the name of the encoding if head looks like text in UTF-16: all its zero bytes are in one of the two
// places of a unit, and so are those beside each line feed. Further it has the byte order mark of UTF-16, or it is zero
// in every unit at the beginning, or in an eighth of all.
func utf16(head []byte) string {
	const latin, share, few = 32, 8, 3
	if len(head) < 4 || bytes.IndexByte(head, 0) < 0 {
		return ""
	}
	var zeros, early, ends [2]int // by place in a unit
	units := len(head) / 2
	for i := range 2 * units {
		if head[i] != 0 {
			continue
		}
		zeros[i%2]++
		if i < 2*latin {
			early[i%2]++
		}
		if head[i^1] == '\n' {
			ends[i%2]++
		}
	}
	lines := bytes.Count(head[:2*units], []byte{'\n'})
	for place, e := range []struct{ name, mark string }{{"UTF-16BE", "\xfe\xff"}, {"UTF-16LE", "\xff\xfe"}} {
		many := early[place] == min(units, latin) || zeros[place] >= few && zeros[place]*share >= units && lines > 0
		if zeros[1-place] == 0 && ends[place] == lines && (many || bytes.HasPrefix(head, []byte(e.mark))) {
			return e.name
		}
	}
	return ""
}

// onlyReturns reports whether lines seem to end with carriage returns alone: head has some, and no line feed.
func onlyReturns(head []byte) bool {
	at := bytes.IndexByte(head, '\r')
	return at >= 0 && at+1 < len(head) && bytes.IndexByte(head, '\n') < 0
}

const unreturn = `convert it if its lines end with a carriage return alone: tr '\r' '\n' <FILE`

// hintOfReturns returns a sentence about a source of lines that begins with head, if none of them seems to end;
// otherwise empty.
func hintOfReturns(_ *wire.Shape, head []byte) string {
	if onlyReturns(head) {
		return "has carriage returns and no line feed: " + unreturn
	}
	return ""
}

// readStart reads what comes at once of a source, up to sniffed bytes, and on only as long as it could be a byte order
// mark or what it is known by: the next byte may be long in coming. At the end of r it returns what there is.
func readStart(r io.Reader) ([]byte, error) {
	head := make([]byte, sniffed)
	for n, empty := 0, 0; ; {
		got, err := r.Read(head[n:])
		n += got
		if err != nil && err != io.EOF {
			if n == 0 {
				return nil, err
			}
			return head[:n], nil // whoever reads on gets it again
		}
		if empty++; got > 0 {
			empty = 0
		}
		if empty == maxEmptyReads {
			return nil, io.ErrNoProgress
		}
		if err == io.EOF || n > 0 && !unclear(head[:n]) {
			return head[:n], nil
		}
	}
}

const mark = "\uFEFF"

// unclear reports whether the bytes that follow head decide what it is.
func unclear(head []byte) bool {
	begins := func(text string) bool { return len(head) < len(text) && bytes.HasPrefix([]byte(text), head) }
	for _, m := range magics {
		if begins(m.begins) { // no line ends in it
			return true
		}
	}
	return begins(mark) || string(head) == parquet
}
