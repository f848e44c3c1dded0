package child

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// CountedPipe reads a pipe, and knows at any moment how much was ever written to it, and whether its
// reader has taken all of that: what leaves the pipe is counted in the same step.
//
// One goroutine reads; the other methods may be called by any.
type CountedPipe struct {
	conn syscall.RawConn
	lost error                 // why there is no conn
	try  func(fd uintptr) bool // a read that does not wait; false if there is nothing

	// Of the Read under way.
	buf []byte
	n   int
	err error

	mu      sync.Mutex
	taken   int64
	waiting bool // the reader, for more
}

// NewCountedPipe returns a reader of a pipe of the system's.
func NewCountedPipe(s stream) *CountedPipe {
	conn, err := s.(*os.File).SyscallConn()
	c := &CountedPipe{conn: conn, lost: err}
	c.try = c.take
	return c
}

func (c *CountedPipe) take(fd uintptr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.n, c.err = syscall.Read(int(fd), c.buf)
		if c.err != syscall.EINTR {
			break
		}
	}
	if c.waiting = c.err == syscall.EAGAIN; c.waiting {
		return false
	}
	c.taken += int64(max(0, c.n))
	return true
}

// Read implements io.Reader.
func (c *CountedPipe) Read(b []byte) (int, error) {
	if c.lost != nil {
		return 0, c.lost
	}
	c.buf = b
	err := c.conn.Read(c.try)
	switch {
	case err != nil:
		return 0, err
	case c.err != nil:
		return 0, os.NewSyscallError("read", c.err)
	case c.n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return c.n, nil
}

// Written is how many bytes have been written to the pipe.
func (c *CountedPipe) Written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken + c.unread()
}

// Drained reports whether nothing is left in the pipe and the reader waits for more: it has dealt
// with all that it was given.
func (c *CountedPipe) Drained() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting && c.unread() == 0
}

func (c *CountedPipe) unread() int64 {
	n := 0
	if c.lost != nil {
		return 0
	}
	_ = c.conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // closed: nothing waits
	return int64(n)
}
