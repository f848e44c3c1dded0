package remote

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/base/text"
)

// Whatever a value is, a body is JSON whose fields hold it exactly, and a URL keeps its origin and the beginning of its
// path.
func FuzzTemplates(f *testing.F) {
	for _, seed := range []string{
		"", "a", `"`, `\`, `\"`, "{}", "{{", "}}", `","evil":"`, "\x00\r\n", "\u2028<>&", "é", "\xff", "..", ".", "%2e%2e", "../../x", `..\x`, "//evil.com",
		"@evil.com", ":80", "?x=1", "#x", "%00", "a/../b", "..%2f", ";x", " ",
	} {
		f.Add(seed)
	}
	body, err := parseJSONBody(`{"in": "{v}", "around": "<{v}>", "bare": {v}, "whole": {}, "list": ["{v}", {v}]}`)
	require.NoError(f, err)
	u, err := parseURL("https://example.com:8443/v1/items/{v}/x-{v}?q={v}&r=1")
	require.NoError(f, err)
	h, err := parseHeader("X-Value: <{v}>", nil, &redactor{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, value string) {
		if !utf8.ValidString(value) {
			return // which no item in JSON has
		}
		quoted, err := text.JSON(map[string]string{"v": value})
		require.NoError(t, err)
		item := object(string(quoted))

		made, err := body.append(nil, &item)
		require.NoError(t, err)
		var got struct {
			In, Around, Bare string
			Whole            map[string]string
			List             []string
		}
		d := json.NewDecoder(strings.NewReader(string(made)))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&got), "%s", made)
		require.Equal(t, []string{value, "<" + value + ">", value, value}, []string{got.In, got.Around, got.Bare, got.Whole["v"]})
		require.Equal(t, []string{value, value}, got.List)

		if at, err := u.of(&item); err == nil {
			require.Equal(t, []string{"https", "example.com:8443", ""}, []string{at.Scheme, at.Host, at.Fragment})
			require.True(t, strings.HasPrefix(at.EscapedPath(), "/v1/items/"), at)
			require.Equal(t, "/v1/items/"+value+"/x-"+value, at.Path)
			require.Equal(t, 3, strings.Count(at.Path, "/")-1)
			require.Equal(t, map[string][]string{"q": {value}, "r": {"1"}}, map[string][]string(at.Query()))
			require.NotContains(t, strings.Split(at.Path, "/"), "..")
		}
		if got, err := h.of(&item); err == nil {
			require.Equal(t, "<"+value+">", got)
			require.False(t, strings.ContainsAny(got, "\r\n\x00"))
		}
	})
}
