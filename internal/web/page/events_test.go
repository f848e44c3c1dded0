package page

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-run/stint/internal/web/tokens"
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

// Live updates end when their token is taken out of the file.
func TestStream_EndsWithItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const token = "0123456789abcdef"
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
		known, err := tokens.Read(path, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		p, err := New(Options{Tokens: known})
		require.NoError(t, err)
		defer p.Close()
		ended := streaming(t, p, token)
		time.Sleep(time.Minute)
		select {
		case <-ended:
			require.FailNow(t, "the token is known")
		default:
		}
		require.NoError(t, os.WriteFile(path, []byte("another-0123456789"), 0o600))
		time.Sleep(pingEvery)
		synctest.Wait()
		select {
		case <-ended:
		default:
			require.FailNow(t, "the token is not known any more")
		}
	})
}
