package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// fake is a feed that only its functions know. Without one for a call, it answers with the item.
type fake struct {
	mu       sync.Mutex
	lists    [][]Value // that were accepted
	waits    []time.Duration
	put      func(list []Value) error
	call     func(ctx context.Context, item Value) (Value, error)
	window   int
	state    func() (job.FeedState, error)
	taken    atomic.Int64 // by streams
	left     atomic.Bool  // a stream has been left before its end
	released atomic.Bool
	broken   error // of results
}

func (f *fake) Put(ctx context.Context, items ...Value) error { return f.PutWait(ctx, 0, items...) }

func (f *fake) PutWait(_ context.Context, limit time.Duration, items ...Value) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = append(f.waits, limit)
	if f.put != nil {
		if err := f.put(items); err != nil {
			return err
		}
	}
	f.lists = append(f.lists, items)
	return nil
}

func (f *fake) Call(ctx context.Context, item Value) (Value, error) {
	if f.call == nil {
		return item, nil
	}
	return f.call(ctx, item)
}

// Stream has up to window items in hand, and is as lazy as a real one.
func (f *fake) Stream(ctx context.Context, items iter.Seq[Value], o job.StreamOptions) iter.Seq2[job.Result[Value, Value], error] {
	type pending struct {
		out Value
		err error
	}
	return func(yield func(job.Result[Value, Value], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		fed := make(chan chan pending, max(f.window, 1))
		go func() {
			defer close(fed)
			items(func(item Value) bool {
				f.taken.Add(1)
				done := make(chan pending, 1)
				select {
				case fed <- done:
				case <-ctx.Done():
					return false
				}
				go func() {
					out, err := f.Call(ctx, item)
					done <- pending{out, err}
				}()
				return true
			})
		}()
		for index := int64(0); ; index++ {
			var done chan pending
			more := false
			select {
			case done, more = <-fed:
			case <-ctx.Done():
			}
			if !more {
				if ctx.Err() != nil {
					f.left.Store(true)
					yield(job.Result[Value, Value]{Index: index, Ordinal: -1}, ctx.Err())
				}
				return
			}
			var p pending
			select {
			case p = <-done:
			case <-ctx.Done():
				p.err = ctx.Err()
			}
			r := job.Result[Value, Value]{Index: index, Ordinal: 100 + index, Out: p.out}
			if dropped := (*job.DroppedError)(nil); errors.As(p.err, &dropped) {
				r.Dropped, p.err = true, nil
			}
			if !yield(r, p.err) || p.err != nil && !ofItem(p.err) {
				f.left.Store(true)
				return
			}
		}
	}
}

// Results has as many results as the cursor's item leaves of three; then, if it follows, it waits for the end.
func (f *fake) Results(ctx context.Context, from job.FeedCursor, o job.ResultsOptions) iter.Seq2[job.RecordedResult[Value], error] {
	return func(yield func(job.RecordedResult[Value], error) bool) {
		if f.broken != nil && from.Item == 0 {
			yield(job.RecordedResult[Value]{Next: from}, f.broken)
			return
		}
		for from.Item < 3 {
			value := Value(fmt.Sprint(from.Item))
			from.Item++
			if !yield(job.RecordedResult[Value]{Out: value, Next: from}, nil) {
				f.left.Store(true)
				return
			}
		}
		if !o.Committed {
			<-ctx.Done()
			f.left.Store(true)
			yield(job.RecordedResult[Value]{Next: from}, ctx.Err())
			return
		}
		if f.broken != nil {
			yield(job.RecordedResult[Value]{Next: from}, f.broken)
		}
	}
}

func (f *fake) State(context.Context) (job.FeedState, error) {
	if f.state == nil {
		return job.FeedState{Capacity: 256, CapacityBytes: 4 << 20, Session: 1}, nil
	}
	return f.state()
}

func (f *fake) Reset(context.Context) (job.FeedReset, error) {
	return job.FeedReset{Session: 2, Discarded: 3}, nil
}
func (f *fake) Close(context.Context) error { return nil }
func (f *fake) Release()                    { f.released.Store(true) }

func (f *fake) accepted() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, list := range f.lists {
		n += len(list)
	}
	return n
}

