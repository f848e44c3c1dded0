package gateway

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stretchr/testify/require"
)

// hasty starts a server that waits only for a moment for bodies that are not wanted. Its end waits for an hour.
func hasty(t *testing.T, o Options) (s *served, end func(), ended <-chan error) {
	t.Helper()
	server, err := Listen("127.0.0.1:0", o)
	require.NoError(t, err)
	require.Equal(t, headLimit+bodyLimit, server.http.ReadTimeout)
	server.http.ReadTimeout, server.gateway.rest = 100*time.Millisecond, 100*time.Millisecond
	return serving(t, server, time.Hour)
}

// requireEnds fails unless the server's end waits for no connection.
func requireEnds(t *testing.T, end func(), ended <-chan error) {
	t.Helper()
	end()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
}

// announce sends the head of a request, with more lines of a head and some of the body, but not all of it.
func (s *served) announce(method, path, more, body string) net.Conn {
	s.t.Helper()
	c := s.dial()
	_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n%s", method, path, more, body)
	require.NoError(s.t, err)
	return c
}

// requireClosed fails unless the gateway closes a connection.
func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	require.NoError(t, err)
}

// requireClosedUnread is requireClosed for a connection of which the gateway may not have read everything: half a
// second after its end comes a reset, which a slow machine sees first.
func requireClosedUnread(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		require.NoError(t, err)
	}
}

const (
	tenBytes = "Content-Length: 10\r\n"
	inChunks = "Transfer-Encoding: chunked\r\n"
)

// A body that is announced and not sent keeps neither a place nor the connection, and does not hold up the end.
func TestUnwanted_NeverSent(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, end, ended := hasty(t, Options{Open: func(string) Feed { return f }})
	type request struct {
		method, path, more, body string
		status                   int
	}
	var requests []request
	for _, more := range []string{tenBytes, inChunks} {
		requests = append(requests,
			request{"POST", "/v1/feeds/f/reset", more, "", 408},
			request{"POST", "/v1/feeds/f/close", more, "", 408},
			request{"GET", "/v1/feeds/f", more, "", 408},
			request{"GET", "/v1/feeds/f/results", more, "", 408},
			request{"GET", "/v1/feeds/f/results?follow=true", more, "", 408},
			request{"GET", "/health", more, "", 200},
			request{"GET", "/metrics", more, "", 200},
			request{"GET", "/openapi.json", more, "", 200},
			request{"GET", "/nowhere", more, "", 404},
			request{"GET", "/v1/feeds/f/put", more, "", 405},
			request{"POST", "/v1//feeds/f/put", more, "", 307},
			request{"OPTIONS", "*", more, "", 200},
			request{"POST", "/v1/feeds/f/put?wait=soon", more, "", 400},
			request{"POST", "/v1/feeds/f/call?timeout=soon", more, "", 400},
			request{"POST", "/v1/feeds/UPPER/call", more, "", 404},
			request{"POST", "/v1/feeds/f/put", more + "Content-Type: image/png\r\n", "", 415},
			request{"POST", "/v1/feeds/f/put", more + "Expect: tea\r\n", "", 417},
			request{"POST", "/v1/feeds/f/put", more + "Origin: http://evil.example\r\n", "", 403},
		)
	}
	for _, path := range []string{"/v1/feeds/f/put", "/v1/feeds/f/call"} { // refused after a part of the body
		requests = append(requests,
			request{"POST", path, tenBytes, "no\n", 400},
			request{"POST", path, inChunks, "3\r\nno\n\r\n", 400},
			request{"POST", path, inChunks + "Content-Type: application/json\r\n", fmt.Sprintf("200001\r\n%s\r\n", strings.Repeat(" ", 2<<20+1)), 413},
		)
	}
	var all []net.Conn
	for _, r := range requests {
		all = append(all, s.announce(r.method, r.path, r.more, r.body))
	}
	for i, r := range requests {
		require.Equal(t, r.status, replyOn(t, all[i]).status, "%s %s %q", r.method, r.path, r.more)
		if r.body == "" {
			requireClosed(t, all[i])
		} else {
			requireClosedUnread(t, all[i])
		}
	}
	s.requireUnharmed()
	require.Zero(t, f.resets.Load(), "what is refused is not done")
	requireEnds(t, end, ended)
}

