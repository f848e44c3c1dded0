package worker

import (
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
)

const (
	// loopback is where an endpoint listens whose address names no host.
	loopback = "127.0.0.1"

	headLimit  = 5 * time.Second
	writeLimit = 30 * time.Second
	idleLimit  = time.Minute
	maxHead    = 16 << 10 // bytes
	// lastAnswers is how long answers under way may take once the worker has ended.
	lastAnswers = time.Second
)

// endpointAddress completes an address as Options.Metrics has it.
func endpointAddress(address string) (string, error) {
	full := address
	if !strings.Contains(address, ":") {
		full = ":" + address
	}
	host, port, err := net.SplitHostPort(full)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("metrics %q: use HOST:PORT, or PORT for this machine only; port 0 takes a free one", address)
	}
	if host == "" {
		host = loopback
	}
	return net.JoinHostPort(host, port), nil
}

// endpoint answers HTTP requests. It must be closed.
type endpoint struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
	once     sync.Once
}

// listen takes the address. Requests wait until serve is called.
func listen(address string, handler http.Handler, log *slog.Logger) (*endpoint, error) {
	address, err := endpointAddress(address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the metrics endpoint cannot have its address; give another one, or port 0 for a free one: %w", err)
	}
	return &endpoint{listener: listener, server: &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxHeaderBytes: maxHead,
		ReadHeaderTimeout: headLimit, ReadTimeout: headLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit,
	}}, nil
}

// MetricsAddress is the HOST:PORT at which the worker's endpoint listens; "" where it has none (see
// Options.Metrics).
func (w *Worker) MetricsAddress() string {
	if w.metrics.endpoint == nil {
		return ""
	}
	return w.metrics.endpoint.address()
}

func (e *endpoint) address() string { return e.listener.Addr().String() }

// serve answers requests from here on, in the background.
func (e *endpoint) serve(failed func(error)) {
	e.serving.Go(func() {
		if err := e.server.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	})
}

// close ends the endpoint. It is idempotent.
func (e *endpoint) close() {
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

// routes are what the endpoint answers.
func routes(metrics http.Handler, health func() Health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		h := health()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !h.Healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(h) // who asked has gone
	})
	return mux
}
