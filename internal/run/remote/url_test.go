package remote

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stint-run/stint/internal/run/command"
)

func oneItem(item command.Item) []command.Item { return []command.Item{item} }

// H4.
func TestURL_Values(t *testing.T) {
	t.Parallel()
	item := object(`{"id": "a b%2F?#é;x", "n": 5, "q": "x&y=/..", "dot": "..", "o": {"k": [1]}}`)
	for template, want := range map[string]string{
		"https://example.com":                        "https://example.com",
		"HTTPS://Example.com:443/a":                  "https://example.com/a",
		"http://[::1]:8080/{n}":                      "http://[::1]:8080/5",
		"https://example.com/v1/{id}/x":              "https://example.com/v1/a%20b%252F%3F%23%C3%A9%3Bx/x",
		"https://example.com/{n}?q={q}&n={n}":        "https://example.com/5?q=x%26y%3D%2F..&n=5",
		"https://example.com?{n}":                    "https://example.com?5",
		"https://example.com/{{{n}}}":                "https://example.com/%7B5%7D",
		"https://example.com/a{dot}b":                "https://example.com/a..b",
		"https://example.com/x?o={o.k}":              "https://example.com/x?o=%5B1%5D",
		"https://example.com/models/m:predict?v={n}": "https://example.com/models/m:predict?v=5",
	} {
		u, err := parseURL(template)
		require.NoError(t, err, template)
		got, err := u.of(&item)
		require.NoError(t, err, template)
		require.Equal(t, want, got.String(), template)
	}
}

func TestURL_Refuses(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{url}":                            "items do not choose them",
		"{scheme}://example.com":           "items do not choose them",
		"https://{host}/x":                 "{host} stands in the host or port",
		"https://example.com{x}":           "{x} stands in the host or port",
		"https://example.com:{port}/":      "{port} stands in the host or port",
		"https://{sub}.example.com/":       "{sub} stands in the host or port",
		"https://user:{x}@example.com/":    "{x} stands in the host or port",
		"https://user:pw@example.com/":     "use the header Authorization",
		"ftp://example.com/":               "begin with http:// or https://",
		"example.com/x":                    "begin with http:// or https://",
		"https:///x":                       "no host given",
		"https://example.com/#{x}":         "have no place in it",
		`https://example.com\@evil.com/`:   "have no place in it",
		"https://example.com/a/../{x}":     ". or .. between slashes",
		"https://example.com/a/%2e%2e/{x}": ". or .. between slashes",
		"https://example.com/{x y!}":       "there is no placeholder",
		"https://example.com/%zz":          "invalid URL escape",
		"":                                 "begin with http:// or https://",
	} {
		_, err := parseURL(template)
		require.ErrorContains(t, err, want, template)
	}
}

func TestURL_ItemsWithoutOne(t *testing.T) {
	t.Parallel()
	u, err := parseURL("https://example.com/v1/{id}/.{part}?q={q}")
	require.NoError(t, err)
	for data, want := range map[string]string{
		`{"id": "..", "part": "x", "q": 1}`:    ". or .. between slashes",
		`{"id": ".", "part": "x", "q": 1}`:     ". or .. between slashes",
		`{"id": "x", "part": ".", "q": 1}`:     ". or .. between slashes",
		`{"id": "a/b", "part": "x", "q": 1}`:   "{id}: the value has a slash",
		`{"id": "a\\b", "part": "x", "q": 1}`:  "{id}: the value has a slash",
		`{"id": "", "part": "x", "q": 1}`:      "{id}: the value is empty",
		`{"id": "a\nb", "part": "x", "q": 1}`:  "{id}: the value has a control character",
		`{"id": "x", "part": "x"}`:             `{q}: the item has no field "q"`,
		`{"id": null, "part": "x", "q": 1}`:    "{id}: the value is null",
		`{"id": {"a": 1}, "part": "/", "q":1}`: "{part}: the value has a slash",
	} {
		item := object(data)
		_, err := u.of(&item)
		require.ErrorContains(t, err, want, data)
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://Example.com/path?x": "https://example.com",
		"http://example.com:80":      "http://example.com",
		"http://example.com:":        "http://example.com",
		"https://example.com:80":     "https://example.com:80",
		"http://[FE80::1]":           "http://[fe80::1]",
		"http://[::1]:9000/":         "http://[::1]:9000",
	} {
		got, err := Origin(address)
		require.NoError(t, err, address)
		require.Equal(t, want, got)
	}
}
