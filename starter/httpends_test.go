package starter_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// H1: A key that is refused stops the job: no item fails, and with another key the same command continues.
func TestHTTP_WrongKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const credit = 30
	answered := 0
	var mu sync.Mutex
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if r.header.Get("Authorization") == "Bearer new-key-0002" || answered < credit {
			answered++
			says(w, 200, r.body)
			return
		}
		says(w, 401, `{"error": "invalid key `+r.header.Get("Authorization")+`"}`)
	})
	b.write("in.jsonl", objects(200))
	env := b.env
	run := []string{"run", "--http", a.url, "--header", "Authorization: Bearer $API_KEY", "--concurrency", "4", "--batch-items", "10", "in.jsonl", "-o", "out.jsonl"}
	b.env = append(env, "API_KEY=old-key-0001")
	said := b.stint(run...).exits(starter.ExitFailed).stderr.String()
	require.Contains(t, said, " items ok, 0 failed in ")
	require.Contains(t, said, "Check the key in the worker's environment or header file")
	require.Contains(t, said, "the same command continues from here")
	require.NotContains(t, said, "old-key")
	require.NoFileExists(t, b.path("out.jsonl.errors.jsonl"))
	require.Less(t, len(a.requests()), 100, "the job has stopped")
	b.env = append(env, "API_KEY=new-key-0002")
	said = b.stint(run...).exits(starter.ExitOK).stderr.String()
	require.Contains(t, said, "200 items ok")
	require.Equal(t, objects(200), b.read("out.jsonl"))
	require.Less(t, answered, 200+credit, "what was done is not done again")
}

// holds returns the files below a directory that hold a text.
func holds(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), text) {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// H4: A key is in the requests, and nowhere else, whatever the server makes of it.
func TestHTTP_SecretsStaySecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const secret = "sk-Zq81vXw04-never-shown"
	status := 400
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		w.Header().Set("X-Echo", r.header.Get("Authorization"))
		says(w, status, `{"error": "what is `+r.header.Get("Authorization")+` or `+r.header.Get("X-Other")+`"}`)
	})
	b.env = append(b.env, "API_KEY="+secret)
	b.write("in.jsonl", objects(20))
	for _, status = range []int{400, 401, 503} {
		c := b.stint("run", "--http", a.url+"/{n}", "--header", "Authorization: Bearer $API_KEY", "--header", "X-Other: $API_KEY", "--backoff", "1ms", "--item-attempts", "2",
			"--report", "report.json", "in.jsonl", "-o", fmt.Sprint("out-", status, ".jsonl"))
		require.NotEqual(t, starter.ExitOK, c.await().code)
		require.NotContains(t, c.stderr.String(), secret)
		require.Empty(t, holds(t, b.dir, secret))
	}
	require.NotEmpty(t, holds(t, b.dir, "what is"), "the server's answers are shown")
	require.Equal(t, "Bearer "+secret, a.requests()[0].header.Get("Authorization"))

	const literal = "sk-literal-on-the-command-line"
	status = 422
	c := b.stint("run", "--http", a.url, "--header", "Authorization: "+literal, "--header", "Accept: application/json", "in.jsonl", "-o", "out.jsonl").exits(starter.ExitFailed)
	require.NotContains(t, c.stderr.String(), literal)
	require.Contains(t, c.stderr.String(), "(put the values of these headers in: Authorization)")
	require.Contains(t, c.stderr.String(), "--header 'Authorization: …' --header 'Accept: application/json'")
	require.Empty(t, holds(t, b.dir, literal))
}

// A process that is killed with a request in hand sends it again, with the same key.
func TestHTTP_KilledWithARequestInHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a := b.api(func(w http.ResponseWriter, r asked, before int) {
		if r.body == `{"n":7}` && before == 0 {
			once.Do(func() { close(reached) })
			<-release
			return
		}
		says(w, 200, r.body)
	})
	b.write("in.jsonl", objects(20))
	run := []string{"run", "--http", a.url, "-j", "1", "in.jsonl", "-o", "out.jsonl"}
	p := b.spawn(run...)
	<-reached
	p.kill()
	close(release)
	b.spawn(run...).exits(starter.ExitOK)
	require.Equal(t, objects(20), b.read("out.jsonl"))
	keys := a.keys()
	require.Len(t, keys, 20, "one key for each item: %v", keys)
	var of7 []string
	for _, r := range a.requests() {
		if r.body == `{"n":7}` {
			of7 = append(of7, r.key)
		}
	}
	require.Len(t, of7, 2)
	require.Equal(t, of7[0], of7[1])
}

