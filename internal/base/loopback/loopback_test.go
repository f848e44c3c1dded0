package loopback

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// X2: requests that name another host, or come from another origin's page, are refused.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, origin string
		want         any
	}{
		{"127.0.0.1:8080", "", nil},
		{"[::1]:8080", "http://[::1]:8080", nil},
		{"LocalHost", "http://localhost", nil},
		{"localhost.evil.example", "", new(*HostError)},
		{"192.0.2.1:8080", "", new(*HostError)},
		{"", "", new(*HostError)},
		{"localhost:8080", "http://evil.example", new(*OriginError)},
		{"localhost:8080", "null", new(*OriginError)},
	} {
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.Host = c.host
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		if err := Check(request); c.want == nil {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorAs(t, err, c.want, "%+v", c)
		}
	}
}
