package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/mocks"

	"github.com/stint-run/stint/jobs"
)

// setup returns a page whose Temporal client answers as the test says.
func setup(t *testing.T, o Options) (*Page, *mocks.Client) {
	t.Helper()
	tc := &mocks.Client{}
	tc.Test(t)
	t.Cleanup(func() { tc.AssertExpectations(t) })
	o.Client = jobs.NewClient(tc, nil)
	p, err := New(o)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, tc
}

// asked is an answer.
type asked struct {
	status int
	header http.Header
	body   string
}

// send sends a request; headers are name and value by turns, and Host is one of them.
func send(t *testing.T, p http.Handler, method, address, body string, headers ...string) asked {
	t.Helper()
	r := httptest.NewRequest(method, address, strings.NewReader(body))
	r.Host = "127.0.0.1:8300"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	said, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return asked{w.Code, w.Header(), string(said)}
}
