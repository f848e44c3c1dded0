package inputs

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/trap"
)

// stdinBlock is how many bytes of the standard input are read at once.
const stdinBlock = 256 << 10

// stdinReader reads the standard input in its own goroutine, so that waiting for it can be
// cancelled. The goroutine ends with the input, or after close with its next read.
type stdinReader struct {
	blocks chan []byte
	err    error // set before blocks is closed
	rest   []byte

	once sync.Once
	done chan struct{}
}

// errClosing ends a read of an input that close has given up. Another process cannot continue it.
var errClosing = errors.New("the process that reads the standard input is about to end")

// errLater ends a read of an input that is still being written: nothing more has come in time.
var errLater = errors.New("nothing more has come yet")

// gathering bounds how long a page waits for an input that is still being written: for the first byte without an end, and
// then until flush is over. Nil waits without an end, and takes what comes first.
type gathering struct {
	flush  time.Duration
	until  time.Time     // zero: nothing has come yet
	waited time.Duration // so far
}

// begin notes that something has come.
func (g *gathering) begin() {
	if g.until.IsZero() {
		g.until = time.Now().Add(g.flush)
	}
}

// over reports whether the time is.
func (g *gathering) over() bool { return !g.until.IsZero() && !time.Now().Before(g.until) }

func readStdin(r io.Reader) *stdinReader {
	s := &stdinReader{blocks: make(chan []byte, 2), done: make(chan struct{})}
	go func() {
		defer close(s.blocks)
		s.err = trap.Call("reading the standard input", func() error { return s.pump(r) })
	}()
	return s
}

// pump reads the input to its end, and returns why it has ended.
func (s *stdinReader) pump(r io.Reader) error {
	for {
		block := make([]byte, stdinBlock)
		n, err := r.Read(block)
		if n > 0 {
			select {
			case s.blocks <- block[:n]:
			case <-s.done:
				return errClosing
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *stdinReader) close() { s.once.Do(func() { close(s.done) }) }

func (s *stdinReader) Read(p []byte) (int, error) { return s.read(context.Background(), p, nil) }

// read reads what has come. It waits for something until later, if that is not nil, and returns errLater then.
func (s *stdinReader) read(ctx context.Context, p []byte, later <-chan time.Time) (int, error) {
	if len(s.rest) == 0 {
		select {
		case block, ok := <-s.blocks:
			if !ok {
				return 0, s.err
			}
			s.rest = block
		case <-later:
			return 0, errLater
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
