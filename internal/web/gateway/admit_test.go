package gateway

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stretchr/testify/require"
)

// X2: on loopback, Host and Origin are checked, for every route.
func TestX2_HostAndOrigin(t *testing.T) {
	t.Parallel()
	s := serve(t, &fake{}, nil)
	for _, rt := range s.gateway.routes {
		path := strings.ReplaceAll(rt.path, "{name}", "f")
		r := s.send(rt.method, path, "", nil, "Host", "rebound.example")
		require.Equal(t, http.StatusForbidden, r.status, rt.path)
		require.Equal(t, "ForbiddenError", r.problem(t).Type)
		r = s.send(rt.method, path, "", nil, "Origin", "http://evil.example")
		require.Equal(t, http.StatusForbidden, r.status, rt.path)
		require.Less(t, s.send(rt.method, path, "", nil, "Host", "localhost:1").status, 400, rt.path)
	}
	open := serve(t, &fake{}, func(o *Options) { o.Loopback = false })
	require.Equal(t, http.StatusOK, open.send(http.MethodGet, "/v1/feeds/f", "", nil, "Host", "gateway.example").status)
}

// X2: the gateway knows tokens, and reads their file again when it changes.
func TestX2_Tokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	first, second := "first-0123456789abcdef", "other-0123456789abcdef"
	write(first + "\n")
	known, err := tokens.Read(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s := serve(t, &fake{}, func(o *Options) { o.Tokens = known })
	status := func(header string) int {
		r := s.send(http.MethodGet, "/v1/feeds/f", "", nil, "Authorization", header)
		if r.status == http.StatusUnauthorized {
			require.Equal(t, "UnauthorizedError", r.problem(t).Type)
			require.Contains(t, r.header.Get("WWW-Authenticate"), "Bearer")
			require.NotContains(t, r.body, first)
		}
		return r.status
	}
	require.Equal(t, 200, status("Bearer "+first))
	require.Equal(t, 200, status("bearer "+first))
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer x", "Bearer " + first + "x", "Bearer " + first[:20], "Basic " + first, first, "Bearer " + second} {
		require.Equal(t, 401, status(wrong), wrong)
	}
	for _, path := range []string{"/health", "/readyz", "/livez", "/metrics", "/openapi.json"} {
		require.Equal(t, 200, s.send(http.MethodGet, path, "", nil).status, "these need none")
	}
	for _, rt := range s.gateway.routes {
		if strings.HasPrefix(rt.path, "/v1/") {
			require.Equal(t, 401, s.send(rt.method, strings.ReplaceAll(rt.path, "{name}", "f"), "", nil).status, rt.path)
		}
	}
	write(first + "\n" + second + "\n")
	require.Equal(t, 200, status("Bearer "+second))
	write(second + "\n") // as long as the first file was
	require.Equal(t, 401, status("Bearer "+first))
	require.Equal(t, 200, status("Bearer "+second))
	info, err := os.Stat(path)
	require.NoError(t, err)
	write(first + "\n")
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime())) // as if within one tick of the file system's clock
	require.Equal(t, 401, status("Bearer "+second))
	require.Equal(t, 200, status("Bearer "+first))
	for _, bad := range []string{"", "short\n", "two tokens on one line\n", strings.Repeat("x", 1<<16+1)} {
		write(bad)
		require.Equal(t, 401, status("Bearer "+second), "%.20q", bad)
		_, err := tokens.Read(path, nil)
		require.Error(t, err)
	}
	require.NoError(t, os.Remove(path))
	require.Equal(t, 401, status("Bearer "+second))
	write(second)
	require.Equal(t, 200, status("Bearer "+second))
}
