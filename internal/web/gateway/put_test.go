package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

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

// A list of known length is refused as a whole; what flows is cut to what the feed takes, and a refusal says how far it
// came.
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
			return &jobs.FeedError{Code: jobs.CodeTooLarge, Items: len(list), MaxItems: 100, MaxBytes: 1 << 20}
		case n+len(list) > 1150:
			return &jobs.FeedError{Code: jobs.CodeFull, Feed: "f", MaxItems: 100}
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
