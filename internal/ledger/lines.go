package ledger

import (
	"bufio"
	"io"
)

// Lines reads lines of any length.
type Lines struct {
	*bufio.Reader
	long []byte // a line that is longer than the reader's buffer
}

// NewLines returns a reader of the lines of r, which reads so many bytes at once.
func NewLines(r io.Reader, bytes int) *Lines { return &Lines{Reader: bufio.NewReaderSize(r, bytes)} }

// Next returns the next line with its end; it is valid until the next call. The error is io.EOF if there is none,
// io.ErrUnexpectedEOF if the last one has no end, and otherwise the reader's.
func (l *Lines) Next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		piece, err := l.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			return piece, nil
		}
		l.long = append(l.long, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && len(l.long) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return l.long, err
	}
}
