package starter_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// api is a server that a script plays. It notes what it is asked.
type api struct {
	url  string
	mu   sync.Mutex
	seen []asked
}

// asked is a request.
type asked struct {
	method, path, body, key string
	header                  http.Header
}

// furtherTry is what the key of a request has at its end if answers before did not fit.
var furtherTry = regexp.MustCompile(`/[0-9]+$`)

// api starts a server. answer gets the request, and how many with the same key came before.
func (b *box) api(answer func(w http.ResponseWriter, r asked, before int)) *api {
	b.t.Helper()
	a := &api{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		now := asked{r.Method, r.URL.RequestURI(), string(body), r.Header.Get("Idempotency-Key"), r.Header}
		a.mu.Lock()
		before := 0
		for _, earlier := range a.seen {
			if earlier.key == now.key {
				before++
			}
		}
		a.seen = append(a.seen, now)
		a.mu.Unlock()
		answer(w, now, before)
	}))
	b.t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// tries returns how many requests with the body there have been.
func (a *api) tries(body string) (n int) {
	for _, r := range a.requests() {
		if r.body == body {
			n++
		}
	}
	return n
}

// requests are those so far.
func (a *api) requests() []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

// keys are how often each key has come.
func (a *api) keys() map[string]int {
	keys := map[string]int{}
	for _, r := range a.requests() {
		keys[r.key]++
	}
	return keys
}

