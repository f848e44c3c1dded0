package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/run/calls"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// http makes a handler whose requests go to a server that does what their items say: see obey_test.go.
func (f *fixture) http(o HTTPOptions, lists bool) Handler {
	f.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { obeyHTTP(w, r, lists) }))
	f.t.Cleanup(server.Close)
	o.URL, o.AllowOrigins = server.URL, []string{server.URL}
	return HTTP(o)
}

// obeyHTTP answers a request of one item, or of a list.
func obeyHTTP(w http.ResponseWriter, r *http.Request, lists bool) {
	body, err := io.ReadAll(r.Body)
	must(err)
	if !lists {
		body = []byte("[" + string(body) + "]")
	}
	var items []string
	must(json.Unmarshal(body, &items))
	results := []any{}
	for _, item := range items {
		result, err := obey(item, len(items))
		switch {
		case err == errHanging:
			<-r.Context().Done()
			return
		case strings.HasPrefix(item, "slower ") && err != nil:
			w.Header().Set("Retry-After-Ms", fmt.Sprint(pause.Milliseconds()))
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		case item == "short":
			continue
		case item == "long":
			results = append(results, item)
		}
		results = append(results, result)
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if lists {
		err = enc.Encode(results)
	} else {
		err = enc.Encode(results[0])
	}
	if err != nil && !errors.Is(err, r.Context().Err()) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// What cannot be meant is refused before anything starts.
func TestHTTP_Refused(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	for _, c := range []struct {
		o    HTTPOptions
		says string
	}{
		{HTTPOptions{}, "begin with http:// or https://"},
		{HTTPOptions{URL: "https://{host}/x"}, "items do not choose them"},
		{HTTPOptions{URL: "https://a.example", Headers: []string{"Authorization: Bearer $KEY"}}, "has no KEY"},
		{HTTPOptions{URL: "https://a.example", AllowOrigins: []string{"https://b.example"}}, "origin https://a.example is not called: the worker may call https://b.example"},
		{HTTPOptions{URL: "https://a.example", Schema: []byte("{")}, "the schema is not JSON"},
		{HTTPOptions{URL: "https://a.example/{id}", Array: true}, "the URL has a placeholder"},
		{HTTPOptions{LLM: "nobody", Model: "m"}, "use openai, anthropic, gemini, or the URL of a server"},
		{HTTPOptions{LLM: "openai"}, "no model given"},
		{HTTPOptions{LLM: "openai", Model: "m"}, "has no OPENAI_API_KEY"},
		{HTTPOptions{LLM: "openai", Model: "m", URL: "https://a.example"}, "leave them out"},
	} {
		c.o.Env = none
		require.ErrorContains(t, HTTP(c.o).Check(Options{}), c.says, "%+v", c.o)
	}
	require.Equal(t, "http POST https://a.example/x", HTTP(HTTPOptions{URL: "https://a.example/x?key=secret"}).Name(), "a query may hold a key")
}

// A request has the same key whenever it is repeated, and no other has it.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	items := func(ordinals ...int64) (all []calls.Item) {
		for _, n := range ordinals {
			all = append(all, calls.Item{Ordinal: n, Data: fmt.Append(nil, n)})
		}
		return all
	}
	c := &calls.Call{Job: "job", Run: "later", RootRun: "first"}
	require.Regexp(t, `^job/first/7-[0-9a-f]{16}$`, idempotencyKey(c, items(7)))
	require.Equal(t, idempotencyKey(c, items(7)), idempotencyKey(&calls.Call{Job: "job", Run: "first", RootRun: "first"}, items(7)))
	require.Regexp(t, `^job/first/7\+3-[0-9a-f]{16}$`, idempotencyKey(c, items(7, 8, 9)))
	require.Regexp(t, `^job/first/7\+3-[0-9a-f]{16}$`, idempotencyKey(c, items(7, 9, 10)))
	require.NotEqual(t, idempotencyKey(c, items(7, 8, 10)), idempotencyKey(c, items(7, 9, 10)))
	require.NotEqual(t, idempotencyKey(c, items(7)), idempotencyKey(c, []calls.Item{{Ordinal: 7, Data: []byte("other")}}))
	require.NotEqual(t, idempotencyKey(c, items(7)), idempotencyKey(c, []calls.Item{{Ordinal: 8, Data: []byte("7")}}))
	staged := &calls.Call{Job: "job", RootRun: "first", Stage: "score"}
	require.Regexp(t, `^job/first/score/7-[0-9a-f]{16}$`, idempotencyKey(staged, items(7)))
	long := &calls.Call{Job: strings.Repeat("j", 200), RootRun: strings.Repeat("r", 36), Stage: "stage-with-a-name"}
	require.Len(t, idempotencyKey(long, items(7)), 64)
}