// served is a gateway to one feed, on loopback.
type served struct {
	t       *testing.T
	url     string
	gateway *Gateway
	client  *http.Client
}

func serve(t *testing.T, f *fake, change func(*Options)) *served {
	t.Helper()
	o := Options{Open: func(string) Feed { return f }, Loopback: true}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	require.NoError(t, err)
	server := httptest.NewServer(g)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
		g.Close()
	})
	return &served{t: t, url: server.URL, gateway: g, client: client}
}

type reply struct {
	status int
	header http.Header
	body   string
}

// problem is the error that the reply has.
func (r reply) problem(t *testing.T) problem {
	t.Helper()
	var got failed
	require.NoError(t, json.Unmarshal([]byte(r.body), &got), r.body)
	return got.Error
}

func (s *served) send(method, path, media string, body io.Reader, headers ...string) reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	require.NoError(s.t, err)
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return reply{response.StatusCode, response.Header, string(text)}
}

func (s *served) post(path, media, body string, headers ...string) reply {
	s.t.Helper()
	return s.send(http.MethodPost, path, media, strings.NewReader(body), headers...)
}

const (
	jsonType = "application/json"
	lineType = "application/x-ndjson"
)

// Each error of a feed has its status and its type.
func TestStatuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		err    error
		status int
		kind   string
	}{
		{&job.FullError{Name: "f", Capacity: 8}, 429, "FullError"},
		{&job.TooLargeError{Items: 9, MaxItems: 8}, 413, "TooLargeError"},
		{&job.InvalidItemError{Err: io.EOF}, 400, "InvalidItemError"},
		{&job.ClosedError{Name: "f"}, 409, "ClosedError"},
		{&job.StoppedError{Name: "f"}, 409, "StoppedError"},
		{&job.FailedError{}, 409, "FailedError"},
		{&job.NotFoundError{Name: "f"}, 404, "NotFoundError"},
		{&job.NotFeedError{Name: "f"}, 404, "NotFeedError"},
		{&job.UnservedError{Name: "f"}, 503, "UnservedError"},
		{&job.TimeoutError{Queued: time.Second, Total: 2 * time.Second}, 504, "TimeoutError"},
		{context.DeadlineExceeded, 504, "TimeoutError"},
		{&job.UncertainError{Err: &job.TimeoutError{Queued: -1}}, 504, "UncertainError"},
		{&job.UncertainError{Err: &job.ClosedError{}}, 502, "UncertainError"},
		{&job.ItemError{Item: 5, Kind: "crash", Err: job.Error{Type: "Signal", Message: "killed"}}, 422, "ItemError"},
		{&job.DroppedError{Item: 5}, 422, "DroppedError"},
		{&job.DiscardedError{Item: 5}, 410, "DiscardedError"},
		{&job.StoredError{Item: -1}, 410, "StoredError"},
		{&job.DecodeError{Item: 5, Err: io.EOF}, 502, "DecodeError"},
		{job.ErrReleased, 503, "UnavailableError"},
		{errors.New("connection refused"), 502, "UnavailableError"},
	}
	for _, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &fake{
				call:  func(context.Context, Value) (Value, error) { return nil, c.err },
				put:   func([]Value) error { return c.err },
				state: func() (job.FeedState, error) { return job.FeedState{}, c.err },
			}, nil)
			replies := []reply{
				s.post("/v1/feeds/f/call", jsonType, `1`),
				s.post("/v1/feeds/f/put", jsonType, `1`),
				s.send(http.MethodGet, "/v1/feeds/f", "", nil),
			}
			if !ofItem(c.err) {
				replies = append(replies, s.post("/v1/feeds/f/call", lineType, "1\n2\n"))
			}
			for _, r := range replies {
				require.Equal(t, c.status, r.status, r.body)
				p := r.problem(t)
				require.Equal(t, c.kind, p.Type)
				require.NotEmpty(t, p.Message)
				require.Equal(t, c.status == 429 || c.status == 503, r.header.Get("Retry-After") == "1")
			}
		})
	}
	p := func(err error) problem { _, p := explain(err); return p }
	require.Equal(t, 8, p(cases[0].err).Capacity)
	require.InDelta(t, 1.0, *p(cases[9].err).Queued, 1e-9)
	require.Nil(t, p(cases[11].err).Reason.Queued)
	require.Equal(t, &job.Error{Type: "Signal", Message: "killed"}, p(cases[13].err).Cause)
	require.EqualValues(t, 5, *p(cases[13].err).Item)
}

