package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Limits of connections, beside that of the descriptors that this process may have.
const (
	maxConnections = 10_000
	// maxStrangers is how many connections there may be of which no request has been admitted.
	maxStrangers = 500
)

// door bounds the connections of a gateway, so that those who have no token cannot keep out those who have one: beyond the limits the
// oldest stranger has to go, a connection of which no request has been admitted.
type door struct {
	net.Listener
	most, strangers int // limits

	mu    sync.Mutex
	first uint64 // number of the next connection
	open  map[net.Conn]*guest
}

// guest is an open connection.
type guest struct {
	number   uint64
	known    bool // a request of it has been admitted
	busy     bool // it has a request under way
	admitted func()
}

// newDoor returns the door of a listener for a process with so many descriptors; 0: it is not known.
func newDoor(l net.Listener, descriptors int) *door {
	d := &door{Listener: l, most: maxConnections, strangers: maxStrangers, open: map[net.Conn]*guest{}}
	if descriptors > 0 { // a quarter is left for feeds, stores and files
		d.most = max(1, min(d.most, descriptors*3/4))
		d.strangers = max(1, min(d.strangers, d.most/2))
	}
	return d
}

// Accept is one of net.Listener.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for _, gone := range d.enter(c) {
		_ = gone.Close() // nobody waits for it
	}
	return c, nil
}

// enter takes a connection in, and returns those that have to go for it.
func (d *door) enter(c net.Conn) (gone []net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first++
	g := &guest{number: d.first}
	g.admitted = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.known = true
	}
	d.open[c] = g
	strangers := 0
	for _, other := range d.open {
		if !other.known {
			strangers++
		}
	}
	if strangers > d.strangers {
		gone = append(gone, d.remove(func(g *guest) bool { return !g.known }))
	}
	if len(d.open) > d.most {
		gone = append(gone, d.remove(func(g *guest) bool { return !g.busy || !g.known }))
	}
	return gone
}

// remove removes the oldest of such connections, of which there is one: the new one, if no other. The lock is held.
func (d *door) remove(may func(*guest) bool) net.Conn {
	var oldest net.Conn
	for c, g := range d.open {
		if may(g) && (oldest == nil || g.number < d.open[oldest].number) {
			oldest = c
		}
	}
	delete(d.open, oldest)
	return oldest
}

// noteState is [http.Server.ConnState].
func (d *door) noteState(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch g := d.open[c]; {
	case g == nil:
	case state == http.StateClosed, state == http.StateHijacked:
		delete(d.open, c)
	default:
		g.busy = state == http.StateActive
	}
}

// guestKey is under which the context of a request has its connection.
type guestKey struct{}

// noteContext is [http.Server.ConnContext].
func (d *door) noteContext(ctx context.Context, c net.Conn) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return context.WithValue(ctx, guestKey{}, d.open[c])
}

// noteAdmitted notes that a request has been admitted: its connection is no stranger's.
func noteAdmitted(r *http.Request) {
	if g, _ := r.Context().Value(guestKey{}).(*guest); g != nil {
		g.admitted()
	}
}
