package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// streaming asks for live updates; the channel is closed when they end.
func streaming(t *testing.T, p *Page, token string) <-chan struct{} {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, apiPath+"/workers/events", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.ServeHTTP(httptest.NewRecorder(), r)
	}()
	return ended
}

// Live updates end with the page.
func TestStream_EndsWithThePage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{})
		require.NoError(t, err)
		ended := streaming(t, p, "")
		synctest.Wait()
		p.Close()
		<-ended
		p.Close()
	})
}