// What is wrong with the request itself.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	large := `"` + strings.Repeat("x", job.MaxPutBytes) + `"`
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

// A body of known length is one list; an array that is a JSON value is one item.
func TestPut(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	for _, c := range []struct {
		media, body string
		want        []string
	}{
		{jsonType, " [1,\n 2] ", []string{"[1,2]"}},
		{lineType, "1\r\n\n{\"a\": 2}\n3", []string{"1", `{"a": 2}`, "3"}},
		{"", `"x"`, []string{`"x"`}},
		{"text/plain; charset=utf-8", "null\n", []string{"null"}},
		{"", "", nil},
	} {
		f.lists = nil
		r := s.post("/v1/feeds/f/put?wait=5s", c.media, c.body)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.JSONEq(t, fmt.Sprintf(`{"accepted":%d}`, len(c.want)), r.body)
		var got []string
		for _, list := range f.lists {
			for _, item := range list {
				got = append(got, string(item))
			}
		}
		require.Equal(t, c.want, got)
		require.LessOrEqual(t, len(f.lists), 1)
	}
	require.Equal(t, 5*time.Second, f.waits[0])
}

// A list of known length is refused as a whole; what flows is cut to what the feed takes, and a refusal says how far it came.
func TestPut_WholeOrFlowing(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.put = func(list []Value) error {
		n := 0
		for _, l := range f.lists {
			n += len(l)
		}
		switch {
		case len(list) > 100:
			return &job.TooLargeError{Items: len(list), MaxItems: 100, MaxBytes: 1 << 20}
		case n+len(list) > 1150:
			return &job.FullError{Name: "f", Capacity: 100}
		}
		return nil
	}
	s := serve(t, f, nil)
	r := s.post("/v1/feeds/f/put", lineType, strings.Repeat("1\n", 150))
	require.Equal(t, http.StatusRequestEntityTooLarge, r.status, r.body)
	require.Zero(t, f.accepted())

	r = s.post("/v1/feeds/f/put", lineType, strings.Repeat("1\n", 1120)) // more than any list
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.JSONEq(t, `{"accepted":1120}`, r.body)
	require.Equal(t, 1120, f.accepted())

	f.lists = nil
	r = s.send(http.MethodPost, "/v1/feeds/f/put", lineType, io.MultiReader(strings.NewReader(strings.Repeat("1\n", 2000)), strings.NewReader("2\n")))
	require.Equal(t, http.StatusTooManyRequests, r.status, r.body)
	var got failed
	require.NoError(t, json.Unmarshal([]byte(r.body), &got))
	require.EqualValues(t, f.accepted(), *got.Accepted)
	require.GreaterOrEqual(t, f.accepted(), 1051)

	f.lists = nil
	r = s.send(http.MethodPost, "/v1/feeds/f/put", lineType, io.MultiReader(strings.NewReader("1\n2\n"), strings.NewReader("three\n")))
	require.Equal(t, http.StatusBadRequest, r.status, r.body)
	require.Contains(t, r.problem(t).Message, "line 3")
	require.Equal(t, 2, f.accepted(), "what flows is put up to the line")
}

