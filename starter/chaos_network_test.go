package starter_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// valve lets whoever comes through, or has them wait while it is shut. The zero value is open.
type valve struct {
	mu     sync.Mutex
	opened chan struct{} // nil: it is open
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.opened == nil {
		v.opened = make(chan struct{})
	}
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.opened != nil {
		close(v.opened)
		v.opened = nil
	}
}

// wait returns when it is open.
func (v *valve) wait() {
	v.mu.Lock()
	opened := v.opened
	v.mu.Unlock()
	if opened != nil {
		<-opened
	}
}

// link is a network between processes and an address: a TCP proxy that can be cut. While its flow is shut, what is
// sent through it gets lost, as packets do: it arrives later, if there is still a connection then.
type link struct {
	address  string // its own
	to       string
	flow     valve
	carriers sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{} // nil while it is cut
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	// Nobody else listens or connects from there, so the port is still free after a cut.
	l := &link{address: "127.0.0.2:0", to: to}
	require.NoError(t, l.mend())
	t.Cleanup(func() {
		l.cut()
		l.flow.open()
		l.carriers.Wait()
	})
	return l
}

// mend has connections made again.
func (l *link) mend() error {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address, l.listener, l.conns = listener.Addr().String(), listener, map[net.Conn]struct{}{}
	l.carriers.Go(func() { l.accept(listener) })
	return nil
}

// cut has all connections broken, and further ones refused.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.listener.Close() // perhaps a second time
	for c := range l.conns {
		_ = c.Close() // perhaps a second time
	}
	l.conns = nil
}

func (l *link) accept(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return // it was closed
		}
		if far, err := net.Dial("tcp", l.to); err != nil || !l.connect(near, far) {
			_ = near.Close() // refused
		}
	}
}

// connect carries what comes in at either end to the other one. It returns false if the link has been cut.
func (l *link) connect(near, far net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		_ = far.Close() // unused
		return false
	}
	l.conns[near], l.conns[far] = struct{}{}, struct{}{}
	l.carriers.Go(func() { l.carry(near, far) })
	l.carriers.Go(func() { l.carry(far, near) })
	return true
}

func (l *link) carry(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.flow.wait()
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			break
		}
	}
	_, _ = from.Close(), to.Close() // perhaps a second time
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, from)
	delete(l.conns, to)
}

// cutFor has a link cut for a time.
func (l *link) cutFor(t *testing.T, d time.Duration) {
	t.Helper()
	l.cut()
	time.Sleep(d) // this is the fault, not a wait for something
	require.NoError(t, l.mend())
}

// stallFor has nothing get through a link for a time.
func (l *link) stallFor(d time.Duration) {
	l.flow.shut()
	defer l.flow.open()
	time.Sleep(d) // this is the fault, not a wait for something
}
