package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Requests are counted by route and status, and too many at once are refused.
func TestMetrics(t *testing.T) {
	t.Parallel()
	hold, begun := make(chan struct{}), make(chan struct{}, 2)
	f := &fake{call: func(_ context.Context, item Value) (Value, error) { begun <- struct{}{}; <-hold; return item, nil }}
	s := serve(t, f, func(o *Options) { o.Requests = 2 })
	var waiting sync.WaitGroup
	waiting.Go(func() { s.post("/v1/feeds/f/call", jsonType, "1") })
	waiting.Go(func() { s.post("/v1/feeds/f/call", lineType, "1") })
	<-begun
	<-begun
	busy := s.post("/v1/feeds/f/put", jsonType, "1")
	require.Equal(t, http.StatusServiceUnavailable, busy.status)
	require.Equal(t, "BusyError", busy.problem(t).Type)
	require.Equal(t, "1", busy.header.Get("Retry-After"))
	text := s.send(http.MethodGet, "/metrics", "", nil).body
	require.Contains(t, text, `stint_gateway_requests_in_flight{route="call"} 2`)
	require.JSONEq(t, `{"healthy":true,"state":"serving","requests":2}`, s.send(http.MethodGet, "/health", "", nil).body)
	close(hold)
	waiting.Wait()
	s.post("/v1/feeds/f/put", lineType, "1\n2\n3\n")
	s.post("/v1/feeds/f/put", lineType, "x")
	for _, want := range []string{
		`stint_gateway_requests_total{route="call",status="200"} 2`, `stint_gateway_requests_total{route="put",status="200"} 1`,
		`stint_gateway_requests_total{route="put",status="400"} 1`, `stint_gateway_requests_total{route="put",status="503"} 1`,
		`stint_gateway_requests_in_flight{route="call"} 0`, `stint_gateway_items_put_total 5`, `stint_gateway_results_total 2`,
	} {
		s.counts(want)
	}
}

// counts waits until the metrics have a line: a request is counted when it has been answered, which its client may know
// sooner.
func (s *served) counts(line string) {
	s.t.Helper()
	counted := func() bool { return strings.Contains(s.send(http.MethodGet, "/metrics", "", nil).body, line+"\n") }
	require.Eventually(s.t, counted, patience, time.Millisecond, line)
}

// M5: A gateway that ends takes no requests any more, but is alive.
func TestHealth_Ending(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	for _, path := range []string{"/health", "/readyz", "/livez"} {
		require.Equal(t, http.StatusOK, s.send(http.MethodGet, path, "", nil).status, path)
	}
	s.gateway.ending.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, s.send(http.MethodGet, "/readyz", "", nil).status)
	alive := s.send(http.MethodGet, "/livez", "", nil)
	require.Equal(t, http.StatusOK, alive.status)
	require.JSONEq(t, `{"healthy":false,"state":"draining","requests":0}`, alive.body)
}
