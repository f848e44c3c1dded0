package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

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
			return nil, &jobs.FeedError{Code: jobs.CodeItem, Item: new(int64(101)), Failure: &job.Failure{Kind: "error", Error: job.Error{Type: "ValueError", Message: "bad"}}}
		case "2":
			return nil, &jobs.FeedError{Code: jobs.CodeDropped, Item: new(int64(102))}
		case "3":
			return nil, &jobs.FeedError{Code: jobs.CodeDiscarded, Item: new(int64(103)), Session: 1}
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
	s.counts(`stint_gateway_requests_total{route="call",status="499"} 1`)
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
	c := s.converse("/v1/feeds/f/call?timeout=3s", "0\n1\n") // the first outcome comes in time
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