// Items of a body that goes on are put as they come.
func TestPut_Live(t *testing.T) {
	t.Parallel()
	put := make(chan int, 10)
	s := serve(t, &fake{put: func(list []Value) error { put <- len(list); return nil }}, nil)
	in, out := io.Pipe()
	answered := make(chan reply, 1)
	go func() { answered <- s.send(http.MethodPost, "/v1/feeds/f/put", lineType, in) }()
	for range 2 {
		_, err := io.WriteString(out, "1\n2\n")
		require.NoError(t, err)
		require.Equal(t, 2, <-put)
	}
	require.NoError(t, out.Close())
	require.JSONEq(t, `{"accepted":4}`, (<-answered).body)
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

// refusal is the status of a request whose body the server may not want to read; 0: the connection was closed instead, which
// the client noticed first.
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

func TestCall_OneValue(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	r := s.post("/v1/feeds/f/call", jsonType, `{"a": "<&>"}`)
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, "{\"a\":\"<&>\"}\n", r.body)
	require.Equal(t, jsonType, r.header.Get("Content-Type"))
	f.call = func(ctx context.Context, _ Value) (Value, error) {
		deadline, has := ctx.Deadline()
		require.True(t, has)
		require.InDelta(t, 7, time.Until(deadline).Seconds(), 2)
		return Value("null"), nil
	}
	require.Equal(t, "null\n", s.post("/v1/feeds/f/call?timeout=7s", jsonType, `1`).body)
}

// Outcomes come in the order of the items, and an item's error stands in its place.
func TestCall_Lines(t *testing.T) {
	t.Parallel()
	f := &fake{window: 4, call: func(_ context.Context, item Value) (Value, error) {
		switch string(item) {
		case "1":
			return nil, &job.ItemError{Item: 101, Kind: "error", Err: job.Error{Type: "ValueError", Message: "bad"}}
		case "2":
			return nil, &job.DroppedError{Item: 102}
		case "3":
			return nil, &job.DiscardedError{Item: 103, Session: 1}
		}
		return Value(`"<` + string(item) + `>"`), nil
	}}
	s := serve(t, f, nil)
	r := s.post("/v1/feeds/f/call", lineType, "0\n1\n\n2\n3\n4\n")
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Equal(t, lineType, r.header.Get("Content-Type"))
	require.Equal(t, `{"index":0,"item":100,"result":"<0>"}
{"index":1,"item":101,"error":{"kind":"error","type":"ValueError","message":"bad"}}
{"index":2,"item":102,"dropped":true}
{"index":3,"item":103,"error":{"kind":"discarded","type":"DiscardedError","message":"item 103: discarded, because session 1 has ended"}}
{"index":4,"item":104,"result":"<4>"}
`, r.body)
	r = s.post("/v1/feeds/f/call", lineType, "")
	require.Equal(t, http.StatusOK, r.status)
	require.Empty(t, r.body)
	r = s.post("/v1/feeds/f/call", lineType, "0\n5\nx\n6\n")
	require.Equal(t, http.StatusOK, r.status)
	lines := strings.Split(strings.TrimSpace(r.body), "\n")
	require.Len(t, lines, 3, "what comes before the invalid line is done")
	require.Contains(t, lines[2], `{"error":{"type":"InvalidItemError","message":"line 3: invalid JSON`)
}

// conversation is a request for results whose body goes on.
type conversation struct {
	t        *testing.T
	out      *io.PipeWriter
	response *http.Response
	in       *bufio.Scanner
	cancel   context.CancelFunc
}

// converse begins one with some items, which must have outcomes.
func (s *served) converse(path, first string) *conversation {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	in, out := io.Pipe()
	go func() { _, _ = io.WriteString(out, first) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, in)
	require.NoError(s.t, err)
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _, _ = response.Body.Close(), out.Close() })
	return &conversation{s.t, out, response, bufio.NewScanner(response.Body), cancel}
}

func (c *conversation) line() string {
	c.t.Helper()
	require.True(c.t, c.in.Scan(), "%v", c.in.Err())
	return c.in.Text()
}

