package records

import "io"

// windowSize is how many bytes a scanner reads at once unless an item needs more: large enough to
// make the cost of a read small, small enough to stay in a processor's cache.
const windowSize = 256 << 10

// maxEmptyReads is how many reads in a row may return neither bytes nor an error.
const maxEmptyReads = 100

// window is the part of a stream that is in memory. buf[pos:end] is read but not yet taken.
type window struct {
	r     io.Reader
	buf   []byte
	pos   int
	end   int
	base  int64 // offset in the stream of buf[0]
	limit int   // what buf may grow to; more than is ever left unread when fill is called
	err   error // what ended the stream, once all of it is read
	sums  *sums // of what is taken; nil: nobody wants one
}

// newWindow makes a window of size bytes that can hold `hold` unread bytes and read on.
func newWindow(r io.Reader, size, hold int) window {
	// The slack bounds how often a full window's bytes are moved: hold/slack times.
	slack := max(size, hold/4)
	return window{r: r, buf: make([]byte, size), limit: hold + slack}
}

// windowOn makes a window of bytes that are all in memory, which it does not change.
func windowOn(data []byte) window { return window{buf: data, end: len(data), err: io.EOF} }

// offset is the offset in the stream of the first byte not yet taken.
func (w *window) offset() int64 { return w.base + int64(w.pos) }

// unread is the number of bytes read but not yet taken.
func (w *window) unread() int { return w.end - w.pos }

// take passes over a line (or record) of n bytes and the '\n' behind it, if there is one.
func (w *window) take(n int) {
	w.pos += n
	if w.pos < w.end {
		w.pos++
	}
}

// fill reads at least one more byte behind the unread ones, which may move to another place in
// buf. It returns io.EOF or the reader's error when there are no more, and then always does.
func (w *window) fill() error {
	if w.err != nil {
		return w.err
	}
	if w.end == len(w.buf) {
		w.makeRoom()
	}
	for range maxEmptyReads {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		w.err = err
		if n > 0 {
			return nil // err shows at the next fill
		}
		if err != nil {
			return err
		}
	}
	w.err = io.ErrNoProgress
	return w.err
}

// makeRoom moves the unread bytes to the beginning of buf, or of a larger one if they fill more
// than half of it.
func (w *window) makeRoom() {
	buf := w.buf
	if w.unread() > len(buf)/2 && len(buf) < w.limit {
		buf = make([]byte, min(2*len(buf), w.limit))
	}
	if w.sums != nil {
		w.sums.pass(w.buf, w.pos)
	}
	n := copy(buf, w.buf[w.pos:w.end])
	w.base += int64(w.pos)
	w.buf, w.pos, w.end = buf, 0, n
}
