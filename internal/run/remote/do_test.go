package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/run/command"
)

func TestDo_Request(t *testing.T) {
	t.Parallel()
	e := open(t, Options{
		Method: "put", Env: env("KEY", "abcdef"), Headers: []string{"Authorization: Bearer $KEY"},
		URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s|%s|%s|%s|%s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
				r.Header.Get("Idempotency-Key"), body)
		}) + "/v1/{id}?q={q}",
	})
	require.Equal(t, `"PUT /v1/a%20b?q=%26|Bearer abcdef|application/json|key|{\"id\":\"a b\",\"q\":\"&\"}"`,
		result(t, e, object(`{"id": "a b", "q": "&"}`)))
}

func TestDo_Results(t *testing.T) {
	t.Parallel()
	const html = "<!DOCTYPE html>\n<title>Bad\tgateway</title>"
	for name, c := range map[string]struct {
		content, body, path string
		want                string // a result, or a fault: its type and what its message has
		message             string
	}{
		"JSON":             {"application/json", ` {"a": [1.0, "x"]} `, "", `{"a":[1.0,"x"]}`, ""},
		"JSON as text":     {"text/plain", "12 ", "", "12", ""},
		"text":             {"text/plain", "a \"b\"\n", "", `"a \"b\"\n"`, ""},
		"nothing":          {"", "", "", `""`, ""},
		"HTML":             {"text/html", html, "", `"<!DOCTYPE html>\n<title>Bad\tgateway</title>"`, ""},
		"path":             {"application/json", `{"a": {"b": "x"}}`, ".a.b", `"x"`, ""},
		"number":           {"", `{"a": 12345678901234567890.10}`, ".a", "12345678901234567890.10", ""},
		"list":             {"", `{"a": [{"b": 1}, {"b": 2}]}`, "[.a[].b]", "[1,2]", ""},
		"null":             {"", `{"a": 1}`, ".b", "null", ""},
		"HTML for JSON":    {"text/html; charset=utf-8", html, ".a", TypeNotJSON, "answered 200 OK, but not with JSON (text/html): <!DOCTYPE html> <title>Bad gateway</title>"},
		"not what it says": {"application/json", html, "", TypeNotJSON, "answered 200 OK, but not with JSON (application/json): <!DOCTYPE"},
		"half":             {"application/problem+json", `{"a": `, "", TypeNotJSON, `(application/problem+json): {"a":`},
		"nothing for JSON": {"", "", ".a", TypeNotJSON, "answered 200 OK, but not with JSON"},
		"none":             {"", `{"a": []}`, ".a[]", TypeResultPath, `result path .a[]: it gives no value: a result is one, [.a[]] makes a list of them: the answer begins: {"a": []}`},
		"several":          {"", `{"a": [1, 2]}`, ".a[]", TypeResultPath, "it gives several values"},
		"wrong":            {"", `{"a": 1}`, ".a.b", TypeResultPath, "expected an object but got: number"},
		"error":            {"", `{"a": 1}`, `error("no")`, TypeResultPath, "no"},
		"environment":      {"", `1`, `$ENV.PATH`, "null", ""},
		"too long":         {"", `"x"`, `[range(100000)]`, TypeResultPath, "bytes, of at most 65536"},
		"deep":             {"application/json", strings.Repeat("[", 2000) + strings.Repeat("]", 2000), "", TypeNotJSON, "[[["},
	} {
		e := open(t, Options{ResultPath: c.path, MaxAnswer: 64 << 10, URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.content}
			_, _ = io.WriteString(w, c.body)
		})})
		if !strings.HasPrefix(c.want, "N") && !strings.HasPrefix(c.want, "R") {
			require.Equal(t, c.want, result(t, e, line("x")), name)
			continue
		}
		f := faultOf(t, e, line("x"))
		require.Equal(t, []any{c.want, 200}, []any{f.Type, f.Status}, name)
		require.Contains(t, f.Message, c.message, name)
	}
}

// What a server says is shown as one line of its first characters.
func TestDo_StartOfBody(t *testing.T) {
	t.Parallel()
	e := open(t, Options{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(422)
		_, _ = io.WriteString(w, "\r\n a\x00\x1b[31m\tb\xff\u200bc "+strings.Repeat("é", 100_000))
	}) + "/x?key=hidden"})
	f := faultOf(t, e, line("x"))
	require.Contains(t, f.Message, "/x answered 422 Unprocessable Entity: a [31m b\uFFFD\uFFFDc éé")
	require.True(t, strings.HasSuffix(f.Message, "é…"))
	require.Less(t, len(f.Message), 400)
	require.NotContains(t, f.Message, "hidden")
}

