package child

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A pipe of pipeSize bytes spares its two sides most of their switches.
	pipeSize = 1 << 20
	// longNap lets a third of a pipe pass, at a gigabyte a second; what comes quicker than that is
	// awaited with shorter ones, beginning with firstNap.
	firstNap = 20 * time.Microsecond
	longNap  = 300 * time.Microsecond
	// littleRead is a read after which it is worth waiting for more, once so much has been read.
	littleRead = 128 << 10
	// patience is how long nothing may happen before a pipe is polled.
	patience = 20 * time.Millisecond
)

// quiet is our end of a pipe that carries a call's lines. Linux wakes whoever has ever polled a pipe
// with every single write to it, and filters write some KiB at a time: for tr, waking us took more
// processor time than its work. So a quiet end does not poll. It takes naps, in which pipes fill or
// empty by a good part; only if nothing happens for a while it polls like any other.
//
// One goroutine reads or writes; the other methods may be called by any.
type quiet struct {
	fd   int
	read int  // bytes so far
	nap  bool // before the next read

	mu       sync.Mutex
	deadline time.Time
	polled   *os.File // has the descriptor once it is polled
	closed   bool
}

// large are the bytes of this process's large pipes.
var large atomic.Int64

// largeLimit is how many bytes the large pipes of this process may have together. The kernel gives the
// pipes of a user a quota: once it is used up, every new pipe of that user is tiny, whoever makes it. So
// this process takes half of it at most.
var largeLimit = sync.OnceValue(func() int64 {
	text, err := os.ReadFile("/proc/sys/fs/pipe-user-pages-soft")
	if err != nil {
		return math.MaxInt64 // an old kernel: there is no quota
	}
	pages, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || pages <= 0 {
		return math.MaxInt64 // 0 means that there is no quota
	}
	return pages * int64(os.Getpagesize()) / 2
})

// enlarge makes a pipe large, and reports false if it cannot or should not be.
func enlarge(fd int) bool {
	if large.Add(pipeSize) <= largeLimit() {
		if size, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize); err == nil && size >= pipeSize {
			return true
		}
	}
	large.Add(-pipeSize)
	return false
}

// newBulkPipe makes a pipe to or from a child. If it cannot be large, naps would slow it down, and it is
// polled.
func newBulkPipe(toChild bool) (ours stream, childs *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	our, their := fds[0], fds[1]
	if toChild {
		our, their = their, our
	}
	childs = os.NewFile(uintptr(their), "pipe")
	if err := syscall.SetNonblock(our, true); err != nil {
		_ = childs.Close()
		_ = syscall.Close(our)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	if !enlarge(our) {
		return os.NewFile(uintptr(our), "pipe"), childs, nil
	}
	return &quiet{fd: our}, childs, nil
}

// Read implements io.Reader.
func (q *quiet) Read(b []byte) (int, error) {
	if q.nap {
		time.Sleep(longNap)
	}
	n, err := q.do(func(fd int) (int, error) { return syscall.Read(fd, b) }, func(f *os.File) (int, error) { return f.Read(b) })
	if n == 0 && err == nil {
		err = io.EOF
	}
	q.read += n
	q.nap = n < littleRead && q.read >= littleRead
	return n, err
}

// Write implements io.Writer.
func (q *quiet) Write(b []byte) (written int, err error) {
	for written < len(b) && err == nil {
		var n int
		rest := b[written:]
		n, err = q.do(func(fd int) (int, error) { return syscall.Write(fd, rest) }, func(f *os.File) (int, error) { return f.Write(rest) })
		written += n
	}
	return written, err
}

// do tries a system call until it has something to do, or the same on the polled file.
func (q *quiet) do(try func(fd int) (int, error), polled func(*os.File) (int, error)) (int, error) {
	nap, began := firstNap, time.Now()
	for {
		f, overdue, err := q.state(time.Since(began) > patience)
		if err != nil {
			return 0, err
		}
		if f != nil {
			return polled(f)
		}
		n, err := try(q.fd)
		switch {
		case err == nil:
			return n, nil
		case err == syscall.EINTR:
			continue
		case err != syscall.EAGAIN:
			return 0, fmt.Errorf("pipe of a child: %w", err)
		case overdue:
			return 0, os.ErrDeadlineExceeded
		}
		time.Sleep(nap)
		nap = min(2*nap, longNap)
	}
}

// state returns the file to be polled, if there is one or there should be, and whether the deadline
// has passed.
func (q *quiet) state(poll bool) (f *os.File, overdue bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, false, os.ErrClosed
	case poll && q.polled == nil:
		q.polled = os.NewFile(uintptr(q.fd), "pipe")
		err = q.polled.SetDeadline(q.deadline)
	}
	return q.polled, !q.deadline.IsZero() && !time.Now().Before(q.deadline), err
}

// SetDeadline makes what would wait longer fail with os.ErrDeadlineExceeded.
func (q *quiet) SetDeadline(t time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deadline = t
	if q.polled != nil && !q.closed {
		return q.polled.SetDeadline(t)
	}
	return nil
}

// Close closes the pipe. It follows the last Read or Write, and can be repeated.
func (q *quiet) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return os.ErrClosed
	}
	q.closed = true
	large.Add(-pipeSize)
	if q.polled != nil {
		return q.polled.Close()
	}
	return os.NewSyscallError("close", syscall.Close(q.fd))
}

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
	for c.err = syscall.EINTR; c.err == syscall.EINTR; {
		c.n, c.err = syscall.Read(int(fd), c.buf)
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

// Written returns how many bytes have been written to the pipe.
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