// Without a token it is the same.
func TestUnwanted_NeverSentWithoutToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("0123456789abcdef"), 0o600))
	known, err := tokens.Read(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s, end, ended := hasty(t, Options{Open: func(string) Feed { return &fake{} }, Tokens: known})
	for _, method := range []string{"GET /v1/feeds/f", "POST /v1/feeds/f/reset", "POST /v1/feeds/f/put", "POST /v1/feeds/f/call"} {
		method, path, _ := strings.Cut(method, " ")
		c := s.announce(method, path, tenBytes, "")
		require.Equal(t, http.StatusUnauthorized, replyOn(t, c).status)
		requireClosed(t, c)
	}
	requireEnds(t, end, ended)
}

// A request keeps no place while its body is waited for, and a body that is cut or large is an error.
func TestUnwanted_TakesNoPlace(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, func(o *Options) { o.Requests = 1 })
	var all []net.Conn
	for range 3 {
		all = append(all, s.announce("POST", "/v1/feeds/f/reset", tenBytes, "123"))
	}
	s.counts(`stint_gateway_requests_in_flight{route="reset"} 3`)
	s.requireUnharmed()
	for _, c := range all {
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		r := replyOn(t, c)
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Contains(t, r.problem(t).Message, "reading the request: unexpected EOF")
	}
	r := replyOn(t, s.announce("POST", "/v1/feeds/f/reset", "Content-Length: 262145\r\n", ""))
	require.Equal(t, http.StatusRequestEntityTooLarge, r.status)
	require.Equal(t, "TooLargeError", r.problem(t).Type)
	require.Zero(t, f.resets.Load(), "what is refused is not done")
	require.Equal(t, http.StatusOK, s.post("/v1/feeds/f/reset", "", strings.Repeat("x", maxUnwanted)).status)
}

// The limit of a body ends with it: neither a long answer nor a later request on the connection ends with the limit,
// and a client that leaves is noticed.
func TestUnwanted_LongAnswers(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, end, ended := hasty(t, Options{Open: func(string) Feed { return f }})
	kept := s.announce("POST", "/v1/feeds/f/reset", tenBytes, "0123456789")
	require.Equal(t, http.StatusOK, replyOn(t, kept).status)
	follower := s.announce("GET", "/v1/feeds/f/results?follow=true", tenBytes, "0123456789")
	readTo(t, follower, `"cursor":"0.3.0"`)
	talker := s.announce("POST", "/v1/feeds/f/call", inChunks, "2\r\n0\n\r\n")
	readTo(t, talker, `"result":0`)

	clock := s.announce("POST", "/v1/feeds/f/reset", tenBytes, "")
	require.Equal(t, http.StatusRequestTimeout, replyOn(t, clock).status) // so the limit of all others is over
	requireClosed(t, clock)

	_, err := io.WriteString(kept, "GET /v1/feeds/f HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, replyOn(t, kept).status)
	_, err = io.WriteString(talker, "2\r\n1\n\r\n")
	require.NoError(t, err)
	readTo(t, talker, `"result":1`)
	_, err = io.WriteString(talker, "0\r\n\r\n")
	require.NoError(t, err)
	readTo(t, talker, "\r\n0\r\n\r\n")
	require.False(t, f.left.Load())
	require.NoError(t, follower.Close())
	eventually(t, f.left.Load)
	s.requireUnharmed()
	requireEnds(t, end, ended)
}

// readTo reads from a connection up to a text, byte by byte.
func readTo(t *testing.T, c net.Conn, text string) {
	t.Helper()
	var got []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(got), text); got = append(got, one...) {
		_, err := io.ReadFull(c, one)
		require.NoError(t, err, "%s", got)
	}
}
