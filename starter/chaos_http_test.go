package starter_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mortalAPI is a server that dies, and comes back at the same address. It remembers keys: it does an item when the first
// request with its key comes, and answers any other one with the same.
type mortalAPI struct {
	t       *testing.T
	address string
	witness *os.File // a line for each item that is done
	server  *http.Server
	halves  atomic.Bool  // whether answers stop in the middle
	refuses atomic.Int32 // the status of all answers; 0: they are results

	mu   sync.Mutex
	of   map[string]string // the item that each key has come with
	keys map[string]string // the key of each item
	done map[string]bool   // by key
	seen int               // requests
}

// tokensIn and tokensOut are what each answer says that it has used.
const tokensIn, tokensOut = 7, 2

// mortalAPI starts one. What it does is in the witness.
func (b *box) mortalAPI() *mortalAPI {
	b.t.Helper()
	witness, err := os.Create(b.path("witness"))
	require.NoError(b.t, err)
	a := &mortalAPI{t: b.t, address: "127.0.0.1:0", witness: witness, of: map[string]string{}, keys: map[string]string{}, done: map[string]bool{}}
	a.live()
	b.t.Cleanup(func() {
		_ = a.server.Close()
		_ = witness.Close()
	})
	return a
}

// live has the server answer.
func (a *mortalAPI) live() {
	var listener net.Listener
	eventually(a.t, "the address", func() (free bool) {
		var err error
		listener, err = net.Listen("tcp", a.address)
		return err == nil
	})
	a.address = listener.Addr().String()
	server := &http.Server{Handler: a}
	a.server = server
	go func() { _ = server.Serve(listener) }()
}

// die cuts all connections, also those with a request in hand.
func (a *mortalAPI) die() { _ = a.server.Close() }

func (a *mortalAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // who has sent it is gone
	}
	answer := fmt.Appendf(nil, `{"result": %s, "usage": {"prompt_tokens": %d, "completion_tokens": %d}}`, body, tokensIn, tokensOut)
	refused := int(a.refuses.Load())
	a.note(string(body), r.Header.Get("Idempotency-Key"), refused == 0)
	time.Sleep(40 * time.Millisecond) // this is the work, not a wait for something
	w.Header().Set("Content-Type", "application/json")
	switch {
	case refused > 0:
		if refused == http.StatusTooManyRequests {
			w.Header().Set("Retry-After-Ms", "100")
		}
		w.WriteHeader(refused)
	case a.halves.Load():
		w.Header().Set("Content-Length", itoa(len(answer)))
		_, _ = w.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write(answer)
	}
}

// note notes a request, and does its item unless that is done, or is refused.
func (a *mortalAPI) note(body, key string, do bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	if _, known := a.of[key]; !known {
		a.of[key] = body
	}
	if _, known := a.keys[body]; !known {
		a.keys[body] = key
	}
	assert.Equal(a.t, body, a.of[key], "the item of key %s", key)
	assert.Equal(a.t, a.keys[body], key, "the key of %s", body)
	if !do || a.done[key] {
		return
	}
	a.done[key] = true
	var item string
	assert.NoError(a.t, json.Unmarshal([]byte(body), &item))
	_, err := a.witness.WriteString(item + "\n")
	assert.NoError(a.t, err)
}

// away has the server be away for as long as an outage lasts, and something else happen half way.
func (c *chaos) away(other func()) {
	c.api.die()
	c.meanwhile(other)
	c.api.live()
}

// refuses has it answer with a status.
func (c *chaos) refuses(status int32) {
	c.api.refuses.Store(status)
	defer c.api.refuses.Store(0)
	c.meanwhile(func() {})
}

func (c *chaos) halveAnswers() {
	c.api.halves.Store(true)
	defer c.api.halves.Store(false)
	c.meanwhile(func() {})
}

// httpFaults are those of the server that is called, and those of workers that have no children. None has an item done
// twice.
var httpFaults = append([]fault{
	{"the API dies and comes back", 0, func(c *chaos) { c.away(func() {}) }},
	{"a worker is killed while the API is away", 0, func(c *chaos) { c.away(c.killWorker) }},
	{"all workers are killed while the API is away", 0, func(c *chaos) { c.away(c.killWorkers) }},
	{"answers are half written", 0, (*chaos).halveAnswers},
	{"the API answers 503", 0, func(c *chaos) { c.refuses(http.StatusServiceUnavailable) }},
	{"the API answers 429", 0, func(c *chaos) { c.refuses(http.StatusTooManyRequests) }},
}, exactlyOnce(faults)...)

// exactlyOnce returns the faults that are not of children and guards, as those with which a server that remembers keys
// does no item twice.
func exactlyOnce(of []fault) (all []fault) {
	for _, f := range of {
		if !slices.Contains([]string{"a guard is killed", "a child is killed"}, f.name) {
			all = append(all, fault{f.name, 0, f.happens})
		}
	}
	return all
}

// TestChaos_HTTPShort is a short round of TestChaos_HTTP.
func TestChaos_HTTPShort(t *testing.T) {
	t.Parallel()
	withstandHTTP(t, 1_500, httpFaults[:6], 3, time.Second)
}

// TestChaos_HTTP: whatever fails, of the workers or of the server that they call, each item has its result, once and in
// order; all requests of an item have the same key, and no other has it.
func TestChaos_HTTP(t *testing.T) {
	t.Parallel()
	chaotic(t, func(t *testing.T) { withstandHTTP(t, 15_000, httpFaults, 20, 4*time.Second) })
}

// withstandHTTP is withstand for requests to a server whose outages last so long.
func withstandHTTP(t *testing.T, n int, faults []fault, number int, lasts time.Duration) {
	t.Helper()
	c := newChaos(t, n)
	c.api, c.lasts, c.batch = c.mortalAPI(), lasts, 50
	url := "http://" + c.api.address
	c.handler = []string{"--http", url, "--allow-origin", url, "--concurrency", "4", "--result-path", ".result"}
	c.flags = []string{"--item-attempts", "20", "--report", c.path("report.json")}
	var results strings.Builder
	for line := range strings.Lines(c.results) {
		results.WriteString(`"` + strings.TrimSuffix(line, "\n") + "\"\n")
	}
	c.results = results.String()
	c.begin(c.write("in.txt", numbers(n)), "out.jsonl")
	c.rage(c.choose(faults, number))
	c.end(func() string { return c.read("out.jsonl") })
	c.t.Logf("%d requests for %d items", c.api.seen, n)
	require.Len(t, c.api.keys, n)
	require.Len(t, c.api.of, n)
	require.Equal(t, n, c.executions(), "nothing is done twice")
	r := c.report("report.json")
	require.GreaterOrEqual(t, r.Usage.TokensIn, int64(n*tokensIn), "each item has been paid for")
	require.LessOrEqual(t, r.Spent().TokensIn, int64(c.api.seen*tokensIn), "no more than was asked")
	require.Equal(t, r.Usage.TokensIn*tokensOut, r.Usage.TokensOut*tokensIn)
}
