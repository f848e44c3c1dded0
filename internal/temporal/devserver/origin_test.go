package devserver

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// anyAddress is a listener that only has an address.
type anyAddress struct {
	net.Listener
	address string
}

func (l anyAddress) Addr() net.Addr { return l }
func (anyAddress) Network() string  { return "tcp" }
func (l anyAddress) String() string { return l.address }

func TestGuardLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listener, host, origin string
		want                   int
	}{
		{"127.0.0.1:8233", "127.0.0.1:8233", "", http.StatusOK},
		{"127.0.0.1:8233", "localhost:8233", "", http.StatusOK},
		{"127.0.0.1:8233", "localhost:9000", "http://localhost:9000", http.StatusOK},
		{"127.0.0.1:8233", "LocalHost", "http://localhost", http.StatusOK},
		{"[::1]:8233", "[::1]:8233", "http://[::1]:8233", http.StatusOK},
		{"127.0.0.1:8233", "evil.example:8233", "", http.StatusForbidden},
		{"127.0.0.1:8233", "localhost.evil.example", "", http.StatusForbidden},
		{"127.0.0.1:8233", "192.0.2.1:8233", "", http.StatusForbidden},
		{"127.0.0.1:8233", "", "", http.StatusForbidden},
		{"127.0.0.1:8233", "localhost:8233", "http://evil.example", http.StatusForbidden},
		{"127.0.0.1:8233", "localhost:8233", "http://localhost:3000", http.StatusForbidden},
		{"127.0.0.1:8233", "localhost:8233", "null", http.StatusForbidden},
		{"[::]:8233", "server.example:8233", "http://server.example:8233", http.StatusOK},
		{"192.0.2.1:8233", "server.example", "", http.StatusOK},
	} {
		handler := guardLoopback(anyAddress{address: c.listener}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.Host = c.host
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		require.Equal(t, c.want, answer.Code, "%+v", c)
	}
}

// A web page that has its own name point at this machine gets nothing of the UI, and changes nothing.
func TestUIRefusesForeignHosts(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{UIPort: AnyPort})
	startWaiting(t, dial(t, s), "w")
	api := s.UIURL() + "/api/v1/namespaces/default/workflows/w"
	send := func(method, url, host, origin string) int {
		request, err := http.NewRequestWithContext(contextWithPatience(t), method, url, http.NoBody)
		require.NoError(t, err)
		request.Host, request.Close = host, true
		request.Header.Set("Sec-Fetch-Site", "same-origin") // as a browser says of a rebound page
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusForbidden, send(http.MethodGet, api, "rebound.example", ""))
	require.Equal(t, http.StatusForbidden, send(http.MethodPost, api+"/cancel", "rebound.example", "http://rebound.example"))
	require.Equal(t, http.StatusForbidden, send(http.MethodPost, api+"/cancel", "localhost", "http://rebound.example"))
	require.Equal(t, http.StatusOK, send(http.MethodGet, api, "localhost", "http://localhost"))
}

// What lies at the page's path and below it is the page's, and nothing else.
func TestWithPage(t *testing.T) {
	t.Parallel()
	says := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	both := withPage(Options{Page: says(http.StatusOK), PagePath: "/stint"}, says(http.StatusTeapot))
	for path, want := range map[string]int{
		"/stint": http.StatusOK, "/stint/jobs/a": http.StatusOK, "/stinted": http.StatusTeapot, "/": http.StatusTeapot, "/namespaces/stint/": http.StatusTeapot,
	} {
		answer := httptest.NewRecorder()
		both.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, answer.Code, path)
	}
}
