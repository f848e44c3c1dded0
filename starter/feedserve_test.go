package starter_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// doors is a gateway, and a feed behind it.
type doors struct {
	*box
	command *command
	jobs    *jobs.Client
	url     string
	client  *http.Client
	token   string
}

var gatewayURL = regexp.MustCompile(`gateway: (http://127\.0\.0\.1:\d+)\n`)

// gateway starts a server and a gateway to it.
func (b *box) gateway(args ...string) *doors {
	b.t.Helper()
	server := b.server()
	c := b.start(append([]string{"feed", "serve", "--listen", "0"}, args...)...)
	c.says("gateway: ")
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	b.t.Cleanup(client.CloseIdleConnections)
	return &doors{b, c, jobs.NewClient(b.dial(server.Address()), nil), gatewayURL.FindStringSubmatch(c.stderr.String())[1], client, ""}
}

// feed starts a feed.
func (d *doors) feed(name, pool string, change func(*job.Spec)) *jobs.Run {
	d.t.Helper()
	spec := job.Spec{Name: name, Pool: pool, Feed: &job.Feed{}, Output: d.path(name + ".jsonl")}
	if change != nil {
		change(&spec)
	}
	run, err := d.jobs.Start(d.t.Context(), spec, nil)
	require.NoError(d.t, err)
	return run
}

// ask sends a request: a GET if there is no media type.
func (d *doors) ask(path, media, body string) (status int, answer string, header http.Header) {
	d.t.Helper()
	method := http.MethodPost
	if media == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	require.NoError(d.t, err)
	request.Header.Set("Content-Type", media)
	if d.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.token)
	}
	response, err := d.client.Do(request)
	require.NoError(d.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	return response.StatusCode, string(text), response.Header
}

// refuses requires a request to fail with a status and a type.
func (d *doors) refuses(status int, kind, path, media, body string) {
	d.t.Helper()
	got, text, _ := d.ask(path, media, body)
	require.Equal(d.t, status, got, text)
	var failed struct{ Error job.Error }
	require.NoError(d.t, json.Unmarshal([]byte(text), &failed))
	require.Equal(d.t, kind, failed.Error.Type)
}

// state is the feed's.
func (d *doors) state(name string) (state job.FeedState) {
	d.t.Helper()
	status, text, _ := d.ask("/v1/feeds/"+name, "", "")
	require.Equal(d.t, http.StatusOK, status, text)
	require.NoError(d.t, json.Unmarshal([]byte(text), &state))
	return state
}

// ints are as many lines with numbers in JSON.
func ints(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

const (
	oneValue = "application/json"
	inLines  = "application/x-ndjson"
)

// Items are put and called over HTTP, a thousand in order; a closed feed takes no more.
func TestGateway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.gateway()
	run := d.feed("risk", "double", nil)
	b.worker("double", "--exec", b.script("double", `exec sed "s/.*/[&,&]/"`))
	status, text, _ := d.ask("/v1/feeds/risk/call", oneValue, `{"a": 1}`)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `[{"a":1},{"a":1}]`, text)
	status, text, _ = d.ask("/v1/feeds/risk/put", inLines, "\"x\"\n\"y\"\n")
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"accepted":2}`, text)

	const items = 1000
	status, text, _ = d.ask("/v1/feeds/risk/call", inLines, ints(items))
	require.Equal(t, http.StatusOK, status, text)
	in := bufio.NewScanner(strings.NewReader(text))
	for i, n := range strings.Fields(ints(items)) {
		require.True(t, in.Scan())
		require.Regexp(t, fmt.Sprintf(`^\{"index":%d,"item":\d+,"result":\[%s,%s\]\}$`, i, n, n), in.Text())
	}
	require.False(t, in.Scan())

	eventually(t, "an idle feed", func() bool { return d.state("risk").Backlog == 0 })
	require.EqualValues(t, items+3, d.state("risk").Accepted)
	status, text, _ = d.ask("/v1/feeds/risk/reset", oneValue, "")
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"session":2,"discarded":0}`, text)
	for range 2 {
		status, text, _ = d.ask("/v1/feeds/risk/close", oneValue, "")
		require.Equal(t, http.StatusOK, status, text)
	}
	report, err := run.Wait(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, items+3, report.OK)
	require.Equal(t, items+3, strings.Count(b.read("risk.jsonl"), "\n"))
	d.refuses(http.StatusConflict, "ClosedError", "/v1/feeds/risk/put", oneValue, "1")
	d.refuses(http.StatusConflict, "ClosedError", "/v1/feeds/risk/call", inLines, "1")
	d.refuses(http.StatusNotFound, "NotFoundError", "/v1/feeds/nothing/put", oneValue, "1")
	b.write("in.jsonl", "1\n")
	b.stint("start", "--pool", "double", "--name", "files", "in.jsonl", "-o", "files.jsonl", "--wait").exits(starter.ExitOK)
	d.refuses(http.StatusNotFound, "NotFeedError", "/v1/feeds/files/call", inLines, "1")
	d.feed("stopped", "double", nil)
	require.NoError(t, d.jobs.Get("stopped").Stop(t.Context(), job.Stop{}))
	_, err = d.jobs.Get("stopped").Wait(t.Context())
	require.NoError(t, err)
	d.refuses(http.StatusConflict, "StoppedError", "/v1/feeds/stopped/put", inLines, "1")
	d.command.signals <- syscall.SIGTERM
	d.command.exits(starter.ExitOK)
}

