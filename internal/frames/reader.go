package frames

import (
	"bytes"
	"fmt"
	"io"
)

// TooLongError reports that a frame is longer than the limit.
type TooLongError struct {
	Limit int    // bytes
	Text  string // the beginning of the frame
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("a frame of more than %d bytes: %q…", e.Limit, e.Text)
}

// Reader reads frames line by line. One goroutine may read.
type Reader struct {
	r     io.Reader
	limit int
	buf   []byte
	start int // of what has not been returned
	seen  int // bytes from start on that hold no '\n'

	taken int64
}

const firstBuffer = 64 << 10

// NewReader returns a Reader of frames of at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: r, limit: limit, buf: make([]byte, 0, firstBuffer)}
}

// Taken returns how many bytes the lines returned so far have.
func (r *Reader) Taken() int64 { return r.taken }

// Next returns the next line without its end; it is valid until the call after. Blank lines are
// left out. At the end it returns io.EOF, and a *BrokenError if the last line has no end.
func (r *Reader) Next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.start+r.seen:], '\n'); i >= 0 {
			line := r.buf[r.start : r.start+r.seen+i]
			r.taken += int64(r.seen + i + 1)
			r.start += r.seen + i + 1
			r.seen = 0
			switch {
			case len(line) > r.limit:
				return nil, r.tooLong(line)
			case len(bytes.TrimSpace(line)) == 0:
				continue
			}
			return line, nil
		}
		r.seen = len(r.buf) - r.start
		if r.seen > r.limit {
			return nil, r.tooLong(r.buf[r.start:])
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

func (r *Reader) tooLong(line []byte) error {
	return &TooLongError{Limit: r.limit, Text: Broken(line, nil).Text}
}

// fill reads more, after what is there.
func (r *Reader) fill() error {
	if r.start > 0 && (r.seen == 0 || len(r.buf) == cap(r.buf)) {
		r.buf = r.buf[:copy(r.buf[:cap(r.buf)], r.buf[r.start:])]
		r.start = 0
		if r.seen == 0 && cap(r.buf) > 16*firstBuffer {
			r.buf = make([]byte, 0, firstBuffer) // after a large one
		}
	}
	if len(r.buf) == cap(r.buf) {
		grown := make([]byte, len(r.buf), 2*cap(r.buf))
		copy(grown, r.buf)
		r.buf = grown
	}
	n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	switch {
	case n > 0 || err == nil:
		return nil // the next read returns the error again
	case err == io.EOF && r.seen > 0:
		rest := r.buf[r.start:]
		r.start, r.seen = len(r.buf), 0
		return Broken(rest, io.ErrUnexpectedEOF)
	}
	return err
}