// Results come while items are still being sent.
func TestCall_Converses(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	c := s.converse("/v1/feeds/f/call", "0\n")
	for i := range 5 {
		require.Equal(t, fmt.Sprintf(`{"index":%d,"item":%d,"result":%d}`, i, 100+i, i), c.line())
		_, err := fmt.Fprintln(c.out, i+1)
		require.NoError(t, err)
	}
	require.NoError(t, c.out.Close())
	c.line()
	require.False(t, c.in.Scan())
}

// A client that goes away ends its stream, and nothing more is taken from it.
func TestCall_ClientLeaves(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	f := &fake{window: 2, call: func(ctx context.Context, item Value) (Value, error) {
		if string(item) == "0" {
			return item, nil
		}
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}}
	defer close(hold)
	s := serve(t, f, nil)
	c := s.converse("/v1/feeds/f/call", "0\n1\n")
	c.line()
	c.cancel()
	eventually(t, func() bool { return f.left.Load() && len(s.gateway.places) == 0 })

	one := make(chan struct{})
	s = serve(t, &fake{call: func(ctx context.Context, _ Value) (Value, error) {
		close(one)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/feeds/f/call", strings.NewReader("1"))
	require.NoError(t, err)
	request.Header.Set("Content-Type", jsonType)
	go func() { <-one; cancel() }()
	_, err = s.client.Do(request) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	eventually(t, func() bool { return len(s.gateway.places) == 0 })
	require.Contains(t, s.send(http.MethodGet, "/metrics", "", nil).body, `stint_gateway_requests_total{route="call",status="499"} 1`)
}

// An outcome that does not come in time ends the request.
func TestCall_Timeout(t *testing.T) {
	t.Parallel()
	f := &fake{call: func(ctx context.Context, item Value) (Value, error) {
		if string(item) == "0" {
			return item, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	s := serve(t, f, nil)
	r := s.post("/v1/feeds/f/call?timeout=20ms", lineType, "1\n")
	require.Equal(t, http.StatusGatewayTimeout, r.status, r.body)
	require.Equal(t, "TimeoutError", r.problem(t).Type)
	require.Greater(t, r.problem(t).Total, 0.019)
	c := s.converse("/v1/feeds/f/call?timeout=20ms", "0\n1\n")
	c.line()
	require.Contains(t, c.line(), `{"error":{"type":"TimeoutError"`)
	require.False(t, c.in.Scan())
}

// A request's items in hand are bounded in bytes, whatever the window of the stream.
func TestCall_BoundedInHand(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	f := &fake{window: 1000, call: func(ctx context.Context, item Value) (Value, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return Value("1"), nil
	}}
	s := serve(t, f, nil)
	answered := make(chan reply, 1)
	line := `"` + strings.Repeat("x", 1<<20-3) + "\"\n"
	go func() { answered <- s.post("/v1/feeds/f/call", lineType, strings.Repeat(line, 20)) }()
	eventually(t, func() bool { return f.taken.Load() == 4 })
	require.Never(t, func() bool { return f.taken.Load() > 4 }, 50*time.Millisecond, time.Millisecond)
	close(hold)
	require.Equal(t, 20, strings.Count((<-answered).body, "\n"))
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, time.Millisecond)
}

// X2: on loopback, Host and Origin are checked, for every route.
func TestX2_HostAndOrigin(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	for _, rt := range s.gateway.routes {
		path := strings.ReplaceAll(rt.path, "{name}", "f")
		r := s.send(rt.method, path, "", nil, "Host", "rebound.example")
		require.Equal(t, http.StatusForbidden, r.status, rt.path)
		require.Equal(t, "ForbiddenError", r.problem(t).Type)
		r = s.send(rt.method, path, "", nil, "Origin", "http://evil.example")
		require.Equal(t, http.StatusForbidden, r.status, rt.path)
		require.Less(t, s.send(rt.method, path, "", nil, "Host", "localhost:1").status, 400, rt.path)
	}
	open := serve(t, &fake{}, func(o *Options) { o.Loopback = false })
	require.Equal(t, http.StatusOK, open.send(http.MethodGet, "/v1/feeds/f", "", nil, "Host", "gateway.example").status)
}

// X2: the gateway knows tokens, and reads their file again when it changes.
func TestX2_Tokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	first, second := "first-0123456789abcdef", "other-0123456789abcdef"
	write(first + "\n")
	tokens, err := ReadTokens(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s := serve(t, &fake{}, func(o *Options) { o.Tokens = tokens })
	status := func(header string) int {
		r := s.send(http.MethodGet, "/v1/feeds/f", "", nil, "Authorization", header)
		if r.status == http.StatusUnauthorized {
			require.Equal(t, "UnauthorizedError", r.problem(t).Type)
			require.Contains(t, r.header.Get("WWW-Authenticate"), "Bearer")
			require.NotContains(t, r.body, first)
		}
		return r.status
	}
	require.Equal(t, 200, status("Bearer "+first))
	require.Equal(t, 200, status("bearer "+first))
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer x", "Bearer " + first + "x", "Bearer " + first[:20], "Basic " + first, first, "Bearer " + second} {
		require.Equal(t, 401, status(wrong), wrong)
	}
	for _, path := range []string{"/health", "/metrics", "/openapi.json"} {
		require.Equal(t, 200, s.send(http.MethodGet, path, "", nil).status, "these need none")
	}
	for _, rt := range s.gateway.routes {
		if strings.HasPrefix(rt.path, "/v1/") {
			require.Equal(t, 401, s.send(rt.method, strings.ReplaceAll(rt.path, "{name}", "f"), "", nil).status, rt.path)
		}
	}
	write(first + "\n" + second + "\n")
	require.Equal(t, 200, status("Bearer "+second))
	write(second + "\n") // as long as the first file was
	require.Equal(t, 401, status("Bearer "+first))
	require.Equal(t, 200, status("Bearer "+second))
	info, err := os.Stat(path)
	require.NoError(t, err)
	write(first + "\n")
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime())) // as if within one tick of the file system's clock
	require.Equal(t, 401, status("Bearer "+second))
	require.Equal(t, 200, status("Bearer "+first))
	for _, bad := range []string{"", "short\n", "two tokens on one line\n", strings.Repeat("x", maxTokenFile+1)} {
		write(bad)
		require.Equal(t, 401, status("Bearer "+second), "%.20q", bad)
		_, err := ReadTokens(path, nil)
		require.Error(t, err)
	}
	require.NoError(t, os.Remove(path))
	require.Equal(t, 401, status("Bearer "+second))
	write(second)
	require.Equal(t, 200, status("Bearer "+second))
}

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
	text = s.send(http.MethodGet, "/metrics", "", nil).body
	for _, want := range []string{
		`stint_gateway_requests_total{route="call",status="200"} 2`, `stint_gateway_requests_total{route="put",status="200"} 1`,
		`stint_gateway_requests_total{route="put",status="400"} 1`, `stint_gateway_requests_total{route="put",status="503"} 1`,
		`stint_gateway_requests_in_flight{route="call"} 0`, `stint_gateway_items_put_total 5`, `stint_gateway_results_total 2`,
	} {
		require.Contains(t, text, want+"\n")
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	f := &fake{state: func() (job.FeedState, error) {
		return job.FeedState{Capacity: 8, CapacityBytes: 100, Backlog: 8, Session: 3, Accepted: 20}, nil
	}}
	s := serve(t, f, nil)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(s.send(http.MethodGet, "/v1/feeds/nightly", "", nil).body), &got))
	for name, want := range map[string]any{"name": "nightly", "capacity": 8.0, "backlog": 8.0, "session": 3.0, "accepted": 20.0, "idle": false, "full": true} {
		require.Equal(t, want, got[name], name)
	}
	require.JSONEq(t, `{"session":2,"discarded":3}`, s.post("/v1/feeds/f/reset", "", "").body)
	require.JSONEq(t, `{}`, s.post("/v1/feeds/f/close", "", "").body)
}