// A stop waits for the requests in hand, whose answers count.
func TestHTTP_StoppedWithRequestsInHand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reached, release := make(chan struct{}, 1000), make(chan struct{})
	a := b.api(func(w http.ResponseWriter, r asked, _ int) {
		reached <- struct{}{}
		<-release
		says(w, 200, r.body)
	})
	b.write("in.jsonl", objects(100))
	run := []string{"run", "--http", a.url, "-j", "1", "--concurrency", "4", "in.jsonl", "-o", "out.jsonl"}
	c := b.start(run...)
	for range 4 {
		<-reached
	}
	c.signals <- os.Interrupt
	c.says("stopping")
	close(release)
	c.exits(starter.ExitStopped)
	require.Less(t, len(a.requests()), 100)
	b.stint(run...).exits(starter.ExitOK)
	require.Equal(t, objects(100), b.read("out.jsonl"))
	require.Len(t, a.requests(), 100, "none was made twice")
}

// A stop that does not wait leaves requests without an answer: the same command sends them again, with the same keys,
// whether anything was done before or not. With --fresh the keys are others.
func TestHTTP_StoppedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, item := range []string{`{"n":0}`, `{"n":7}`} {
		b := setup(t)
		reached, release := make(chan struct{}), make(chan struct{})
		reach := sync.OnceFunc(func() { close(reached) })
		a := b.api(func(w http.ResponseWriter, r asked, before int) {
			if r.body == item && before == 0 {
				reach()
				<-release
			}
			says(w, 200, r.body)
		})
		b.write("in.jsonl", objects(20))
		run := []string{"run", "--http", a.url, "-j", "1", "--grace", "0", "in.jsonl", "-o", "out.jsonl"}
		c := b.start(run...)
		<-reached
		c.signals <- os.Interrupt
		c.exits(starter.ExitStopped)
		b.stint(run...).exits(starter.ExitOK)
		require.Equal(t, objects(20), b.read("out.jsonl"))
		require.Len(t, a.keys(), 20)
		require.Equal(t, 2, a.keys()[a.requests()[slices.IndexFunc(a.requests(), func(r asked) bool { return r.body == item })].key])
		close(release)
		b.stint(append(run, "--fresh")...).exits(starter.ExitOK)
		require.Len(t, a.keys(), 40)
	}
}

// Workers of a cluster call what they are allowed to, and the job says how often.
func TestHTTP_Cluster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.api(func(w http.ResponseWriter, r asked, before int) {
		if before == 0 {
			says(w, 503, "")
			return
		}
		says(w, 200, r.body)
	})
	b.write("in.jsonl", objects(20))
	b.server()
	b.worker("ask", "--http", a.url, "--allow-origin", a.url, "--concurrency", "4")
	b.stint("start", "--pool", "ask", "--name", "once", "in.jsonl", "-o", "out.jsonl", "--item-attempts", "2", "--backoff", "1ms", "--wait").exits(starter.ExitOK)
	require.Equal(t, objects(20), b.read("out.jsonl"))
	require.Len(t, a.keys(), 20)
}

// What cannot be meant is refused before anything starts, with what to do.
func TestHTTP_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.jsonl", "1\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--http", "example.com"}, "begin with http:// or https://"},
		{[]string{"--http", "FETCH https://a.example"}, `method "FETCH": use GET, POST`},
		{[]string{"--http", "https://a.example", "--header", "Authorization: Bearer $NO_SUCH"}, "has no NO_SUCH"},
		{[]string{"--http", "https://a.example", "--header", "@none"}, "--header: open "},
		{[]string{"--http", "https://a.example", "--call-items", "5"}, "give --array, too"},
		{[]string{"--http", "https://a.example", "--model", "m"}, "--model is for --llm: leave it out"},
		{[]string{"--http", "https://a.example", "--allow-origin", "https://b.example"}, "origin https://a.example is not called"},
		{[]string{"--http", "https://a.example", "--exec", "cat"}, "either --exec or --http"},
		{[]string{"--http", "https://a.example", "--body", "{n"}, "has no } behind it"},
		{[]string{"--llm", "openai", "--model", "m"}, "has no OPENAI_API_KEY"},
		{[]string{"--llm", "http://127.0.0.1:1/v1", "--model", "m", "--array"}, "--array is for --http"},
		{[]string{"--llm", "http://127.0.0.1:1/v1", "--model", "m", "--call-items", "5"}, "only --embed takes several"},
		{[]string{"--llm", "http://127.0.0.1:1/v1"}, "no model given"},
		{[]string{"--llm", "nobody", "--model", "m"}, "use openai, anthropic, gemini, or the URL of a server"},
		{[]string{"--llm", "http://127.0.0.1:1/v1", "--model", "m", "--prompt", "none.txt"}, "--prompt: open "},
	} {
		b.refused(starter.ExitUsage, append([]string{"run", "in.jsonl"}, c.args...), c.says)
	}
	b.refused(starter.ExitUsage, []string{"worker", "--pool", "p", "--allow", "all", "--http", "https://a.example/x"},
		"name the origins that this worker may call: --allow-origin https://a.example")
	b.refused(starter.ExitUsage, []string{"worker", "--pool", "p", "--allow", "all", "--llm", "anthropic", "--model", "m"},
		"--allow-origin https://api.anthropic.com")
}
