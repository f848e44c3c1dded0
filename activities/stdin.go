package activities

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/stint-run/stint/job"
)

// stdinReader reads the standard input in a goroutine of its own, so that whoever waits for it
// can be cancelled. The goroutine ends with the input, or after close with its next read.
type stdinReader struct {
	blocks chan []byte
	err    error // set before blocks is closed
	rest   []byte

	once sync.Once
	done chan struct{}
}

func readStdin(r io.Reader) *stdinReader {
	s := &stdinReader{blocks: make(chan []byte, 2), done: make(chan struct{})}
	go func() {
		defer close(s.blocks)
		for {
			block := make([]byte, 256<<10)
			n, err := r.Read(block)
			if n > 0 {
				select {
				case s.blocks <- block[:n]:
				case <-s.done:
					return
				}
			}
			if err != nil {
				s.err = err
				return
			}
		}
	}()
	return s
}

func (s *stdinReader) close() { s.once.Do(func() { close(s.done) }) }

// Close leaves the reader as it is: it belongs to the Activities.
func (s *stdinReader) Close() error { return nil }

func (s *stdinReader) Read(p []byte) (int, error) { return s.read(context.Background(), p) }

func (s *stdinReader) read(ctx context.Context, p []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case block, ok := <-s.blocks:
			if !ok {
				return 0, s.err
			}
			s.rest = block
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// withContext makes reads of the standard input end with ctx; other readers stay as they are.
func withContext(ctx context.Context, r io.Reader) io.Reader {
	if s, ok := r.(*stdinReader); ok {
		return readerFunc(func(p []byte) (int, error) { return s.read(ctx, p) })
	}
	return r
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var (
	errNoStdin   = errors.New("the standard input can be read only by `stint run`: name a file or a bucket URL")
	errStdinOnce = errors.New("the standard input can be read only once, and a part of it has been read: start the job anew with --fresh")
)

// takeStdin gives the standard input to the first that asks.
func (a *Activities) takeStdin() (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.opts.Stdin == nil:
		return nil, permanent(job.ErrorInput, errNoStdin)
	case a.stdin != nil:
		return nil, permanent(job.ErrorInput, errStdinOnce)
	}
	a.stdin = readStdin(a.opts.Stdin)
	return a.stdin, nil
}