// Requests for one feed share a client; those of feeds that nobody has asked for lately are released.
func TestFeeds(t *testing.T) {
	t.Parallel()
	made := map[string]*fake{}
	f := newFeeds(func(name string) Feed { made[name] = &fake{}; return made[name] })
	first, done, err := f.take("first")
	require.NoError(t, err)
	again, doneAgain, err := f.take("first")
	require.NoError(t, err)
	require.Same(t, first, again)
	for i := range maxIdle + 1 {
		_, done, err := f.take(fmt.Sprint(i))
		require.NoError(t, err)
		done()
	}
	require.True(t, made["0"].released.Load(), "the one used longest ago")
	require.False(t, made["1"].released.Load())
	require.False(t, made["first"].released.Load(), "it is in use")
	done()
	doneAgain()
	require.Len(t, f.known, maxIdle)
	f.close()
	require.True(t, made["first"].released.Load())
	_, _, err = f.take("first")
	require.ErrorIs(t, err, job.ErrReleased)
}

// The document describes all routes, errors and statuses, and no others.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	r := s.send(http.MethodGet, "/openapi.json", "", nil)
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, jsonType, r.header.Get("Content-Type"))
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Responses map[string]struct{ Description string }
			Schemas   struct {
				Error struct {
					Properties map[string]struct{ Enum []string }
				}
				State, Outcome struct{ Properties map[string]any }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &doc))
	described := 0
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				described++
				require.Truef(t, hasRoute(s.gateway, strings.ToUpper(method), path), "%s %s", method, path)
			}
		}
	}
	require.Len(t, s.gateway.routes, described)
	require.ElementsMatch(t, keysOf(t, problem{Item: new(int64), Queued: new(float64), Cause: &job.Error{}, Reason: &problem{}}, true), keys(doc.Components.Schemas.Error.Properties))
	require.ElementsMatch(t, keysOf(t, stateAnswer{}, false), keys(doc.Components.Schemas.State.Properties))
	require.Subset(t, keys(doc.Components.Schemas.Outcome.Properties), []string{"index", "item", "result", "dropped", "error"})
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var text bytes.Buffer
	for _, source := range sources {
		if !strings.HasSuffix(source, "_test.go") {
			data, err := os.ReadFile(source)
			require.NoError(t, err)
			text.Write(data)
		}
	}
	for _, kind := range doc.Components.Schemas.Error.Properties["type"].Enum {
		require.Contains(t, text.String(), `"`+kind+`"`)
	}
	for _, word := range strings.FieldsFunc(text.String(), func(r rune) bool { return r != '"' && (r < 'A' || r > 'z') }) {
		if strings.HasPrefix(word, `"`) && strings.HasSuffix(word, `Error"`) {
			require.Contains(t, doc.Components.Schemas.Error.Properties["type"].Enum, strings.Trim(word, `"`))
		}
	}
}

func hasRoute(g *Gateway, method, path string) bool {
	for _, rt := range g.routes {
		if rt.method == method && rt.path == path {
			return true
		}
	}
	return false
}

func keys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

// keysOf are the keys that a struct has in JSON; fill gives all its plain fields a value first.
func keysOf(t *testing.T, v any, fill bool) []string {
	t.Helper()
	if p, ok := v.(problem); ok && fill {
		p.Line, p.Kind, p.Attempts, p.Capacity, p.CapacityBytes, p.Backlog, p.BacklogBytes = 1, "x", 1, 1, 1, 1, 1
		p.MaxItems, p.MaxBytes, p.Waited, p.Total, p.Accepted = 1, 1, 1, 1, true
		v = p
	}
	var fields map[string]any
	require.NoError(t, json.Unmarshal(encode(v), &fields))
	return keys(fields)
}
