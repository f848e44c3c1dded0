package page_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/stint-run/stint/internal/data/store"
	"github.com/stint-run/stint/internal/test/testserver"
	"github.com/stint-run/stint/internal/web/page"
	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/job"
	"github.com/stint-run/stint/jobs"
	"github.com/stint-run/stint/worker"
)

// patience is how long what a page is to show may take: a busy machine takes long.
const (
	patience  = 2 * time.Minute
	lookEvery = 50 * time.Millisecond
)

// chromium is the browser of this machine: the program that CHROMIUM names, or what it is usually called.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on this machine: nobody looks at the page (Debian: apt-get install chromium, or name one in CHROMIUM)")
	return ""
}

// fixture is a server with workers, and a page of it.
type fixture struct {
	t       *testing.T
	dir     string
	client  *jobs.Client
	options page.Options
	token   string
	address string
	end     func() // of the page
	mu      sync.Mutex
	fixed   bool // items that failed do so no more
	gate    chan struct{}
	open    func() // the gate
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), gate: make(chan struct{})}
	f.open = sync.OnceFunc(func() { close(f.gate) })
	server, err := testserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	temporal, err := sdkclient.Dial(sdkclient.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	f.client = jobs.NewClient(temporal, nil)
	for pool, h := range map[string]worker.Handler{"strikes": worker.Each(f.strike), "clean": worker.Each(f.strike), "judge": worker.Each(f.slow)} {
		f.work(pool, h)
	}
	known, token := tokens.Made()
	access := &store.Access{}
	t.Cleanup(func() { require.NoError(t, access.Close()) })
	f.options, f.token = page.Options{Client: f.client, Tokens: known, Actions: true, Access: access, Temporal: "http://127.0.0.1:1/namespaces/default"}, token
	t.Cleanup(f.open) // workers end then
	f.serve("127.0.0.1:0")
	return f
}

func (f *fixture) work(pool string, h worker.Handler) {
	f.t.Helper()
	w, err := worker.New(f.client, pool, h, worker.Options{Slots: 2, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-ended)
	})
}

// serve serves the page until it is ended.
func (f *fixture) serve(address string) {
	f.t.Helper()
	server, err := page.Listen(address, f.options)
	require.NoError(f.t, err)
	f.address = server.Address()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	f.end = sync.OnceFunc(func() {
		cancel()
		require.NoError(f.t, <-ended)
	})
	f.t.Cleanup(f.end)
}

// strike fails some items, and waits in the middle of a job until the gate is open.
func (f *fixture) strike(ctx context.Context, item string) (string, error) {
	if strings.HasPrefix(item, "wait") {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(item, "bad") && !f.fixed {
		return "", fmt.Errorf("no field 'height' in <b onclick=alert(1)>%s</b>", item)
	}
	return item, nil
}

func (f *fixture) slow(ctx context.Context, item string) (string, error) {
	select {
	case <-f.gate:
	case <-ctx.Done():
	}
	return item, ctx.Err()
}

// start starts a job over so many items of each kind, in this order.
func (f *fixture) start(spec job.Spec, kinds ...any) *jobs.Run {
	f.t.Helper()
	var b strings.Builder
	for i := 0; i < len(kinds); i += 2 {
		for n := range kinds[i+1].(int) {
			fmt.Fprintf(&b, "%s %d\n", kinds[i], n)
		}
	}
	spec.Files = &job.Files{Input: []string{filepath.Join(f.dir, spec.Name+".txt")}}
	spec.Output, spec.Attempts, spec.BatchItems = filepath.Join(f.dir, spec.Name+".out"), 1, 50
	require.NoError(f.t, os.WriteFile(spec.Files.Input[0], []byte(b.String()), 0o600))
	run, err := f.client.Start(f.t.Context(), spec, nil)
	require.NoError(f.t, err)
	return run
}

// tab is a page of a browser, and what it has asked for and complained about.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	asked []string
	wrong []string
}

func (f *fixture) browse() *tab {
	f.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(f.t)), chromedp.NoSandbox, chromedp.UserDataDir(f.t.TempDir()),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	all, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(all)
	b := &tab{t: f.t}
	var limited context.CancelFunc
	b.ctx, limited = context.WithTimeout(ctx, 5*patience)
	f.t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it ends with its processes
		limited()
		closeTab()
		end()
	})
	require.NoError(f.t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	require.NoError(f.t, chromedp.Listen(ctx, b.note))
	for _, err := range []error{
		call(ctx, network.Enable, network.EnableParams{}), call(ctx, log.Enable, cdp.Empty{}), call(ctx, runtime.Enable, cdp.Empty{}),
	} {
		require.NoError(f.t, err)
	}
	return b
}

