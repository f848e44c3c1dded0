package starter_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium that knows no host but this one. It is asked over pipes, in the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol): a few messages, which need no package.
type browser struct {
	t       *testing.T
	process *process
	to      *os.File

	mu      sync.Mutex
	last    int
	answers map[int]chan browserAnswer
	asked   []string // the addresses that pages have asked for
	ended   bool
}

// browserAnswer is a message of the protocol: the answer to one of ours, or an event.
type browserAnswer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Request struct {
			URL string `json:"url"`
		} `json:"request"`
	} `json:"params"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// chromium is the browser of this machine: the program that CHROMIUM names, or what it is usually called.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on this machine: nobody looks at the pages of the web UI (Debian: apt-get install chromium, or name one in CHROMIUM)")
	return ""
}

// browse starts a browser.
func (b *box) browse() *browser {
	b.t.Helper()
	program := chromium(b.t)
	ours, to, err := os.Pipe()
	require.NoError(b.t, err)
	from, theirs, err := os.Pipe()
	require.NoError(b.t, err)
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--disable-features=IsolateSandboxedIframes", "--disable-site-isolation-trials", // frames are read with their page
		"--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--window-size=1280,1400", "--user-data-dir="+b.t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{ours, theirs} // file descriptors 3 and 4
	w := &browser{t: b.t, to: to, answers: map[int]chan browserAnswer{}}
	w.process = b.spawnCommand(cmd)
	require.NoError(b.t, errors.Join(ours.Close(), theirs.Close()))
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		w.listen(bufio.NewReader(from))
	}()
	b.t.Cleanup(func() {
		w.close()
		require.NoError(b.t, errors.Join(to.Close(), from.Close()))
		<-listened
	})
	return w
}

// close has the browser end with all its processes. One that does not is killed.
func (w *browser) close() {
	_, err := w.to.Write([]byte(`{"id":0,"method":"Browser.close"}` + "\x00"))
	if err == nil {
		select {
		case <-w.process.ended:
		case <-time.After(closeLimit):
		}
	}
	w.process.kill()
}

// closeLimit is how long a browser may take to end.
const closeLimit = 10 * time.Second

// listen hands answers over until the browser has ended.
func (w *browser) listen(from *bufio.Reader) {
	for {
		text, err := from.ReadString(0)
		var a browserAnswer
		w.mu.Lock()
		switch {
		case err != nil || json.Unmarshal([]byte(strings.TrimSuffix(text, "\x00")), &a) != nil:
			w.ended = true
			for _, waits := range w.answers {
				close(waits)
			}
			w.answers = nil
		case a.Method == "Network.requestWillBeSent":
			w.asked = append(w.asked, a.Params.Request.URL)
		case w.answers[a.ID] != nil:
			w.answers[a.ID] <- a
			delete(w.answers, a.ID)
		}
		ended := w.ended
		w.mu.Unlock()
		if ended {
			return
		}
	}
}

// do has the browser, or a page of it, do something.
func (w *browser) do(session, method string, params map[string]any, into any) {
	w.t.Helper()
	w.mu.Lock()
	require.False(w.t, w.ended, "Chromium has ended: %s", w.process.stderr.String())
	w.last++
	waits := make(chan browserAnswer, 1)
	w.answers[w.last] = waits
	message := map[string]any{"id": w.last, "method": method, "params": params}
	w.mu.Unlock()
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	require.NoError(w.t, err)
	_, err = w.to.Write(append(text, 0))
	require.NoError(w.t, err)
	select {
	case a, ok := <-waits:
		require.True(w.t, ok, "Chromium has ended: %s", w.process.stderr.String())
		require.Nil(w.t, a.Error, "%s: %+v", method, a.Error)
		if into != nil {
			require.NoError(w.t, json.Unmarshal(a.Result, into), string(a.Result))
		}
	case <-time.After(patience):
		require.FailNow(w.t, "Chromium does not answer", method)
	}
}

// tab is a page of a browser.
type tab struct {
	*browser
	session string
}

// open opens a page.
func (w *browser) open(address string) *tab {
	w.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	w.do("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	w.do("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &tab{w, attached.SessionID}
	w.do(p.session, "Network.enable", nil, nil)
	p.goTo(address)
	return p
}

func (p *tab) goTo(address string) {
	p.t.Helper()
	p.do(p.session, "Page.navigate", map[string]any{"url": address}, nil)
}

// press has a key be pressed on the page. Unlike goTo that does not end what the page is loading.
func (p *tab) press(key string) {
	p.t.Helper()
	event := fmt.Sprintf("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true}))", key)
	p.do(p.session, "Runtime.evaluate", map[string]any{"expression": event}, nil)
}

// text is what can be read on the page, as it stands there, and after it what is in its frames.
func (p *tab) text() string {
	p.t.Helper()
	var got struct {
		Result struct {
			Value string `json:"value"`
		} `json:"result"`
	}
	p.do(p.session, "Runtime.evaluate", map[string]any{"expression": "document.body ? document.body.innerText : ''", "returnByValue": true}, &got)
	var document struct {
		Root node `json:"root"`
	}
	p.do(p.session, "DOM.getDocument", map[string]any{"depth": -1, "pierce": true}, &document)
	var b strings.Builder
	b.WriteString(got.Result.Value)
	document.Root.frames(&b)
	return b.String()
}

// node is an element of a page, or a text in it.
type node struct {
	Name     string `json:"nodeName"`
	Value    string `json:"nodeValue"`
	Children []node `json:"children"`
	Frame    *node  `json:"contentDocument"`
}

// frames writes what can be read in the frames below.
func (n *node) frames(b *strings.Builder) {
	if n.Frame != nil {
		b.WriteString("\n")
		n.Frame.read(b)
	}
	for _, child := range n.Children {
		child.frames(b)
	}
}

func (n *node) read(b *strings.Builder) {
	switch n.Name {
	case "HEAD", "SCRIPT", "STYLE":
		return
	case "#text":
		b.WriteString(n.Value)
	}
	for _, child := range n.Children {
		child.read(b)
	}
}

// shows waits until the page's text is as wanted, and returns it.
func (p *tab) shows(what string, holds func(text string) bool) (text string) {
	p.t.Helper()
	for deadline := time.Now().Add(pageLimit); ; time.Sleep(lookEvery) {
		if text = p.text(); holds(text) {
			return text
		}
		if time.Now().After(deadline) {
			require.FailNow(p.t, "the page does not show "+what, text)
		}
	}
}

const (
	pageLimit = 5 * time.Minute
	lookEvery = 100 * time.Millisecond
)

// picture keeps a picture of the page where STINT_TEST_PICTURES says, for people who want to see it.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("STINT_TEST_PICTURES")
	if dir == "" {
		return
	}
	var got struct {
		Data string `json:"data"`
	}
	p.do(p.session, "Page.captureScreenshot", nil, &got)
	data, err := base64.StdEncoding.DecodeString(got.Data)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(dir+"/"+name+".png", data, 0o666))
}

// requireLoopback requires that all that pages have asked for is on this machine.
func (w *browser) requireLoopback() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotEmpty(w.t, w.asked)
	for _, address := range w.asked {
		u, err := url.Parse(address)
		require.NoError(w.t, err)
		if u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "ws" || u.Scheme == "wss" {
			ip := net.ParseIP(u.Hostname())
			require.True(w.t, ip.IsLoopback(), fmt.Sprintf("a page has asked for %s", address))
		}
	}
}
