package remote

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/run/command"
	"github.com/stint-run/stint/internal/test/programs"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// received is a request as a server sees it.
type received struct {
	method, path, body string
	header             http.Header
}

// What Curl returns makes the request that is sent, with the variables in the environment, and has no secret.
func TestCurl(t *testing.T) {
	t.Parallel()
	var got []received
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range []string{"Accept-Encoding", "Content-Length"} { // the client's own affair
			r.Header.Del(name)
		}
		got = append(got, received{r.Method, r.URL.RequestURI(), string(body), r.Header})
		_, _ = io.WriteString(w, "[1]")
	})
	const key, other = "k3y $HOME `id` \\ \" '", "an0ther"
	variables := []string{"KEY=" + key, "OTHER=" + other}
	items := []command.Item{
		object(`{"a": "it's \"x\" $HOME ${KEY} ` + "`id`" + ` \\ é\n", "b": 1, "e": "", "w": "word"}`),
		object(`{"a": "@file", "b": [1], "e": "e", "w": "$w"}`),
		object(`{"a": "` + strings.Repeat("x", 200<<10) + `", "b": {}, "e": "e", "w": "-"}`),
	}
	bearer := "Authorization: Bearer $KEY"
	for name, o := range map[string]Options{
		"json":     {URL: "/score", Headers: []string{bearer}},
		"get":      {URL: "/x/{w}?q={e}&l[]=1", Method: "GET", Headers: []string{"X-Key: ${KEY}{w}$$KEY${OTHER}_$OTHER{e}"}},
		"delete":   {URL: "/.well/{w}", Method: "DELETE"},
		"template": {URL: "/t", Method: "PUT", Body: "{\"is\": {b},\n\t\"of\": ['no', \"{a}\"]}", Headers: []string{"X-Empty: {e}", "X-Tail: $KEY"}},
		"form":     {URL: "/f", Body: "@a={e}&b={w}", Headers: []string{"Content-Type: application/x-www-form-urlencoded"}},
		"array":    {URL: "/a", Array: true, Headers: []string{bearer}},
		"model":    {Model: &Model{Name: "m", Prompt: "Is {w} 'good'?", System: "be {e}"}, Headers: []string{bearer}},
	} {
		t.Run(name, func(t *testing.T) {
			if o.Model != nil {
				o.Model.Provider, o.Model.BaseURL = "openai", server
			} else {
				o.URL = server + o.URL
			}
			if name == "template" {
				o.Body = strings.ReplaceAll(o.Body, "'", `"`)
			}
			o.Env, o.AllowOrigins = env("KEY", key, "OTHER", other), []string{server}
			e := open(t, o)
			step := 1
			if o.Array {
				step = len(items)
			}
			for i := 0; i < len(items); i += step {
				some := items[i : i+step]
				got = nil
				_, err := e.Do(t.Context(), e.NewRequest(some), "")
				if err != nil {
					require.NotEmpty(t, got, err)
				}
				line, faults := e.Curl(some)
				require.Len(t, faults, step)
				require.NotContains(t, line, key)
				require.NotContains(t, line, other)
				require.Equal(t, got[0], parsed(t, line, server, variables))
				if !programs.Has(t, "curl") {
					continue
				}
				shell := exec.Command("sh")
				shell.Stdin, shell.Env = strings.NewReader(line+"\n"), append(shell.Environ(), variables...)
				said, err := shell.CombinedOutput()
				require.NoErrorf(t, err, "%s: %.500s", said, line)
				require.Len(t, got, 2)
				require.Equal(t, got[0], got[1], "%.1000s", line)
			}
		})
	}
}

// parsed returns the request of a command, as a shell expands it.
func parsed(t *testing.T, line, server string, variables []string) (r received) {
	t.Helper()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(line), "")
	require.NoError(t, err)
	require.Len(t, file.Stmts, 1)
	fields := func(call syntax.Command) []string {
		words, err := expand.Fields(&expand.Config{Env: expand.ListEnviron(variables...)}, call.(*syntax.CallExpr).Args...)
		require.NoError(t, err)
		return words
	}
	r.header = http.Header{}
	call := file.Stmts[0].Cmd
	if pipe, ok := call.(*syntax.BinaryCmd); ok {
		words := fields(pipe.X.Cmd)
		require.Equal(t, []string{"printf", "%s"}, words[:2])
		r.body, call = words[2], pipe.Y.Cmd
	}
	words := fields(call)
	require.Equal(t, []string{"curl", "-X"}, words[:2])
	r.method, r.path = words[2], strings.TrimPrefix(words[3], server)
	for i := 4; i < len(words); i++ {
		switch words[i] {
		case "-g", "--path-as-is":
			continue
		case "-H":
			name, value, ok := strings.Cut(words[i+1], ": ")
			if !ok {
				name = strings.TrimSuffix(name, ";")
			}
			r.header.Set(name, value)
		case "--data-raw":
			r.body = words[i+1]
		case "--data-binary":
			require.Equal(t, "@-", words[i+1])
		default:
			require.Fail(t, "unknown", words[i])
		}
		i++
	}
	return r
}

// An item without a request is none of the command; a secret that stands in the options is no part of it.
func TestCurl_LeavesOut(t *testing.T) {
	t.Parallel()
	e := open(t, Options{URL: "https://a.example/{id}", Method: "GET", Headers: []string{"Authorization: Bearer literal-key", "X-Api-Key: $KEY"}, Env: env("KEY", "secret-key")})
	line, faults := e.Curl([]command.Item{object(`{"id": "secret-key"}`)})
	require.Equal(t, []*Fault{nil}, faults)
	require.Equal(t, `curl -X GET 'https://a.example/…' -H 'Accept: application/json, */*;q=0.5' -H 'Authorization: …' -H 'User-Agent: stint' -H "X-Api-Key: $KEY"`, line)
	line, faults = e.Curl([]command.Item{object(`{}`)})
	require.Empty(t, line)
	require.Equal(t, TypeTemplate, faults[0].Type)
	lists := open(t, Options{URL: "https://a.example", Array: true, Body: "{a}"})
	line, faults = lists.Curl([]command.Item{object(`{"a": 1}`), object(`{}`), object(`{"a": 3}`)})
	require.Contains(t, line, `--data-raw '[1,3]'`)
	require.NotNil(t, faults[1])
}
