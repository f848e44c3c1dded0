package remote

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/run/command"
)

func TestRedirect(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status, target := http.StatusTemporaryRedirect, ""
		switch r.URL.Path {
		case "/end":
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("Authorization"), body)
			return
		case "/same":
			target = "/end"
		case "/see":
			status, target = http.StatusSeeOther, "/end"
		case "/moved":
			status, target = http.StatusMovedPermanently, "/end"
		case "/loop":
			target = "/loop"
		case "/other":
			target = other + "/x?key=" + r.Header.Get("Authorization")
		case "/file":
			target = "file:///etc/passwd"
		case "/user":
			target = strings.Replace("http://"+r.Host, "//", "//a:b@", 1)
		}
		w.Header().Set("Location", target)
		w.WriteHeader(status)
	})
	for path, want := range map[string]string{
		"/same": `"POST secret1 \"x\""`, "/see": `"GET secret1 "`,
		"/moved": "it redirects to " + at + "/end with status 301, which would make a GET of the POST",
		"/loop":  "more than 10 redirects",
		"/other": "it redirects to another origin, " + other + ". If that is right",
		"/file":  "it redirects to what is no URL of HTTP",
		"/user":  "it redirects to what is no URL of HTTP",
	} {
		e := open(t, Options{URL: at + path, Headers: []string{"Authorization: secret1"}})
		if want[0] == '"' {
			require.Equal(t, want, result(t, e, line("x")), path)
			continue
		}
		f := faultOf(t, e, line("x"))
		require.Equal(t, []any{Fail, TypeRedirect}, []any{f.Verdict, f.Type}, path)
		require.Contains(t, f.Message, want)
		require.NotContains(t, f.Message, "secret1")
	}
	require.Zero(t, asked.Load(), "the other origin is not asked")
}

func TestOwnAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"8.8.8.8": true, "93.184.216.34": true, "2606:4700::1111": true, "172.32.0.1": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "0.0.0.0": false, "::": false, "169.254.169.254": false,
		"fe80::1": false, "fe80::1%eth0": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "fd00::1": false,
		"100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false,
		"64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "::127.0.0.1": false, "198.18.0.1": false, "0.1.2.3": false, "ff02::1": false,
	} {
		require.Equal(t, public, own(netip.MustParseAddr(address)) == "", address)
	}
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, local := range addresses {
		require.NotEmpty(t, own(netip.MustParsePrefix(local.String()).Addr()), local)
	}
}

// H4: What is refused is the address that a connection would be made to, unless the origin was named.
func TestAddress_Refused(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	at := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	port := at[strings.LastIndexByte(at, ':'):]
	for _, address := range []string{
		"http://169.254.169.254/latest/meta-data/", "http://localhost" + port, at, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port,
		"http://[fe80::1]/",
	} {
		e, err := New(Options{URL: address, AllowOrigins: []string{"https://localhost", "http://localhost:1", "http://169.254.169.254:81"}})
		require.NoError(t, err)
		f := faultOf(t, e, line("x"))
		require.Equal(t, []any{Stop, TypeAddress}, []any{f.Verdict, f.Type}, address)
		require.Contains(t, f.Message, "allow the origin "+e.Origin())
	}
	require.Zero(t, asked.Load())
	e := open(t, Options{URL: "http://localhost" + port})
	require.Equal(t, `""`, result(t, e, line("x")))
	_, err := New(Options{URL: at, AllowOrigins: []string{"localhost"}})
	require.ErrorContains(t, err, `allowed origin "localhost": begin with http:// or https://`)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.Config.ErrorLog = discardLog()
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	require.Equal(t, `"HTTP/2.0"`, result(t, open(t, Options{URL: server.URL, RootCAs: roots}), line("x")))
	f := faultOf(t, open(t, Options{URL: server.URL}), line("x"))
	require.Equal(t, []any{Stop, TypeTLS}, []any{f.Verdict, f.Type})
	require.Contains(t, f.Message, "the server's certificate is not accepted: certificate signed by unknown authority. Check")
	wrong := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	f = faultOf(t, open(t, Options{URL: wrong, RootCAs: roots}), line("x"))
	require.Equal(t, []any{Stop, TypeTLS}, []any{f.Verdict, f.Type})
	require.Contains(t, f.Message, "not localhost")

	plain := strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) {}), "http:", "https:", 1)
	f = faultOf(t, open(t, Options{URL: plain}), line("x"))
	require.Equal(t, []any{Stop, TypeWrongURL}, []any{f.Verdict, f.Type})
	require.Contains(t, f.Message, "the server speaks HTTP, not HTTPS")
}

// As many connections are kept as there are calls at once.
func TestConnections(t *testing.T) {
	t.Parallel()
	const calls = 8
	var mu sync.Mutex
	from := map[string]bool{}
	var together sync.WaitGroup
	e := open(t, Options{Concurrency: calls, URL: serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		together.Done()
		together.Wait()
	})})
	for range 5 {
		together.Add(calls)
		var done sync.WaitGroup
		for range calls {
			done.Go(func() {
				_, err := e.Do(t.Context(), e.NewRequest([]command.Item{line("x")}), "")
				if err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	}
	require.Len(t, from, calls)
}

// Whatever length an answer states, all of it is read, or as much as the limit allows.
func TestReadBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 511, 512, 513, 5000, believed - 1, believed, believed + 1, 3 * believed} {
		sent := bytes.Repeat([]byte{'x'}, size)
		for _, stated := range []int64{-1, int64(size)} {
			for _, limit := range []int{1, size, size + 1, 10 * believed} {
				for name, r := range map[string]io.Reader{"at once": bytes.NewReader(sent), "in halves": iotest.HalfReader(bytes.NewReader(sent))} {
					got, err := readBody(&http.Response{ContentLength: stated, Body: io.NopCloser(r)}, int64(limit))
					require.NoError(t, err)
					require.Len(t, got, min(size, limit), "%s: %d bytes, %d stated", name, size, stated)
				}
			}
		}
	}
	_, err := readBody(&http.Response{ContentLength: 9, Body: io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("too short"))))}, 100)
	require.ErrorIs(t, err, iotest.ErrTimeout)
}