// A full feed refuses; a client that leaves half way gives its places back, and a pool that nobody serves is named.
func TestGateway_FullAndLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.gateway()
	d.feed("slow", "gated", func(s *job.Spec) { s.Feed.Capacity = 4 })
	d.refuses(http.StatusServiceUnavailable, "UnservedError", "/v1/feeds/slow/call?timeout=10s", oneValue, "1")
	b.worker("gated", "--exec", b.gated(), "--slots", "1")
	status, text, _ := d.ask("/v1/feeds/slow/put", inLines, ints(4-d.state("slow").Backlog))
	require.Equal(t, http.StatusOK, status, text)
	accepted := d.state("slow").Accepted

	status, text, header := d.ask("/v1/feeds/slow/put", oneValue, "1")
	require.Equal(t, http.StatusTooManyRequests, status, text)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Contains(t, text, `"type":"FullError"`)
	require.Contains(t, text, `"capacity":4`)
	d.refuses(http.StatusTooManyRequests, "FullError", "/v1/feeds/slow/put?wait=50ms", inLines, "1\n")
	d.refuses(http.StatusRequestEntityTooLarge, "TooLargeError", "/v1/feeds/slow/put", inLines, ints(5))
	d.refuses(http.StatusTooManyRequests, "FullError", "/v1/feeds/slow/call", oneValue, "1")

	ctx, leave := context.WithCancel(t.Context())
	in, out := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/feeds/slow/call", in)
	require.NoError(t, err)
	request.Header.Set("Content-Type", inLines)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, err := d.client.Do(request) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, context.Canceled)
	})
	_, err = io.WriteString(out, ints(3))
	require.NoError(t, err)
	leave()
	require.NoError(t, out.CloseWithError(context.Canceled)) // the client may wait for the end of the body that it sends
	waiting.Wait()
	health := func() string { _, text, _ := d.ask("/health", "", ""); return text }
	eventually(t, "the end of the request", func() bool { return strings.Contains(health(), `"requests":0`) })
	require.Equal(t, accepted, d.state("slow").Accepted)
	b.open()
	eventually(t, "an idle feed", func() bool { return d.state("slow").Backlog == 0 })
	require.Equal(t, accepted, d.state("slow").Accepted, "what waited for room is not fed any more")
	_, text, _ = d.ask("/metrics", "", "")
	require.Contains(t, text, `stint_gateway_requests_total{route="put",status="429"} 2`)
}

// Requests need a token if there is a file of them, and beyond this machine there must be one.
func TestX2_GatewayToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--listen", "0.0.0.0:0"}, "whoever reaches 0.0.0.0:0 could use all feeds", "--token-file FILE", "127.0.0.1")
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--listen", "here"}, `--listen "here"`, "HOST:PORT")
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--drain", "-1s"}, "--drain -1s")
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--requests", "0"}, "--requests 0", "1 to 100000")
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--token-file", "missing"}, "--token-file", "missing")
	b.write("tokens", "short\n")
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--token-file", "tokens"}, "line 1: the token is 5 bytes long", "openssl rand -hex 32")
	b.write("tokens", "0123456789abcdef\n")
	d := b.gateway("--token-file", "tokens")
	d.refuses(http.StatusUnauthorized, "UnauthorizedError", "/v1/feeds/risk", "", "")
	d.token = "0123456789abcdeF"
	d.refuses(http.StatusUnauthorized, "UnauthorizedError", "/v1/feeds/risk", "", "")
	d.token = "0123456789abcdef"
	d.refuses(http.StatusNotFound, "NotFoundError", "/v1/feeds/risk", "", "")
	b.write("tokens", "fedcba9876543210\n")
	d.refuses(http.StatusUnauthorized, "UnauthorizedError", "/v1/feeds/risk", "", "")
	require.NotContains(t, d.command.stderr.String(), "0123456789abcdef")
}

// A result above 64 KiB needs the store, which the gateway reads below --allow only.
func TestGateway_LargeResultWithoutStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.gateway("--allow", t.TempDir())
	d.feed("risk", "large", nil)
	b.worker("large", "--exec", "sed s/x/"+strings.Repeat("y", 100_000)+"/")
	status, answer, _ := d.ask("/v1/feeds/risk/call", "application/json", `"x"`)
	require.Equal(t, http.StatusGone, status, answer)
	require.Contains(t, answer, `"type":"StoredError"`)
	require.Contains(t, answer, "outside what may be reached here")
	status, answer, _ = d.ask("/v1/feeds/risk/call", "application/json", `"z"`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, "\"z\"\n", answer)
	b.refused(starter.ExitUsage, []string{"feed", "serve", "--allow", "all", "--allow", "/data"}, "use it alone")
}