// says answers with JSON.
func says(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// failed are the records of an errors file, by item.
func (b *box) failed(file string) map[int64]job.Failure {
	b.t.Helper()
	all := map[int64]job.Failure{}
	for line := range strings.Lines(b.read(file)) {
		var f job.Failure
		require.NoError(b.t, json.Unmarshal([]byte(line), &f))
		require.NotContains(b.t, all, f.Item)
		all[f.Item] = f
	}
	return all
}

// objects are n items with a number each.
func objects(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"n":%d}`+"\n", i)
	}
	return text.String()
}

// The result of an item is what the server answers, in the items' order, however many requests there are at once.
func TestHTTP_Results(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		says(w, 200, fmt.Sprintf(`{"got": {"method": %q, "path": %q, "body": %q, "x": %q}}`, r.method, r.path, r.body, r.header.Get("X")))
	})
	b.env = append(b.env, "X=of the environment")
	b.write("in.jsonl", objects(200))
	b.write("in.csv", "name,n\n\"a b/c\",1\n")
	b.write("in.txt", "\"quoted\" text\n")
	b.write("body.json", `{"is": {n}, "of": ["{name}"]}`+"\n")
	b.write("headers", "# of all requests\nX: {name} $X\n\n")
	b.stint("run", "--http", a.url+"/score", "--concurrency", "8", "--result-path", ".got.body", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitOK)
	var want []string
	for line := range strings.Lines(objects(200)) {
		want = append(want, fmt.Sprintf("%q\n", strings.TrimSpace(line)))
	}
	require.Equal(t, strings.Join(want, ""), b.read("out.jsonl"))
	require.Len(t, a.keys(), 200, "a key for each item")

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"in.csv", "--http", "GET " + a.url + "/x/{n}?q={name}"}, `{"got":{"method":"GET","path":"/x/1?q=a%20b%2Fc","body":"","x":""}}`},
		{[]string{"in.csv", "--http", "put " + a.url, "--body", "@body.json", "--header", "@headers"}, `{"got":{"method":"PUT","path":"/","body":"{\"is\": \"1\", \"of\": [\"a b/c\"]}","x":"a b/c of the environment"}}`},
		{[]string{"in.txt", "--http", a.url, "--header", "X: $$X"}, `{"got":{"method":"POST","path":"/","body":"\"\\\"quoted\\\" text\"","x":"$X"}}`},
		{[]string{"in.txt", "--http", a.url, "--body", "t={}", "--header", "Content-Type: application/x-www-form-urlencoded", "--result-path", ".got.body"}, `"t=%22quoted%22%20text"`},
	} {
		require.Equal(t, c.want+"\n", b.stint(append([]string{"run"}, c.args...)...).exits(starter.ExitOK).stdout.String(), "%q", c.args)
	}
	b.write("job.yaml", "input: in.csv\noutput: staged.jsonl\nstages: [{name: one, pool: ask}, {name: two, pool: again}]\n"+
		"pools: {ask: {http: "+a.url+"/one, result-path: .got.path}, again: {http: 'POST "+a.url+"/two', result-path: .got.body}}\n")
	b.stint("run", "-f", "job.yaml").exits(starter.ExitOK)
	require.Equal(t, `"\"/one\""`+"\n", b.read("staged.jsonl"))
	require.Len(t, a.keys(), 200+4+2, "another key in each stage")
}

// The requests of a dry run, pasted into a shell, are those that the job would send. None is sent, and no secret is in
// them.
func TestHTTP_DryRun(t *testing.T) {
	t.Parallel()
	tool(t, "curl")
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, _ int) { says(w, 200, cmp.Or(r.body, "1")) })
	const secret = "sk-Zq81vXw04-never-shown"
	b.env = append(b.env, "API_KEY="+secret)
	b.write("in.jsonl", `{"t": "it's $HOME"}`+"\n\n"+`{"t":2, "x":"\""}`+"\n"+`{"u": 1}`+"\n")
	b.write("in.txt", "a 'b' \"c\"\n\\n\n")
	b.write("ask.txt", "Is it {t}?\nSay so.\n")
	for _, args := range [][]string{
		{"in.jsonl", "--http", a.url + "/x"},
		{"in.jsonl", "--http", "get " + a.url + "/{t}"},
		{"in.txt", "--http", a.url + "/x", "--body", `{"is": "{}", "n": {#}}`},
		{"in.jsonl", "--http", a.url + "/x", "--array", "--call-items", "2"},
		{"in.jsonl", "--llm", a.url, "--model", "m", "--prompt", "ask.txt"},
		{"in.txt", "--llm", a.url, "--model", "m", "--embed"},
	} {
		args = append(args, "--header", "Authorization: Bearer $API_KEY", "-j", "1", "--item-attempts", "1", "--batch-items", "10", "-o", "out.jsonl", "--fresh")
		sent := len(a.requests())
		printed := b.stint(append([]string{"run", "--dry-run"}, args...)...).exits(starter.ExitOK)
		require.Len(t, a.requests(), sent, "nothing is sent")
		require.NotContains(t, printed.stdout.String()+printed.stderr.String(), secret)
		require.Contains(t, printed.stdout.String(), `-H "Authorization: Bearer $API_KEY"`)
		paste := exec.Command("sh", "-c", printed.stdout.String())
		paste.Env = append(os.Environ(), "API_KEY="+secret)
		require.NoError(t, paste.Run())
		pasted := a.requests()[sent:]
		b.stint(append([]string{"run"}, args...)...).await()
		require.ElementsMatch(t, shown(pasted), shown(a.requests()[sent+len(pasted):])[:len(pasted)], args)
	}
	b.write("many.jsonl", objects(300))
	c := b.stint("run", "--dry-run", "many.jsonl", "--http", a.url, "--array").exits(starter.ExitOK)
	require.Equal(t, 2, strings.Count(c.stdout.String(), "\n"), "64 and 36 items")
	require.Contains(t, c.stderr.String(), "these are 100 of 300 items")
	require.Contains(t, b.stint("run", "--dry-run", "in.jsonl", "--http", a.url+"/{t}").exits(starter.ExitOK).stdout.String(), "# item 2: ")
}

// shown are requests without what a dry run leaves out, and what is a client's own affair.
func shown(all []asked) (texts []string) {
	for _, r := range all {
		for _, name := range []string{"Idempotency-Key", "Accept-Encoding", "Content-Length"} {
			r.header.Del(name)
		}
		texts = append(texts, fmt.Sprint(r.method, r.path, r.body, r.header))
	}
	return texts
}

// K8: a list of items is one request. An item for which the server refuses a list fails alone: the list is not sent again,
// but halved.
func TestHTTP_Lists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		if strings.Contains(r.body, `{"n":17}`) {
			says(w, 422, `{"error": "17 is no number"}`)
			return
		}
		says(w, 200, r.body)
	})
	b.write("in.jsonl", objects(100))
	b.stint("run", "--http", a.url, "--array", "--call-items", "10", "--batch-items", "100", "--backoff", "1ms", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitSomeFailed)
	require.Equal(t, strings.Replace(objects(100), `{"n":17}`+"\n", "", 1), b.read("out.jsonl"))
	failures := b.failed("out.jsonl.errors.jsonl")
	require.Len(t, failures, 1)
	require.Equal(t, "HTTP422", failures[17].Error.Type)
	require.Contains(t, failures[17].Error.Message, `422 Unprocessable Entity: {"error": "17 is no number"}`)
	require.Len(t, a.requests(), 9+1+2+2+2, "of ten items, the ten with a bad one, and its halves of 5, 2 or 3, and 1 or 2")
	require.Len(t, a.keys(), len(a.requests()), "none is sent twice")
	for _, r := range a.requests() {
		require.True(t, strings.HasPrefix(r.body, "[{") && strings.HasSuffix(r.body, "}]"), r.body)
	}
}

