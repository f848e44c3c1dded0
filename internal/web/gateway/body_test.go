package gateway

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// What is wrong with the request itself.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	large := `"` + strings.Repeat("x", jobs.MaxPutBytes) + `"`
	for _, c := range []struct {
		path, media, body string
		status            int
		says              string
	}{
		{"/v1/feeds/f/put", lineType, "1\n\n  \n{\"a\":}\n5\n", 400, "line 4: invalid JSON"},
		{"/v1/feeds/f/put", lineType, "1\nNaN\n", 400, "line 2"},
		{"/v1/feeds/f/put", lineType, "1\n\"\xff\"\n", 400, "line 2: invalid JSON: it is not UTF-8"},
		{"/v1/feeds/f/call", lineType, "[1\n", 400, "line 1"},
		{"/v1/feeds/f/call", jsonType, "1 2", 400, "invalid JSON"},
		{"/v1/feeds/f/call", jsonType, "", 400, "invalid JSON"},
		{"/v1/feeds/f/call", jsonType, "[NaN]", 400, "invalid JSON"},
		{"/v1/feeds/f/call", jsonType, large, 413, "larger than 1048576 bytes"},
		{"/v1/feeds/f/put", lineType, "1\n" + large + "\n", 413, "line 2 is longer than"},
		{"/v1/feeds/f/call", lineType, large, 413, "line 1 is longer than"},
		{"/v1/feeds/f/put", "multipart/form-data; boundary=x", "1", 415, "application/x-ndjson"},
		{"/v1/feeds/f/put?wait=soon", lineType, "1", 400, `invalid wait "soon"`},
		{"/v1/feeds/f/put?wait=2h", lineType, "1", 400, `use 0 to 1h`},
		{"/v1/feeds/f/put?wait=1s&wait=2s", lineType, "1", 400, `2 times`},
		{"/v1/feeds/f/put?timeout=1s", lineType, "1", 400, `unknown parameter "timeout": there is wait`},
		{"/v1/feeds/f/call?timeout=0s", lineType, "1", 400, `invalid timeout "0s"`},
		{"/v1/feeds/f/close?now=1", "", "", 400, `unknown parameter`},
		{"/v1/feeds/UPPER/put", lineType, "1", 404, "UPPER"},
		{"/v1/feeds/f", "", "", 405, "use GET"},
		{"/v1/feeds/f/take", "", "", 404, "/openapi.json"},
	} {
		r := s.post(c.path, c.media, c.body)
		require.Equal(t, c.status, r.status, "%s %.40q: %s", c.path, c.body, r.body)
		require.Contains(t, r.problem(t).Message, c.says)
		require.Equal(t, jsonType, r.header.Get("Content-Type"))
	}
	require.Equal(t, 1, f.accepted(), "a refused body leaves no trace, unless it flows: one is too long for a list")
	r := s.post("/v1/feeds/f/put", lineType, "1", "Content-Encoding", "gzip")
	require.Equal(t, 415, r.status, r.body)
	r = s.send(http.MethodDelete, "/v1/feeds/f/put", "", nil)
	require.Equal(t, 405, r.status)
	require.Equal(t, "POST", r.header.Get("Allow"))
}

// endless is a body that repeats a text up to a size, and counts what is read.
type endless struct {
	text string
	size int64
	read atomic.Int64
}

func (e *endless) Read(p []byte) (int, error) {
	at := e.read.Load()
	if at >= e.size {
		return 0, io.EOF
	}
	n := copy(p, e.text[int(at)%len(e.text):])
	e.read.Add(int64(n))
	return n, nil
}

// A line of a gigabyte is refused early; many lines just stream, in bounded memory.
func TestHugeRequests(t *testing.T) {
	const gigabyte = 1 << 30
	f := &fake{}
	var items atomic.Int64
	f.put = func(list []Value) error { items.Add(int64(len(list))); f.lists = nil; return nil }
	s := serve(t, f, nil)
	for _, path := range []string{"/v1/feeds/f/put", "/v1/feeds/f/call"} {
		for _, media := range []string{lineType, jsonType} {
			body := &endless{text: "[" + strings.Repeat("1,", 1000), size: gigabyte}
			status := s.refusal(path, media, body)
			require.Contains(t, []int{0, http.StatusRequestEntityTooLarge}, status)
			require.Less(t, body.read.Load(), int64(32<<20))
		}
	}
	line := `"` + strings.Repeat("x", 997) + "\"\n"
	size := int64(len(line)) * 200_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	watch := &watched{Reader: &endless{text: line, size: size}, each: 10 << 20, look: func() {
		runtime.GC()
		runtime.ReadMemStats(&after)
		most = max(most, after.HeapAlloc)
	}}
	r := s.send(http.MethodPost, "/v1/feeds/f/put", lineType, watch)
	require.JSONEq(t, `{"accepted":200000}`, r.body)
	require.EqualValues(t, 200_000, items.Load())
	require.Less(t, int64(most)-int64(before.HeapAlloc), int64(24<<20))
}

// refusal is the status of a request whose body the server may not want to read; 0: the connection was closed instead,
// which the client noticed first.
func (s *served) refusal(path, media string, body io.Reader) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, body)
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", media)
	response, err := s.client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// watched looks at something each so many bytes.
type watched struct {
	io.Reader
	each, read int
	look       func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.read/w.each != (w.read+n)/w.each {
		w.look()
	}
	w.read += n
	return n, err
}
