// Package endpoint serves metrics and health over HTTP.
package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-run/stint/internal/base/trap"
)

const (
	// loopback is the host of an endpoint whose address names none.
	loopback = "127.0.0.1"

	headLimit  = 5 * time.Second
	writeLimit = 30 * time.Second
	idleLimit  = time.Minute
	maxHead    = 16 << 10 // bytes
	// lastAnswers is how long answers under way may take once the worker has ended.
	lastAnswers = time.Second
)

// Address completes an address in the form of Options.Metrics. Its error says what the address is for.
func Address(what, address string) (string, error) {
	full := address
	if !strings.Contains(address, ":") {
		full = ":" + address
	}
	host, port, err := net.SplitHostPort(full)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("%s %q: use HOST:PORT, or PORT for this machine only; port 0 takes a free one", what, address)
	}
	return net.JoinHostPort(cmp.Or(host, loopback), port), nil
}

// Endpoint answers HTTP requests. It must be closed.
type Endpoint struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
	once     sync.Once
}

// Listen takes the address. Requests wait until serve is called.
func Listen(address string, handler http.Handler, log *slog.Logger) (*Endpoint, error) {
	address, err := Address("metrics", address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the metrics endpoint cannot listen: use another address, or port 0 for a free one: %w", err)
	}
	return &Endpoint{listener: listener, server: &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxHeaderBytes: maxHead,
		ReadHeaderTimeout: headLimit, ReadTimeout: headLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit,
	}}, nil
}

func (e *Endpoint) Address() string { return e.listener.Addr().String() }

// Serve answers requests from here on, in the background.
func (e *Endpoint) Serve(failed func(error)) {
	e.serving.Go(func() {
		if err := trap.Call("serving metrics and health", func() error { return e.server.Serve(e.listener) }); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	})
}

// Close ends the endpoint. It is idempotent.
func (e *Endpoint) Close() {
	e.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
		defer cancel()
		if err := e.server.Shutdown(ctx); err != nil {
			_ = e.server.Close() // what is under way is cut off
		}
		_ = e.listener.Close() // that is done, unless it has never served
		e.serving.Wait()
	})
}

// Report is what an endpoint says of its process: the answer in JSON, and whether it is good.
type Report func() (report any, good bool)

// Routes returns the endpoint's routes. /readyz and /health say whether the process takes work, /livez whether it should
// be left alone: also while it starts, drains, or waits for a server. Each has the status 503 unless its report is good.
func Routes(metrics http.Handler, ready, live Report) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /health", ready.serve)
	mux.HandleFunc("GET /readyz", ready.serve)
	mux.HandleFunc("GET /livez", live.serve)
	return mux
}

func (report Report) serve(w http.ResponseWriter, _ *http.Request) {
	said, good := report()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(said) // the client has gone
}
