package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/base/trap"
	"github.com/stint-run/stint/internal/web/tokens"
)

const (
	headLimit = 10 * time.Second
	bodyLimit = 10 * time.Second
	idleLimit = 2 * time.Minute
	maxHead   = 16 << 10 // bytes
	// lastAnswers is how long answers under way may take at the end.
	lastAnswers = time.Second
)

// Server is a page that listens.
type Server struct {
	page     *Page
	listener net.Listener
	http     *http.Server
	end      context.CancelFunc // of the requests under way
}

// guarded says how the page is guarded.
func guarded(o Options) tokens.Guarded {
	return tokens.Guarded{Name: "the page", Could: "see all jobs", Known: o.Tokens}
}

// Check returns a *[tokens.OpenError] if a page may not listen at an address, HOST:PORT, without tokens.
func Check(address string, o Options) error { return guarded(o).Check(address) }

// Listen takes an address, HOST:PORT, and sets what of the options depends on it. Requests wait until Serve is called.
// Its error is a *[tokens.OpenError] if the address is not this machine's alone, and there are no tokens.
func Listen(address string, o Options) (*Server, error) {
	listener, err := guarded(o).Listen(address)
	if err != nil {
		return nil, err
	}
	o.Loopback = loopback.Is(listener.Addr().String())
	p, err := New(o)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, end := context.WithCancel(context.Background())
	return &Server{page: p, listener: listener, end: end, http: &http.Server{
		Handler: p, ErrorLog: slog.NewLogLogger(p.options.Log.Handler(), slog.LevelWarn), MaxHeaderBytes: maxHead,
		ReadHeaderTimeout: headLimit, ReadTimeout: headLimit + bodyLimit, IdleTimeout: idleLimit,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}, nil
}

// Address returns where the page listens, as HOST:PORT.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers requests until the context ends. It can be called once.
func (s *Server) Serve(ctx context.Context) error {
	served := trap.Go("serving the page", func() error { return s.http.Serve(s.listener) })
	defer s.page.Close()
	defer s.end()
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serving the page: %w", err), s.http.Close())
	case <-ctx.Done():
	}
	s.end() // live updates have no end of their own
	limited, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if s.http.Shutdown(limited) == nil {
		return nil
	}
	return s.http.Close()
}