// call sends a command whose answer does not matter.
func call[P, R any](ctx context.Context, command cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.wrong = append(b.wrong, fmt.Sprintf("console: %s", e.Args[0].Value))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.wrong = append(b.wrong, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// requireClean requires that all that the page has asked for is on this machine, and that nothing went wrong in it.
func (b *tab) requireClean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.wrong)
	require.NotEmpty(b.t, b.asked)
	for _, address := range b.asked {
		u, err := url.Parse(address)
		require.NoError(b.t, err)
		require.True(b.t, u.Scheme == "data" || net.ParseIP(u.Hostname()).IsLoopback(), "the page has asked for %s", address)
	}
}

func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		require.NoError(b.t, err, "%s; the page shows: %s", what, text)
	}
}

// shows waits until an expression is true on the page.
func (b *tab) shows(what, expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(lookEvery) {
		shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)) // an error: the page changes just now
		if err == nil && shown {
			return
		}
		if time.Now().After(deadline) {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
			require.FailNow(b.t, "the page does not show "+what, "%v: %s", err, text)
		}
	}
}

// picture keeps a picture of the page where STINT_TEST_PICTURES says, for people who want to see it.
func (b *tab) picture(name string, width int64, dark bool) {
	b.t.Helper()
	b.look(width, dark)
	defer b.look(1280, false)
	if dir := os.Getenv("STINT_TEST_PICTURES"); dir != "" {
		data, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		require.NoError(b.t, err)
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o666))
	}
}

// look sets the width of the window and the colours.
func (b *tab) look(width int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do("another width", chromedp.EmulateViewport(width, 900))
	require.NoError(b.t, call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}))
}

