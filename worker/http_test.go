package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
