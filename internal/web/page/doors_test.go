package page

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/web/tokens"
	"github.com/stint-run/stint/internal/wire"
)

const api = apiPath + "/jobs"

// X2: another Host and another origin's page get nothing, whatever they ask for.
func TestX2_OtherHostsAndOrigins(t *testing.T) {
	t.Parallel()
	p, err := New(Options{Loopback: true})
	require.NoError(t, err)
	open, err := New(Options{})
	require.NoError(t, err)
	for _, path := range []string{"/stint/", "/stint/jobs/a", "/stint/assets/page.js", api, api + "/events", apiPath + "/openapi.json"} {
		for _, c := range []struct {
			p            *Page
			host, origin string
		}{
			{p, "evil.example:8300", ""}, {p, "127.0.0.1:8300", "http://evil.example"}, {p, "127.0.0.1:8300", "null"},
			{open, "server.example", "http://evil.example"}, {open, "server.example", "null"},
		} {
			headers := []string{"Host", c.host}
			if c.origin != "" {
				headers = append(headers, "Origin", c.origin)
			}
			a := send(t, c.p, http.MethodGet, path, "", headers...)
			require.Equal(t, http.StatusForbidden, a.status, "%s %+v", path, headers)
			require.Contains(t, a.body, "ForbiddenError")
		}
		if path == api+"/events" {
			continue // it has no end
		}
		require.NotEqual(t, http.StatusForbidden, send(t, p, http.MethodGet, path, "", "Origin", "http://127.0.0.1:8300").status)
		require.NotEqual(t, http.StatusForbidden, send(t, open, http.MethodGet, path, "", "Host", "server.example", "Origin", "https://server.example").status)
	}
}

// X2: without its token a request gets the form that asks for it, or an error; the token of an address becomes a
// cookie.
func TestX2_Tokens(t *testing.T) {
	t.Parallel()
	known, token := tokens.Made()
	p, err := New(Options{Loopback: true, Tokens: known})
	require.NoError(t, err)
	const asksForIt = `name="token"`
	for _, headers := range [][]string{{}, {"Authorization", "Bearer wrong"}, {"Cookie", "stint-token-8300=wrong"}, {"Cookie", "stint-token-9999=" + inCookie(token)}} {
		a := send(t, p, http.MethodGet, "/stint/jobs/a?x=1", "", headers...)
		require.Equal(t, http.StatusUnauthorized, a.status)
		require.Contains(t, a.body, asksForIt)
		require.Contains(t, a.body, `value="/stint/jobs/a?x=1"`, "it leads on")
		for _, path := range []string{api, api + "/events", api + "/a", apiPath + "/workers"} {
			require.Equal(t, http.StatusUnauthorized, send(t, p, http.MethodGet, path, "", headers...).status, path)
		}
		require.Equal(t, http.StatusUnauthorized, send(t, p, http.MethodPost, api+"/a/stop", "{}", append(headers, "Content-Type", "application/json")...).status)
	}
	for _, headers := range [][]string{{"Authorization", "Bearer " + token}, {"Cookie", "stint-token-8300=" + inCookie(token)}} {
		a := send(t, p, http.MethodGet, api, "", headers...)
		require.Equal(t, http.StatusServiceUnavailable, a.status, "it has no server yet")
	}
	require.Equal(t, http.StatusOK, send(t, p, http.MethodGet, "/stint/assets/style.css", "").status, "the form needs it")
	for _, bad := range []string{"layout.html", "openapi.json", "none.js"} {
		require.Equal(t, http.StatusNotFound, send(t, p, http.MethodGet, "/stint/assets/"+bad, "").status, bad)
	}

	a := send(t, p, http.MethodGet, "/stint/?state=failed&token="+token, "")
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, "/stint/?state=failed", a.header.Get("Location"))
	cookie := a.header.Get("Set-Cookie")
	require.Regexp(t, `^stint-token-8300=`+inCookie(token)+`; Path=/stint; HttpOnly; SameSite=Strict$`, cookie)
	require.Contains(t, send(t, p, http.MethodGet, "/stint/?token=wrong", "").body, "This is not the token")

	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	a = send(t, p, http.MethodPost, "/stint/login", "to=%2Fstint%2Fworkers&token="+token, form...)
	require.Equal(t, "/stint/workers", a.header.Get("Location"))
	for _, away := range []string{"https://evil.example/stint/", "//evil.example/stint/", "/elsewhere", "javascript:alert(1)", "/stint/../x"} {
		to := send(t, p, http.MethodPost, "/stint/login", "to="+away+"&token="+token, form...).header.Get("Location")
		require.True(t, strings.HasPrefix(to, "/stint/"), to)
	}
	require.Equal(t, http.StatusUnauthorized, send(t, p, http.MethodPost, "/stint/login", "token=wrong", form...).status)
}

