package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dial opens a connection to the gateway, to send what no client would. Nothing on it takes longer than patience.
func (s *served) dial() *net.TCPConn {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	require.NoError(s.t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// head is that of a request whose body has so many bytes.
func head(path, media string, bytes int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, media, bytes)
}

// replyOn reads the reply on a connection.
func replyOn(t *testing.T, c net.Conn) reply {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return reply{response.StatusCode, response.Header, string(text)}
}

// requireUnharmed fails unless no request keeps its place, and others are answered.
func (s *served) requireUnharmed() {
	s.t.Helper()
	eventually(s.t, func() bool { return len(s.gateway.places) == 0 })
	require.Equal(s.t, "1\n", s.post("/v1/feeds/f/call", jsonType, "1").body)
}

// paths are all routes that read items, in both forms.
var paths = []struct{ path, media string }{
	{"/v1/feeds/f/put", jsonType}, {"/v1/feeds/f/put", lineType}, {"/v1/feeds/f/call", jsonType}, {"/v1/feeds/f/call", lineType},
}

// A connection that its client half closes in the middle of a body ends at once: what has not come will not. It looks
// as if the client had left, or shows in the body, whichever is noticed first.
func TestBadInput_HalfClosed(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	for _, p := range paths {
		c := s.dial()
		_, err := io.WriteString(c, head(p.path, p.media, 100)+"[1, 2")
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		r := replyOn(t, c)
		require.Contains(t, []int{http.StatusBadRequest, statusGone}, r.status, r.body)
		require.NotEmpty(t, r.problem(t).Message)
	}
	s.requireUnharmed()
	require.Zero(t, f.accepted())
}

// A client that sends a byte now and then, but never a whole item, loses its place after a time.
func TestBadInput_SlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	s.gateway.pause = 100 * time.Millisecond
	for _, p := range paths {
		c := s.dial()
		_, err := io.WriteString(c, head(p.path, p.media, 1_000_000)+`"`)
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for each := time.NewTicker(5 * time.Millisecond); ; <-each.C { // what the client is like
				if _, err := c.Write([]byte("x")); err != nil {
					each.Stop()
					return
				}
			}
		}()
		r := replyOn(t, c)
		require.Equal(t, http.StatusRequestTimeout, r.status, r.body)
		require.Contains(t, r.problem(t).Message, "has not sent a whole item for 100ms")
		require.NoError(t, c.Close())
		<-ended
	}
	s.requireUnharmed()
}

// A client that sends items and reads no result loses its place, too.
func TestBadInput_NeverReads(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{window: 4}, nil)
	s.gateway.reading = 100 * time.Millisecond
	line := `"` + strings.Repeat("x", 1<<19) + "\"\n"
	c := s.dial()
	require.NoError(t, c.SetReadBuffer(4<<10))
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, head("/v1/feeds/f/call", lineType, 400*len(line)))
		for i := 0; i < 400 && err == nil; i++ {
			_, err = io.WriteString(c, line)
		}
		sent <- err
	}()
	require.Error(t, <-sent, "the gateway has closed the connection")
	s.requireUnharmed()
}

