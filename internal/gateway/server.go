package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/stint-run/stint/internal/loopback"
	"github.com/stint-run/stint/internal/trap"
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

// OpenError reports a gateway without tokens that others than this machine could reach.
type OpenError struct{ Address string }

func (e *OpenError) Error() string {
	return fmt.Sprintf("without a token, whoever reaches %s could use all feeds: name a file of tokens, or listen on 127.0.0.1", e.Address)
}

// Check returns an *[OpenError] if a gateway may not listen at an address, HOST:PORT, without tokens.
func Check(address string, o Options) error {
	if o.Tokens == nil && !loopback.Is(address) {
		return &OpenError{Address: address}
	}
	return nil
}

// Listen takes an address, HOST:PORT, and sets what of the options depends on it. Requests wait until Serve is called. Its
// error is an *[OpenError] if the address is not this machine's alone, and there are no tokens.
func Listen(address string, o Options) (*Server, error) {
	if err := Check(address, o); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the gateway cannot listen: use another address, or port 0 for a free one: %w", err)
	}
	local := listener.Addr().String()
	o.Loopback = loopback.Is(local)
	if err := Check(local, o); err != nil { // the name was this machine's only by its look
		return nil, errors.Join(err, listener.Close())
	}
	g, err := New(o)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, end := context.WithCancelCause(context.Background())
	door := newDoor(listener, descriptors())
	return &Server{gateway: g, listener: door, end: end, http: &http.Server{
		Handler: g, ErrorLog: slog.NewLogLogger(g.options.Log.Handler(), slog.LevelWarn), MaxHeaderBytes: maxHead,
		ReadHeaderTimeout: headLimit, IdleTimeout: idleLimit,
		ReadTimeout: headLimit + bodyLimit, // also when net/http reads what the gateway does not; bodies of items have other limits, see body
		ConnState:   door.noteState, ConnContext: door.noteContext,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}, nil
}

// Address returns where the gateway listens, as HOST:PORT.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers requests until the context ends. Then it takes no more, and those under way have as long as drain says; what
// is left then gets an error as its end. It can be called once.
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
