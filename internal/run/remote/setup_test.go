package remote

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stint-run/stint/internal/run/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns the URL of a server.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// open returns an endpoint that may call the server that its options name.
func open(t *testing.T, o Options) *Endpoint {
	t.Helper()
	at := o.URL
	if o.Model != nil {
		at = o.Model.BaseURL
	}
	if origin, err := Origin(at); err == nil {
		o.AllowOrigins = append(o.AllowOrigins, origin)
	}
	e, err := New(o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// object returns an item in JSON, and line one of text.
func object(data string) command.Item { return command.Item{Data: []byte(data), JSON: true, Number: 1} }
func line(data string) command.Item   { return command.Item{Data: []byte(data), Number: 1} }

// do sends one item.
func do(t *testing.T, e *Endpoint, items ...command.Item) (*Reply, error) {
	t.Helper()
	return e.Do(t.Context(), e.NewRequest(items), "key")
}

// result returns the result of one item.
func result(t *testing.T, e *Endpoint, item command.Item) string {
	t.Helper()
	reply, err := do(t, e, item)
	require.NoError(t, err)
	require.Nil(t, reply.Items[0].Fault)
	return string(reply.Items[0].Value)
}

// faultOf returns why one item has no result.
func faultOf(t *testing.T, e *Endpoint, item command.Item) *Fault {
	t.Helper()
	reply, err := do(t, e, item)
	if err != nil {
		var f *Fault
		require.ErrorAs(t, err, &f)
		return f
	}
	require.NotNil(t, reply.Items[0].Fault, "%s", reply.Items[0].Value)
	return reply.Items[0].Fault
}

// env is an environment.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