// has is whether the page's text has another one in it.
func has(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// U1, U3, U4: Chromium clicks through the page: the list and its filter, a job whose numbers move, one with failures, a redrive by
// its button, a pipeline, a feed, workers; after a restart of its server the open page goes on by itself.
func TestBrowser_ClicksThrough(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := setup(t)
	done := f.start(job.Spec{Name: "nightly", Pool: "strikes"}, "fine", 400, "bad", 20)
	_, err := done.Wait(t.Context())
	require.NoError(t, err)
	moving := f.start(job.Spec{Name: "moving", Pool: "strikes"}, "fine", 300, "wait", 100, "fine", 200)
	f.start(job.Spec{Name: "pipeline", Stages: []job.Stage{{Name: "clean", Pool: "clean"}, {Name: "both", Ensemble: []job.Stage{{Name: "first", Pool: "judge"}, {Name: "second", Pool: "judge"}}}}}, "fine", 500)
	_, err = f.client.Start(t.Context(), job.Spec{Name: "live", Pool: "clean", Feed: &job.Feed{}, Output: f.dir + "/live/"}, nil)
	require.NoError(t, err)
	feed := jobs.NewFeed[string, string](f.client, "live", jobs.FeedOptions{})
	defer feed.Release()
	require.NoError(t, feed.Put(t.Context(), "fine 1", "fine 2"))

	b := f.browse()
	at := "http://" + f.address
	b.do("the page", chromedp.Navigate(at+"/stint/?token="+f.token))
	b.shows("live updates", `document.getElementById("live").dataset.state === "on"`)
	b.shows("all jobs", `document.querySelectorAll("tr[data-key]").length === 4`)
	b.shows("failures in the list", `document.querySelector("tr:has(a[href$=nightly]) b.bad").innerText === "20"`)
	b.requireReadable("the list")
	b.picture("page-jobs", 1280, false)
	b.picture("page-jobs-phone", 390, true)
	b.do("the filter", chromedp.Click(chromedp.Search(`//a[text()="completed"]`)))
	b.shows("the filtered list", `location.search === "?state=completed" && document.querySelectorAll("tr[data-key]").length === 1`)

	b.do("the running job", chromedp.Navigate(at+"/stint/"), chromedp.Click(chromedp.CSS(`tr[data-key] a[href$=moving]`)))
	b.shows("what is done", `/\b[345]\d\d of 600 items done/.test(document.body.innerText)`)
	b.shows("what runs", `document.querySelectorAll("#slots").length === 1`)
	b.requireReadable("a running job")

	was := f.address
	f.end()
	b.shows("that the connection is lost", `document.getElementById("live").dataset.state === "lost"`)
	f.serve(was)
	b.shows("the page again", `document.getElementById("live").dataset.state === "on"`)
	f.open()
	b.shows("that its numbers move", has("600 of 600 items done")+` && document.querySelector(".badge").innerText.includes("completed")`)
	report, err := moving.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(600), report.OK)

	b.do("a job with failures", chromedp.Navigate(at+"/stint/jobs/nightly"))
	b.shows("its failures", has("20 ×")+" && "+has("no field '*' in"))
	b.do("an example", chromedp.Click(chromedp.CSS(".failure summary")))
	b.shows("its text", has("no field 'height' in <b onclick=alert(1)>bad 0</b>")+" && "+has("bad 0"))
	b.requireReadable("a job with failures")
	b.picture("page-job", 1280, false)
	b.picture("page-job-dark", 820, true)
	b.picture("page-job-phone", 390, false)
	f.mu.Lock()
	f.fixed = true
	f.mu.Unlock()
	b.do("redrive", chromedp.Click(chromedp.Search(`//button[text()="Redrive these"]`)))
	b.shows("its command", `document.getElementById("ask-command").innerText.startsWith("stint redrive nightly --where ")`)
	b.requireReadable("the dialog")
	b.do("yes", chromedp.Click(chromedp.CSS("#ask-yes")))
	b.shows("that nothing has failed", has("420 of 420 items done")+` && !document.getElementById("failures") && document.querySelector(".badge").innerText.includes("completed")`)

	b.do("the list", chromedp.Navigate(at+"/stint/"))
	b.shows("both runs of the name, each in its own row, after an update", `document.getElementById("live").dataset.state === "on" &&
		[...document.querySelectorAll("tr:has(a[href$=nightly])")].map(r => r.innerText.includes("failed") || r.querySelector("b.bad") ? "bad" : "good").sort().join() === "bad,good"`)

	b.do("a pipeline", chromedp.Navigate(at+"/stint/jobs/pipeline"))
	b.shows("its stages", `document.querySelectorAll(".stage").length === 3`)
	b.requireReadable("a pipeline")
	b.picture("page-pipeline", 1280, false)
	b.do("a feed", chromedp.Navigate(at+"/stint/jobs/live"))
	b.shows("what it has accepted", `[...document.querySelectorAll(".facts div")].some(d => d.innerText.replace(/\s+/g, " ") === "accepted 2")`)
	b.requireReadable("a feed")
	b.do("the workers", chromedp.Navigate(at+"/stint/workers"))
	b.shows("slots", has("0 of 2 busy, 2 free")+" || "+has("of 2 busy"))
	b.requireReadable("the workers")
	b.picture("page-workers", 1280, true)
	b.do("another pool", chromedp.Navigate(at+"/stint/jobs/none"))
	b.shows("that there is no such job", has("there is no job named"))

	b.do("the list", chromedp.Navigate(at+"/stint/"))
	b.shows("live updates", `document.getElementById("live").dataset.state === "on"`)
	f.end()
	f.options.Tokens, f.token = tokens.Made()
	f.serve(was)
	b.shows("the form for the token of the server that was started anew", `document.querySelector("input[name=token]") !== null`)
	b.do("the page", chromedp.Navigate(at+"/stint/?token="+f.token))
	b.shows("live updates", `document.getElementById("live").dataset.state === "on"`)
	b.mu.Lock()
	b.wrong = b.expected(b.wrong)
	b.mu.Unlock()
	b.requireClean()
	require.NoError(t, f.client.Get("live").Stop(t.Context(), job.Stop{Grace: "0s"}))
	_, err = f.client.Get("live").Wait(t.Context())
	require.NoError(t, err)
	_, _ = f.client.Get("pipeline").Wait(t.Context())
}

// expected leaves out what browsers say of a server that is away or wants another token, and of a job that is not there.
func (b *tab) expected(wrong []string) (left []string) {
	for _, w := range wrong {
		if !strings.Contains(w, "ERR_CONNECTION_REFUSED") && !strings.Contains(w, "ERR_INCOMPLETE_CHUNKED_ENCODING") && !strings.Contains(w, "/jobs/none") && !strings.Contains(w, "401 (Unauthorized)") {
			left = append(left, w)
		}
	}
	return left
}