// A list that has no answer is sent again as it is, as often as its items may be tried: a server that is away for a while
// fails none of them.
func TestHTTP_ListsAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, before int) {
		if before < 4 {
			says(w, 502, "")
			return
		}
		says(w, 200, r.body)
	})
	b.write("in.jsonl", objects(20))
	b.stint("run", "--http", a.url, "--array", "--call-items", "10", "--batch-items", "20", "--backoff", "1ms", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitOK)
	require.Equal(t, objects(20), b.read("out.jsonl"))
	require.Len(t, a.requests(), 10)
	require.Len(t, a.keys(), 2)
}

// 429 slows the job down, and costs no attempt: with one try for each item nothing is lost.
func TestHTTP_TooManyRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused := 0
	var mu sync.Mutex
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if refused < 8 {
			refused++
			w.Header().Set("Retry-After-Ms", "300")
			says(w, 429, `{"error": "slow down"}`)
			return
		}
		says(w, 200, r.body)
	})
	b.write("in.jsonl", objects(50))
	for _, lists := range [][]string{nil, {"--array", "--call-items", "5"}} {
		refused = 0
		args := append([]string{"run", "--http", a.url, "--concurrency", "4", "--item-attempts", "1", "--attempts", "1", "--report", "report.json", "in.jsonl", "-o", "out.jsonl"}, lists...)
		b.stint(args...).exits(starter.ExitOK)
		require.Equal(t, objects(50), b.read("out.jsonl"))
		require.Equal(t, 8, refused)
		var report job.Report
		require.NoError(t, json.Unmarshal([]byte(b.read("report.json")), &report))
		require.EqualValues(t, 50, report.OK)
		require.Zero(t, report.Retries)
	}
}

// A server that has no answer is asked again, with the same key; what it refuses fails, and so does what never has an
// answer.
func TestHTTP_Attempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, before int) {
		switch {
		case r.body == `{"n":3}`:
			says(w, 404, `{"error": "no such thing", "token": "`+strings.Repeat("x", 1000)+`"}`)
		case r.body == `{"n":5}`, before < 2:
			says(w, 500, "")
		default:
			says(w, 200, r.body)
		}
	})
	b.write("in.jsonl", objects(10))
	b.stint("run", "--http", a.url+"/{n}", "--backoff", "1ms", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitSomeFailed)
	require.Equal(t, 8, b.lines("out.jsonl"))
	failures := b.failed("out.jsonl.errors.jsonl")
	require.Len(t, failures, 2)
	require.Equal(t, "HTTP404", failures[3].Error.Type)
	require.Equal(t, 1, failures[3].Attempts)
	require.Contains(t, failures[3].Error.Message, `404 Not Found: {"error": "no such thing"`)
	require.Less(t, len(failures[3].Error.Message), 400, "the beginning of the answer")
	require.Equal(t, 5, failures[5].Attempts, "the default of requests")
	require.Contains(t, failures[5].Error.Message, "500 Internal Server Error")
	keys := a.keys()
	require.Len(t, keys, 10)
	counts := map[int]int{}
	for _, n := range keys {
		counts[n]++
	}
	require.Equal(t, map[int]int{1: 1, 3: 8, 5: 1}, counts)
}