func TestDo_Array(t *testing.T) {
	t.Parallel()
	answer := ""
	var calls atomic.Int64
	e := open(t, Options{Array: true, Body: `{"t": {t}}`, ResultPath: ".r", URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "BODY", string(body)))
	})})
	require.True(t, e.Several())
	items := []command.Item{object(`{"t": 1}`), object(`{"x": 1}`), object(`{"t": "b"}`)}

	answer = `{"r": BODY}`
	reply, err := do(t, e, items...)
	require.NoError(t, err)
	require.Equal(t, `{"t":1}`, string(reply.Items[0].Value))
	require.Equal(t, TypeTemplate, reply.Items[1].Fault.Type)
	require.Equal(t, `{"t":"b"}`, string(reply.Items[2].Value))

	for wrong, message := range map[string]string{
		`{"r": [1]}`: "answered 200 OK: the call was given 2 items and answered with 1 result", `{"r": [1, 2, 3]}`: "given 2 items and answered with 3 results",
		`{"r": {}}`: "but not with a list of 2 results: {}", `{}`: "but not with a list of 2 results: null",
	} {
		answer = wrong
		_, err = do(t, e, items...)
		var f *Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, []any{"length", TypeLength}, []any{f.Kind, f.Type})
		require.Contains(t, f.Message, message)
	}

	before := calls.Load()
	reply, err = do(t, e, items[1])
	require.NoError(t, err)
	require.Equal(t, TypeTemplate, reply.Items[0].Fault.Type)
	require.Equal(t, before, calls.Load(), "nothing is sent")

	for want, o := range map[string]Options{
		"the URL has a placeholder":      {URL: "https://example.com/{x}"},
		"header X-Id has a placeholder":  {URL: "https://example.com", Headers: []string{"X-Id: {x}"}},
		"a form cannot hold several":     {URL: "https://example.com", Body: "{x}", Headers: []string{"Content-Type: application/x-www-form-urlencoded"}},
		`method "TRACE": use GET, POST,`: {URL: "https://example.com", Method: "TRACE"},
	} {
		o.Array = true
		_, err := New(o)
		require.ErrorContains(t, err, want)
	}
}

// A gigabyte is not read: the server notices that nobody listens.
func TestDo_TooLarge(t *testing.T) {
	t.Parallel()
	const limit, most = 1 << 20, 64 << 20
	sent := make(chan int, 1)
	e := open(t, Options{MaxAnswer: limit, URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n, chunk := 0, make([]byte, 64<<10)
		for n < 1<<30 {
			wrote, err := w.Write(chunk)
			if n += wrote; err != nil {
				break
			}
		}
		sent <- n
	})})
	f := faultOf(t, e, line("x"))
	require.Equal(t, []any{Fail, TypeTooLarge}, []any{f.Verdict, f.Type})
	require.Contains(t, f.Message, "the answer has more than 1048576 bytes")
	require.Less(t, <-sent, most)

	stated := open(t, Options{MaxAnswer: limit, URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1073741824")
		w.WriteHeader(http.StatusOK)
	})})
	require.Equal(t, TypeTooLarge, faultOf(t, stated, line("x")).Type)
}

// An answer that unpacks to more than the limit is too large, too.
func TestDo_TooLargeUnpacked(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(make([]byte, 8<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.Less(t, packed.Len(), 1<<20)
	e := open(t, Options{MaxAnswer: 1 << 20, URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})})
	require.Equal(t, TypeTooLarge, faultOf(t, e, line("x")).Type)
}

func TestDo_TooLargeHeaders(t *testing.T) {
	t.Parallel()
	e := open(t, Options{URL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 600 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
		}
	})})
	f := faultOf(t, e, line("x"))
	require.Equal(t, TypeTooLarge, f.Type)
	require.Contains(t, f.Message, "the headers of the answer have more than 262144 bytes")
}

// raw is a server that answers each connection with bytes, and closes it.
func raw(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return "http://" + listener.Addr().String()
}

func TestDo_HalfAnswers(t *testing.T) {
	t.Parallel()
	for answer, message := range map[string]string{
		"": "EOF",
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":":             "answered 200 OK: the answer ended after 5 bytes, before its end: unexpected EOF",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":": "the answer ended after 5 bytes",
		"HTTP/1.1 200 OK\r\nContent-":                                       "malformed MIME header",
		"nonsense\r\n\r\n":                                                  "malformed HTTP",
	} {
		f := faultOf(t, open(t, Options{URL: raw(t, answer)}), line("x"))
		require.Equal(t, []any{Again, TypeNetwork}, []any{f.Verdict, f.Type}, answer)
		require.Contains(t, f.Message, message)
	}
	f := faultOf(t, open(t, Options{URL: raw(t, "HTTP/1.1 503 Away\r\nContent-Length: 100\r\n\r\nsorry")}), line("x"))
	require.Contains(t, f.Message, "answered 503 Service Unavailable: sorry")
}

func TestDo_NobodyListens(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	f := faultOf(t, open(t, Options{URL: at}), line("x"))
	require.Equal(t, []any{Again, TypeNetwork, false}, []any{f.Verdict, f.Type, f.SlowDown})
	require.Contains(t, f.Message, "connection refused")
}

// An answer that never ends, or never begins, ends with the context.
func TestDo_NeverEnds(t *testing.T) {
	t.Parallel()
	for _, begin := range []int{0, 200, 503} {
		waits := make(chan struct{})
		e := open(t, Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then it is noticed that the client goes
			if begin != 0 {
				w.WriteHeader(begin)
				_, _ = io.WriteString(w, "[1,")
				_ = http.NewResponseController(w).Flush()
			}
			close(waits)
			<-r.Context().Done()
		})})
		why := errors.New("the timer has expired")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-waits
			cancel(why)
		}()
		_, err := e.Do(ctx, e.NewRequest(oneItem(line("x"))), "key")
		require.ErrorIs(t, err, why)
		require.NotErrorAs(t, err, new(*Fault))
	}
}