// Whoever does not get past the head of a request is cut off; others are served meanwhile.
func TestBadInput_SlowHead(t *testing.T) {
	t.Parallel()
	server, err := Listen("127.0.0.1:0", Options{Open: func(string) Feed { return &fake{} }})
	require.NoError(t, err)
	require.Equal(t, headLimit, server.http.ReadHeaderTimeout)
	server.http.ReadHeaderTimeout = 200 * time.Millisecond
	s, end, ended := serving(t, server, patience)
	var all []net.Conn
	for range 20 {
		c := s.dial()
		_, err := io.WriteString(c, "POST /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
		require.NoError(t, err)
		all = append(all, c)
	}
	s.requireUnharmed()
	for _, c := range all {
		_, err := io.Copy(io.Discard, c) // up to its end
		require.NoError(t, err)
	}
	end()
	require.NoError(t, <-ended)
}

// What is not HTTP, or nonsense in it, is refused at once, or the connection is closed.
func TestBadInput_Nonsense(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, end, ended := listen(t, f, patience)
	const chunked = "POST /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, test := range map[string]struct {
		text   string
		status int // 0: any error
	}{
		"TLS":                 {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
		"zeros":               {strings.Repeat("\x00", 5000) + "\r\n\r\n", 400},
		"no method":           {"/ HTTP/1.1\r\n\r\n", 400},
		"no host":             {"GET /health HTTP/1.1\r\n\r\n", 400},
		"other version":       {"GET /health HTTP/7.3\r\nHost: 127.0.0.1\r\n\r\n", 505},
		"length below zero":   {"POST /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", 400},
		"two lengths":         {"POST /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1", 400},
		"coding unknown":      {"POST /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: zip\r\n\r\n", 501},
		"chunk size":          {chunked + "zz\r\n1\r\n", 400},
		"chunk without end":   {chunked + "2\r\n1\n", 400},
		"head that is large":  {"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		"name that is large":  {"GET /v1/feeds/" + strings.Repeat("x", 8<<10) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404},
		"path of dots":        {"GET /v1/feeds/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 0},
		"name with a NUL":     {"GET /v1/feeds/f%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404},
		"a token in the URL":  {"GET /v1/feeds/f?token=x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400},
		"expects nonsense":    {"POST /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n1", 417},
		"asks for an upgrade": {"GET /v1/feeds/f/put HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 405},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one after the other
			c := s.dial()
			_, _ = io.WriteString(c, test.text) // it may be refused in the middle
			_ = c.CloseWrite()
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if test.status == 0 {
				if err == nil {
					require.NotEqual(t, http.StatusOK, response.StatusCode)
					_ = response.Body.Close()
				}
				return
			}
			require.NoError(t, err)
			defer response.Body.Close()
			require.Equal(t, test.status, response.StatusCode)
		})
	}
	s.requireUnharmed()
	require.LessOrEqual(t, f.accepted(), 1, "of the chunk without an end: what flows is put")
	end()
	require.NoError(t, <-ended)
}

// Items that are unusual JSON are taken byte for byte; what is not JSON is refused with its line.
func TestBadInput_Items(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	million := strings.Repeat("y", 1_000_000)
	for _, item := range []string{
		`{"field":"` + million + `"}`, `{"` + million + `":1}`, "[" + strings.Repeat("1,", 400_000) + "1]", strings.Repeat("7", 100_000),
		`"\ud800"`, `{"a":1,"a":2}`, strings.Repeat("[", 1000) + strings.Repeat("]", 1000), `1e999999`, `-0`,
	} {
		for _, media := range []string{jsonType, lineType} {
			r := s.post("/v1/feeds/f/call", media, item)
			require.Equal(t, http.StatusOK, r.status, "%.60s: %.200s", item, r.body)
			require.Contains(t, r.body, item)
		}
	}
	for _, item := range []string{
		strings.Repeat("[", 500_000), strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001), "\xef\xbb\xbf1", "1\x00", "\"\x00\"", "'1'", "{a:1}", "[1,]",
		"Infinity", "0x10", "01", "+1", "tru", `"\x"`, "\"\xc0\xaf\"", `{"a"}`,
	} {
		for _, media := range []string{jsonType, lineType} {
			r := s.post("/v1/feeds/f/call", media, item)
			require.Equal(t, http.StatusBadRequest, r.status, "%.60q: %.200s", item, r.body)
			require.Equal(t, "InvalidItemError", r.problem(t).Type)
			require.Less(t, len(r.body), 1000, "the answer does not repeat the item")
		}
	}
	s.requireUnharmed()
}

// A body without an end, where none belongs, is not read to its end.
func TestBadInput_EndlessBodiesOfOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	for _, path := range []string{"/v1/feeds/f/reset", "/v1/feeds/f/close", "/v1/feeds/f", "/openapi.json", "/nowhere"} {
		body := &endless{text: strings.Repeat("x", 1000), size: 1 << 40}
		s.refusal(path, lineType, body)
		require.Less(t, body.read.Load(), int64(32<<20), path)
	}
	s.requireUnharmed()
}
