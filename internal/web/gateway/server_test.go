package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// listen starts a server, and returns what ends it and its error.
func listen(t *testing.T, f *fake, drain time.Duration) (s *served, end func(), ended <-chan error) {
	t.Helper()
	server, err := Listen("127.0.0.1:0", Options{Open: func(string) Feed { return f }})
	require.NoError(t, err)
	return serving(t, server, drain)
}

// serving has a server serve.
func serving(t *testing.T, server *Server, drain time.Duration) (s *served, end func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, drain) }()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() { cancel(); client.CloseIdleConnections() })
	return &served{t: t, url: "http://" + server.Address(), gateway: server.gateway, client: client}, cancel, done
}

// Without a token the gateway listens on this machine only.
func TestListen_NeedsATokenBeyondLoopback(t *testing.T) {
	t.Parallel()
	var open *tokens.OpenError
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "gateway.example:0"} {
		_, err := Listen(address, Options{})
		require.ErrorAs(t, err, &open, address)
		require.ErrorContains(t, err, "name a file of tokens, or listen on 127.0.0.1")
	}
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("0123456789abcdef"), 0o600))
	known, err := tokens.Read(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s, err := Listen("0.0.0.0:0", Options{Tokens: known})
	require.NoError(t, err)
	require.False(t, s.gateway.options.Loopback)
	require.NoError(t, s.listener.Close())
}

// The end takes no more requests, and finishes those under way.
func TestServe_Drains(t *testing.T) {
	t.Parallel()
	hold, begun := make(chan struct{}), make(chan struct{})
	f := &fake{call: func(_ context.Context, item Value) (Value, error) { close(begun); <-hold; return item, nil }}
	s, end, ended := listen(t, f, patience)
	answered := make(chan reply, 1)
	go func() { answered <- s.post("/v1/feeds/f/call", jsonType, "1") }()
	<-begun
	end()
	eventually(t, func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(hold)
	require.Equal(t, "1\n", (<-answered).body)
	require.NoError(t, <-ended)
	require.True(t, f.released.Load())
}

// What is left after the drain gets an error as its end.
func TestServe_EndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, end, ended := listen(t, f, 10*time.Millisecond)
	c := s.converse("/v1/feeds/f/call", "0\n")
	c.line()
	end()
	require.Contains(t, c.line(), `{"error":{"type":"UnavailableError","message":"the gateway is ending"`)
	require.False(t, c.in.Scan())
	require.NoError(t, <-ended)
}

// canceled is a context that has ended for a reason.
func canceled(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// A put of which nothing is known says so at the end.
func TestServe_UncertainPut(t *testing.T) {
	t.Parallel()
	err := ended(canceled(errDraining), &jobs.FeedError{Code: jobs.CodeUncertain, Err: context.Canceled})
	status, p := explain(err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "UncertainError", p.Type)
	require.Equal(t, "UnavailableError", p.Reason.Type)
	require.Equal(t, io.EOF, ended(canceled(errDraining), io.EOF))
	require.Equal(t, context.Canceled, ended(t.Context(), context.Canceled))
	require.True(t, errors.Is(ended(canceled(errDraining), context.Canceled), errDraining))
}

// An answer of the page that has no end does not hold up the end of the gateway.
func TestServe_EndsThePage(t *testing.T) {
	t.Parallel()
	begun, closed := make(chan struct{}), make(chan struct{})
	server, err := Listen("127.0.0.1:0", Options{
		Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-closed }), PagePath: "/page", ClosePage: func() { close(closed) },
	})
	require.NoError(t, err)
	s, end, ended := serving(t, server, patience)
	go func() {
		if resp, err := s.client.Get(s.url + "/page"); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-begun
	end()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience / 2):
		require.FailNow(t, "the page holds up the end")
	}
}
