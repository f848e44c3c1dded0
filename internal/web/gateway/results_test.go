package gateway

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stint-run/stint/jobs"
	"github.com/stretchr/testify/require"
)

// What a feed has recorded comes as lines with cursors, from a cursor on; an error stands at the end, or is the answer.
func TestResults(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	get := func(query string) reply {
		return s.send(http.MethodGet, "/v1/feeds/f/results"+query, "", nil)
	}
	r := get("")
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, "{\"result\":0,\"cursor\":\"0.1.0\"}\n{\"result\":1,\"cursor\":\"0.2.0\"}\n{\"result\":2,\"cursor\":\"0.3.0\"}\n", r.body)
	require.Equal(t, "{\"result\":2,\"cursor\":\"4.3.0\"}\n", get("?cursor=4.2.0&session=4").body)
	r = get("?cursor=0.3.0")
	require.Equal(t, http.StatusOK, r.status)
	require.Empty(t, r.body)

	for query, says := range map[string]string{
		"?cursor=x": "invalid cursor", "?cursor=-1.0.0": "invalid cursor", "?session=0": "invalid session", "?session=2&cursor=1.0.0": "of session 1, and not of 2",
		"?follow=maybe": "invalid follow", "?from=1": "unknown parameter",
	} {
		r := get(query)
		require.Equal(t, http.StatusBadRequest, r.status, query)
		require.Equal(t, typeInvalidRequest, r.problem(t).Type)
		require.Contains(t, r.problem(t).Message, says)
	}
}

func TestResults_Errors(t *testing.T) {
	t.Parallel()
	f := &fake{broken: &jobs.FeedError{Code: jobs.CodeStored, Err: errors.New("denied")}}
	s := serve(t, f, nil)
	r := s.send(http.MethodGet, "/v1/feeds/f/results", "", nil)
	require.Equal(t, http.StatusGone, r.status)
	require.Equal(t, "StoredError", r.problem(t).Type)
	r = s.send(http.MethodGet, "/v1/feeds/f/results?cursor=0.2.0", "", nil)
	require.Equal(t, http.StatusOK, r.status)
	require.Regexp(t, `^{"result":2,"cursor":"0.3.0"}\n{"error":{"type":"StoredError",.*}\n$`, r.body)
}

// A client that goes away ends the reading.
func TestResults_ClientLeaves(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(t, f, nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/feeds/f/results?follow=true", nil)
	require.NoError(t, err)
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "{\"result\":0,\"cursor\":\"0.1.0\"}\n", line)
	leave()
	eventually(t, f.left.Load)
}

// An empty line that is due when the answer ends is written before its end, or not at all.
func TestResults_EmptyLines(t *testing.T) {
	t.Parallel()
	begin := func() (*httptest.ResponseRecorder, *answer, *resultLines) {
		recorder := httptest.NewRecorder()
		a := &answer{ResponseWriter: recorder, reading: patience}
		return recorder, a, newResultLines(a)
	}
	recorder, _, lines := begin()
	lines.keepAlive()
	require.Equal(t, "\n", recorder.Body.String())
	require.True(t, lines.stop())
	lines.keepAlive()
	lines.close()
	require.Equal(t, "\n", recorder.Body.String())

	recorder, a, lines := begin()
	require.False(t, lines.stop())
	lines.keepAlive()
	require.Zero(t, a.status)
	require.Empty(t, recorder.Body.String())

	for range 200 { // the timer fires while the results fail
		recorder, a, lines := begin()
		fired := make(chan struct{})
		go func() { defer close(fired); lines.keepAlive() }()
		if lines.stop() {
			lines.close()
			require.Equal(t, http.StatusOK, recorder.Code)
			require.Equal(t, "\n", recorder.Body.String())
		} else {
			a.fail(errors.New("no store"))
			lines.close()
			require.Equal(t, http.StatusBadGateway, recorder.Code)
			require.Contains(t, recorder.Body.String(), "no store")
		}
		<-fired
	}
}

// Results reach clients as the handler gave them.
func TestD3_ResultsAsTheyAre(t *testing.T) {
	t.Parallel()
	given := Value(`{"a": "<b>&\u003c", "n": 1.50}`)
	require.Equal(t, `{"index":3,"result":{"a": "<b>&\u003c", "n": 1.50}}`+"\n", string(encodeWith(outcome{Index: 3}, given)))
	line := recorded(jobs.RecordedResult[Value]{Out: given})
	require.Regexp(t, `^\{"result":\{"a": "<b>&\\u003c", "n": 1\.50\},"cursor":"[0-9.]+"\}\n$`, string(line))
}
