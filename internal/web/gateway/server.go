package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/web/tokens"
)

const (
	headLimit = 10 * time.Second
	// bodyLimit is how long a body may take that is not wanted, or not any more.
	bodyLimit = 10 * time.Second
	idleLimit = 2 * time.Minute
	maxHead   = 16 << 10 // bytes
	// lastAnswers is how long requests may take to end, once they have been ended.
	lastAnswers = 2 * time.Second
)

// Server is a gateway that listens.
type Server struct {
	gateway  *Gateway
	listener net.Listener
	http     *http.Server
	end      context.CancelCauseFunc // of the requests under way
}

// guarded says how the gateway is guarded.
func guarded(o Options) tokens.Guarded {
	return tokens.Guarded{Name: "the gateway", Could: "use all feeds", Known: o.Tokens}
}

// Check returns a *[tokens.OpenError] if a gateway may not listen at an address, HOST:PORT, without tokens.
func Check(address string, o Options) error { return guarded(o).Check(address) }

// Listen takes an address, HOST:PORT, and sets what of the options depends on it. Requests wait until Serve is called.
// Its error is a *[tokens.OpenError] if the address is not this machine's alone, and there are no tokens.
func Listen(address string, o Options) (*Server, error) {
	listener, err := guarded(o).Listen(address)
	if err != nil {
		return nil, err
	}
	o.Loopback = loopback.Is(listener.Addr().String())
	g, err := New(o)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, end := context.WithCancelCause(context.Background())
	door := newDoor(listener, descriptors())
	s := &Server{gateway: g, listener: door, end: end, http: &http.Server{
		Handler: g, ErrorLog: slog.NewLogLogger(g.options.Log.Handler(), slog.LevelWarn), MaxHeaderBytes: maxHead,
		ReadHeaderTimeout: headLimit, IdleTimeout: idleLimit,
		ReadTimeout: headLimit + bodyLimit, // also when net/http reads what the gateway does not; bodies of items have other limits, see body
		ConnState:   door.noteState, ConnContext: door.noteContext,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}
	if o.ClosePage != nil {
		s.http.RegisterOnShutdown(o.ClosePage)
	}
	return s, nil
}

// Address returns where the gateway listens, as HOST:PORT.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers requests until the context ends. Then it takes no more, and those under way have as long as drain says;
// what is left then gets an error as its end. It can be called once.
func (s *Server) Serve(ctx context.Context, drain time.Duration) error {
	served := trap.Go("serving the gateway", func() error { return s.http.Serve(s.listener) })
	defer s.gateway.Close()
	defer s.end(errDraining)
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serving the gateway: %w", err), s.http.Close())
	case <-ctx.Done():
	}
	s.gateway.ending.Store(true)
	if s.shutdown(drain) {
		return nil
	}
	s.end(errDraining)
	if s.shutdown(lastAnswers) {
		return nil
	}
	return s.http.Close()
}

// shutdown reports whether all requests have ended within the limit.
func (s *Server) shutdown(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return s.http.Shutdown(ctx) == nil
}

// Limits of connections, beside that of the descriptors that this process may have.
const (
	maxConnections = 10_000
	// maxStrangers is how many connections there may be of which no request has been admitted.
	maxStrangers = 500
)

// door bounds the connections of a gateway, so that those who have no token cannot keep out those who have one: beyond
// the limits the oldest stranger has to go, a connection of which no request has been admitted.
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