// A server that remembers keys answers each try after an answer that does not fit anew, and does nothing twice whose
// answer was lost.
func TestHTTP_RememberedKeys(t *testing.T) {
	t.Parallel()
	for _, lists := range [][]string{nil, {"--array", "--call-items", "4", "--batch-items", "8"}} {
		b := setup(t)
		var mu sync.Mutex
		remembered, done := map[string]string{}, map[string]int{} // the answer by key, and how often an item was asked for
		a := b.api(func(w http.ResponseWriter, r asked, before int) {
			mu.Lock()
			defer mu.Unlock()
			answer, known := remembered[r.key]
			if !known {
				done[r.body]++
				switch {
				case done[r.body] == 2 && lists == nil:
					answer = "not JSON"
				case done[r.body] < 3:
					answer = strings.ReplaceAll(r.body, `"n"`, `"other"`)
				default:
					answer = r.body
				}
				remembered[r.key] = answer
			}
			if before == 0 {
				says(w, 502, "") // the answer is lost the first time
				return
			}
			says(w, 200, answer)
		})
		b.write("in.jsonl", objects(8))
		b.write("schema.json", `{"type": "object", "required": ["n"]}`)
		b.stint(append([]string{"run", "--http", a.url, "--schema", "schema.json", "--item-attempts", "6", "--backoff", "1ms", "-j", "1", "in.jsonl", "-o", "out.jsonl"}, lists...)...).exits(starter.ExitOK)
		require.Equal(t, objects(8), b.read("out.jsonl"))
		for item, times := range done {
			require.Equal(t, 3, times, item)
		}
		for key, times := range a.keys() {
			require.Equal(t, 2, times, key)
			require.Regexp(t, `-[0-9a-f]{16}(/[23])?$`, key)
		}
	}
}

// What a server does wrong fails its items, with what it was.
func TestHTTP_BadServers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.api(func(w http.ResponseWriter, _ asked, _ int) { says(w, 200, "{}") })
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		switch r.path {
		case "/elsewhere":
			w.Header().Set("Location", other.url)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "/large":
			says(w, 200, `"`+strings.Repeat("x", 5000)+`"`)
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<h1>Hello</h1>")
		}
	})
	b.write("in.jsonl", objects(1))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, c := range []struct{ url, errorType, says string }{
		{closed.URL, "Network", "connection refused"},
		{a.url + "/elsewhere", "Redirect", "it redirects to another origin, " + other.url},
		{a.url + "/large", "AnswerTooLarge", "more than 4096 bytes"},
		{a.url + "/html", "NotJSON", "but not with JSON (text/html): <h1>Hello</h1>"},
	} {
		b.stint("run", "--http", c.url, "--result-path", ".a", "--max-answer", "4KiB", "--backoff", "1ms", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitSomeFailed)
		f := b.failed("out.jsonl.errors.jsonl")[0]
		require.Equal(t, c.errorType, f.Error.Type, c.url)
		require.Contains(t, f.Error.Message, c.says)
	}
	require.Empty(t, other.requests(), "a redirect to another origin is not followed")
}

// A call's time is that of its request, also if the answer has begun.
func TestHTTP_CallTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release := make(chan struct{})
	a := b.api(func(w http.ResponseWriter, _ asked, _ int) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	b.write("in.jsonl", objects(2))
	for _, lists := range [][]string{nil, {"--array"}} {
		b.stint(append([]string{"run", "--http", a.url, "--call-timeout", "200ms", "--attempts", "1", "--item-attempts", "1", "in.jsonl", "-o", "out.jsonl"}, lists...)...).exits(starter.ExitSomeFailed)
		for _, f := range b.failed("out.jsonl.errors.jsonl") {
			require.Equal(t, job.KindExpired, f.Kind)
			require.Contains(t, f.Error.Message, "the call took longer than 200ms")
		}
	}
}
