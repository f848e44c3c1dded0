package records

import (
	"bytes"
	"io"
)

// quotes is a search for the '\n' outside quotes that ends a CSV record.
type quotes struct {
	delimiter byte
	at        int  // the first byte of the record not yet looked at
	open      bool // whether it is inside a quoted field
}

// find continues the search in rec, which begins with the record and may have grown since the last
// call. It returns where the '\n' is, or -1 if rec has none. Every byte is looked at a fixed number of
// times, in however many calls.
func (q *quotes) find(rec []byte) int {
	newline := -1 // the first one from q.at on
	for {
		if q.open && !q.leave(rec) {
			return -1
		}
		if newline < q.at {
			newline = len(rec)
			if n := bytes.IndexByte(rec[q.at:], '\n'); n >= 0 {
				newline = q.at + n
			}
		}
		n := bytes.IndexByte(rec[q.at:newline], '"')
		if n < 0 {
			q.at = newline
			if newline == len(rec) {
				return -1
			}
			return newline
		}
		q.at += n
		q.open = q.at == 0 || rec[q.at-1] == q.delimiter
		q.at++
	}
}

// leave passes over the rest of a quoted field and the quote that closes it. It reports false if
// rec does not hold it, or not the byte behind it, which distinguishes it from a doubled one.
func (q *quotes) leave(rec []byte) bool {
	for {
		n := bytes.IndexByte(rec[q.at:], '"')
		if n < 0 {
			q.at = len(rec)
			return false
		}
		q.at += n
		if q.at+1 == len(rec) {
			return false
		}
		if rec[q.at+1] != '"' {
			q.at++
			q.open = false
			return true
		}
		q.at += 2
	}
}

// outside reports whether a record whose n bytes are all there is has ended outside quotes: either
// no quote is open, or the last byte is the one that closes it.
func (q *quotes) outside(n int) bool { return !q.open || q.at+1 == n }

// record finds where the CSV record at pos ends, whose first line is in memory and has `line`
// bytes, at most max. It returns the item's length: that of the record, or of the line if the
// record is not complete within max bytes.
//
// If many lines open a quote that nothing closes, each would be searched up to max bytes. So the
// scanner remembers how far a search got in vain. It met every '\n' up to there inside quotes. A
// search from a later line that is inside quotes after one of them is in the same state as that
// search was, hence will be at its end, and can continue from there: all searches together take time
// linear in the bytes.
func (s *scanner) record(line int) (int, error) {
	q := quotes{delimiter: s.delimiter}
	first := min(line+1, s.unread()) // with its '\n', if it has one
	if n := q.find(s.buf[s.pos : s.pos+first]); n >= 0 {
		return n, nil
	}
	start := s.offset()
	if first > line && start+int64(line) < s.tried {
		q.at, q.open = int(s.tried-start), s.triedOpen
	}
	for {
		held := min(s.unread(), s.max+1)
		if n := q.find(s.buf[s.pos : s.pos+held]); n >= 0 {
			return n, nil
		}
		if held > s.max {
			break
		}
		if err := s.fill(); err == io.EOF {
			if q.outside(held) {
				return held, nil
			}
			break
		} else if err != nil {
			return 0, err
		}
	}
	s.tried, s.triedOpen = start+int64(q.at), q.open
	s.fault = openQuote
	return line, nil
}