// U6: actions need to be allowed, and come as JSON from the page itself or a program.
func TestActions_NeedMore(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Actions: true})
	require.ErrorContains(t, err, "needs tokens")
	known, token := tokens.Made()
	looking, _ := setup(t, Options{Loopback: true, Tokens: known})
	acting, tc := setup(t, Options{Loopback: true, Tokens: known, Actions: true})
	headers := []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	stop := func(p *Page, body string, more ...string) asked {
		return send(t, p, http.MethodPost, api+"/nightly/pause", body, append(headers, more...)...)
	}
	require.Equal(t, http.StatusForbidden, stop(looking, "{}").status)
	require.Contains(t, stop(looking, "{}").body, "--allow-actions")
	require.Equal(t, http.StatusForbidden, stop(acting, "{}", "Sec-Fetch-Site", "cross-site").status)
	require.Equal(t, http.StatusForbidden, stop(acting, "{}", "Sec-Fetch-Site", "same-site").status)
	require.Equal(t, http.StatusUnsupportedMediaType, stop(acting, "{}", "Content-Type", "text/plain").status)
	require.Equal(t, http.StatusBadRequest, stop(acting, `{"unknown":1}`).status)
	require.Equal(t, http.StatusNotFound, send(t, acting, http.MethodGet, api+"/nightly/pause", "", headers...).status)

	tc.On("SignalWorkflow", mock.Anything, "nightly", "", wire.SignalPause, wire.Pause{}).Return(nil).Once()
	a := stop(acting, "{}", "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.JSONEq(t, `{"command":"stint pause nightly","said":"The job is to pause."}`, a.body)
}

// U3: what a browser may load is what this server has.
func TestPolicy(t *testing.T) {
	t.Parallel()
	p, err := New(Options{})
	require.NoError(t, err)
	for _, path := range []string{"/stint/", "/stint/none", api, "/stint/assets/page.js"} {
		h := send(t, p, http.MethodGet, path, "").header
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	}
	for name, page := range map[string]string{"style": "style=", "event": " on"} {
		for _, file := range append([]string{"layout", "parts"}, pages...) {
			text, err := assets.ReadFile("assets/" + file + ".html")
			require.NoError(t, err)
			if name == "style" {
				require.NotContains(t, string(text), page, file)
			} else {
				require.NotRegexp(t, `\son\w+=`, string(text), file)
			}
		}
	}
}

// inCookie is a token as cookies have it.
func inCookie(token string) string { return base64.RawURLEncoding.EncodeToString([]byte(token)) }

// Whatever bytes a token has, the browser's cookie brings it back.
func TestX2_TokensInCookies(t *testing.T) {
	t.Parallel()
	const token = `0123";\,=äöü-456789`
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
	known, err := tokens.Read(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	p, err := New(Options{Loopback: true, Tokens: known})
	require.NoError(t, err)
	a := send(t, p, http.MethodGet, "/stint/?token="+url.QueryEscape(token), "")
	require.Equal(t, http.StatusSeeOther, a.status)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	require.Equal(t, http.StatusServiceUnavailable, send(t, p, http.MethodGet, api, "", "Cookie", cookie).status, "it has no server yet")
}