// Without a stated wait the waits double while there are refusals, however many come at once, and begin anew after an
// answer.
func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			for range 5 {
				require.Equal(t, want, r.wait(time.Second))
			}
			r.answered() // of a request that was under way
			time.Sleep(want + 1)
		}
		r.answered()
		require.Equal(t, time.Second, r.wait(time.Second))
		for range 20 {
			time.Sleep(2 * time.Minute)
			r.wait(time.Second)
		}
		time.Sleep(2 * time.Minute)
		require.Equal(t, time.Minute, r.wait(time.Second))
	})
}

// A request that is refused again and again while others are answered has failed; one that is refused as all others are
// waits for as long as it takes.
func TestOutcasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p outcasts
		one, other := refusedKey{run: "r", first: 1, items: 1}, refusedKey{run: "r", first: 2, items: 1}
		for range 1000 {
			require.False(t, p.refused(one), "nobody is answered")
			time.Sleep(time.Minute)
		}
		for range 99 {
			p.answered(other)
		}
		require.False(t, p.refused(one))
		p.answered(other)
		require.True(t, p.refused(one))
		require.Empty(t, p.waiting)

		times := 1
		for !p.refused(one) {
			for range 3 {
				p.answered(other)
			}
			time.Sleep(20 * time.Second)
			times++
		}
		require.Equal(t, 1+34, times, "after 34 times there were 102 other answers, in 11 minutes")

		require.False(t, p.refused(one))
		p.answered(one)
		require.Empty(t, p.waiting, "its answer ends it")
	})
}

// A run of a job is asked to stop once, unless that has failed.
func TestStopRequests(t *testing.T) {
	t.Parallel()
	var s stopRequests
	asked := 0
	ask := func() error { asked++; return nil }
	require.ErrorIs(t, s.request("a", func() error { return io.EOF }), io.EOF)
	for range 3 {
		require.NoError(t, s.request("a", ask))
	}
	require.Equal(t, 1, asked)
	require.NoError(t, s.request("b", ask))
	require.Equal(t, 2, asked)
}

// What stops a job fails items where there is no job, and results that no output takes fail theirs. Tokens are counted.
func TestHTTP_Outcomes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch string(body) {
		case "1":
			w.WriteHeader(http.StatusUnauthorized)
		case "2":
			_, _ = fmt.Fprintf(w, `"%s"`, strings.Repeat("x", calls.MaxResult))
		default:
			_, _ = io.WriteString(w, `{"usage": {"prompt_tokens": 3, "completion_tokens": 2}}`)
		}
	}))
	t.Cleanup(server.Close)
	h := HTTP(HTTPOptions{URL: server.URL, AllowOrigins: []string{server.URL}})
	f.limits.ItemAttempts = 3
	o := f.run(h, "in.jsonl", "1\n2\n3\n4\n")
	require.Len(t, o.failures, 2)
	slices.SortFunc(o.failures, func(a, b job.Failure) int { return int(a.Item - b.Item) })
	require.Equal(t, "WrongKey", o.failures[0].Error.Type)
	require.Equal(t, 1, o.failures[0].Attempts)
	require.Equal(t, "TooLarge", o.failures[1].Error.Type)
	require.Equal(t, 2, strings.Count(o.output, "\n"))
	require.Equal(t, job.Usage{TokensIn: 6, TokensOut: 4}, o.totals.Usage)
}

// A server that says beside a result that its limit is used up is left alone until it is reset.
func TestHTTP_LimitUsedUp(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
		w.Header().Set("X-Ratelimit-Reset-Requests", "150ms")
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	items := strings.Repeat("1\n", 30)
	o := f.run(HTTP(HTTPOptions{URL: server.URL, AllowOrigins: []string{server.URL}}), "in.jsonl", items)
	require.Empty(t, o.failures)
	require.Equal(t, items, o.output)
	require.NotEmpty(t, o.slowDowns)
}
