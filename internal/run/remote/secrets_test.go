package remote

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const secret = `sk-<a/b>&"c"+é\d-1234567890`

// A server that repeats a key in its error, in whatever form, does not have it shown.
func TestSecrets_Echoed(t *testing.T) {
	t.Parallel()
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	inner := string(quoted[1 : len(quoted)-1])
	echo := ""
	e := open(t, Options{
		Env: env("KEY", secret), Headers: []string{"Authorization: Bearer $KEY"},
		URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "Bearer "+secret, r.Header.Get("Authorization"))
			w.WriteHeader(400)
			_, _ = io.WriteString(w, echo)
		}),
	})
	for _, form := range []string{
		secret, inner, strings.ReplaceAll(inner, "/", `\/`), url.QueryEscape(secret), url.PathEscape(secret), percent(secret),
		lowerHex(url.QueryEscape(secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("a:" + secret)), base64.StdEncoding.EncodeToString([]byte("ab:" + secret + "\n")),
		base64.URLEncoding.EncodeToString([]byte("abc:" + secret + "zz")),
	} {
		echo = "wrong: [" + form + "] " + form
		f := faultOf(t, e, line("x"))
		require.Contains(t, f.Message, "…", form)
		for _, piece := range []string{"1234567890", "MTIzNDU2Nzg5", form} {
			require.NotContains(t, f.Message, piece)
		}
		require.False(t, sharesRun(f.Message, form, 14), "%s of %s", f.Message, form)
	}
}

// sharesRun reports whether two texts share so many characters in a row.
func sharesRun(a, b string, n int) bool {
	for i := 0; i+n <= len(b); i++ {
		if strings.Contains(a, b[i:i+n]) {
			return true
		}
	}
	return false
}

// A key that lies across the end of what is read of an answer is not shown either.
func TestSecrets_CutOff(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k3y", 2000)
	e, err := New(Options{URL: "https://example.com", Env: env("KEY", long), Headers: []string{"X-Api-Key: $KEY"}})
	require.NoError(t, err)
	for _, cut := range []int{len(long) - 1, 4, 1000} {
		require.Equal(t, "x:", e.start([]byte("x:"+long[:cut])))
	}
	require.Equal(t, "x:…", e.start([]byte("x:"+long)))
}

func TestSecrets_WhatIsOne(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("ann:opensesame"))
	for given, hidden := range map[string][]string{
		"Authorization: Bearer abcdefgh": {"abcdefgh", "Bearer abcdefgh"},
		"Authorization: Basic " + basic:  {basic, "opensesame", "ann:opensesame"},
		"X-API-Key: abcdefgh":            {"abcdefgh"},
		"api-key: abcdefgh":              {"abcdefgh"},
		"x-goog-api-key: abcdefgh":       {"abcdefgh"},
		"X-Other: $VAR/5":                {"in-the-environment"},
	} {
		e, err := New(Options{URL: "https://example.com", Headers: []string{given}, Env: env("VAR", "in-the-environment")})
		require.NoError(t, err)
		for _, s := range hidden {
			require.Equal(t, "<…>", e.Redact("<"+s+">"), given)
		}
		require.Equal(t, "ann eu plain Bearer", e.Redact("ann eu plain Bearer"))
	}
	e, err := New(Options{URL: "https://example.com", Headers: []string{"X-Region: $R", "X-Plain: visible"}, Env: env("R", "eu")})
	require.NoError(t, err)
	require.Equal(t, "eu visible", e.Redact("eu visible"), "too short to be one, and no secret's header")
}
