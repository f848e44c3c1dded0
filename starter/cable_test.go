package starter_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cable is a server's address for one command. A test sees when the command asks, and can hold what passes, or cut the
// cable.
type cable struct {
	listener net.Listener
	to       string // address of the server; "": there is none
	passing  sync.WaitGroup
	ended    chan struct{}

	mu    sync.Mutex
	conns []net.Conn
	first time.Time // when the command has connected; zero: it has not
	last  time.Time // when it has sent something
	held  bool      // nothing passes any more
	cut   bool
}

// newCable makes a cable to a server; "": whoever connects is refused.
func newCable(t *testing.T, to string) *cable {
	t.Helper()
	shares := net.ListenConfig{Control: sharesPort}
	listener, err := shares.Listen(context.Background(), "tcp", closedAddress(t))
	require.NoError(t, err)
	l := &cable{listener: listener, to: to, ended: make(chan struct{})}
	l.passing.Go(l.accept)
	t.Cleanup(func() {
		close(l.ended)
		l.sever()
		l.passing.Wait()
	})
	return l
}

// closedAddress is an address at which nobody listens. Until the test ends nobody can get it by chance, as a port that
// was given back could.
func closedAddress(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	unix.CloseOnExec(fd)
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}

// sharesPort lets a socket listen at a closedAddress.
func sharesPort(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	if failed != nil {
		return failed
	}
	return err
}

func (l *cable) address() string { return l.listener.Addr().String() }

// hold lets nothing pass any more: the server seems to be frozen.
func (l *cable) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

func (l *cable) frozen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// sever ends all connections and refuses others: the server seems to be gone.
func (l *cable) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	_ = l.listener.Close() // it may be closed
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// connected is when the command has connected first; zero: it has not.
func (l *cable) connected() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// quiet reports whether the command has connected and sent nothing for a while: it waits.
func (l *cable) quiet() bool {
	const a = 300 * time.Millisecond
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.first.IsZero() && time.Since(l.last) > a
}

func (l *cable) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.note()
		if l.to == "" {
			l.add(from)
			l.sever()
			return
		}
		if l.frozen() {
			l.add(from)
			continue
		}
		to, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		if l.add(from) && l.add(to) {
			l.passing.Go(func() { l.pass(from, to, true) })
			l.passing.Go(func() { l.pass(to, from, false) })
		}
	}
}

// add adds a connection. If the cable has been cut it closes it and returns false.
func (l *cable) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	if l.cut {
		_ = c.Close()
	}
	return !l.cut
}

// note takes note that the command has sent something.
func (l *cable) note() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = time.Now(); l.first.IsZero() {
		l.first = l.last
	}
}

// pass passes on what comes, until the connection ends.
func (l *cable) pass(from, to net.Conn, asks bool) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if asks && n > 0 {
			l.note()
		}
		if l.frozen() {
			<-l.ended
			return
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}
